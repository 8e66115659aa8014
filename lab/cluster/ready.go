package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

//go:embed files/flannel.yaml
var flannelManifest string

//go:embed files/coredns.yaml
var coreDNSManifest string

// joinAll makes all nodes join the cluster.
func (p *plan) joinAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if _, err := p.KubectlIn(ctx, strings.NewReader(coreDNSManifest), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := p.InstallNetwork(ctx); err != nil {
		return err
	}
	for i := range p.nodes {
		g.Go(func() error { return p.joinNode(ctx, i+1) })
	}
	return g.Wait()
}

// readyTime bounds the wait for nodes, on a host with much else to do.
const readyTime = 10 * time.Minute

// awaitNodes waits until all nodes are Ready.
func (p *plan) awaitNodes(ctx context.Context, step func(string, ...any)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTime, fmt.Errorf("not ready after %s", readyTime))
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	for _, n := range p.nodes {
		g.Go(func() error {
			if err := p.awaitNode(gctx, n.Name); err != nil {
				return err
			}
			step("%s is Ready", n.Name)
			return nil
		})
	}
	return g.Wait()
}

// awaitNode waits for one node.
func (p *plan) awaitNode(ctx context.Context, node string) error {
	for _, wanted := range []string{"create", "condition=Ready"} {
		if _, err := p.Kubectl(ctx, "wait", "--for="+wanted, "node/"+node, "--timeout="+readyTime.String()); err != nil {
			return errors.Join(err, p.lastWords(context.WithoutCancel(ctx), node))
		}
	}
	return nil
}

// A podRoute leads to the pods of one node.
type podRoute struct {
	node string
	pods netip.Prefix
}

// podRoutes returns the addresses that the pods of each node have: the node's pod CIDR, or its
// blocks of Calico's.
func (p *plan) podRoutes(ctx context.Context) (all []podRoute, err error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				PodCIDR netip.Prefix `json:"podCIDR"` // of a Node
				Node    string       `json:"node"`    // of a BlockAffinity
				CIDR    netip.Prefix `json:"cidr"`
			} `json:"spec"`
		} `json:"items"`
	}
	kind := "nodes"
	if p.CNI.isCalico() {
		kind = "blockaffinities.crd.projectcalico.org"
	}
	if err := p.Get(ctx, &list, kind); err != nil {
		return nil, err
	}
	for _, one := range list.Items {
		if p.CNI.isCalico() {
			all = append(all, podRoute{one.Spec.Node, one.Spec.CIDR})
		} else {
			all = append(all, podRoute{one.Metadata.Name, one.Spec.PodCIDR})
		}
	}
	return all, nil
}

// routePods gives the control plane routes to the pods of all nodes.
func (p *plan) routePods(ctx context.Context) error {
	routes, err := p.podRoutes(ctx)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if err := p.Lab.Route(ctx, r.pods, r.node); err != nil {
			return err
		}
	}
	return nil
}

// lastWords returns the last messages of a node that does not get Ready.
func (p *plan) lastWords(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return errors.Join(p.networkLog(ctx, node),
		runScript(ctx, p.Lab, node, `journalctl --no-pager --output cat --lines 15 --unit kubelet --unit `+p.Parts.Runtime.unit()+`; exit 1`))
}
