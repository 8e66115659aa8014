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
	if _, err := p.KubectlIn(ctx, strings.NewReader(flannelManifest+"---\n"+coreDNSManifest), "apply", "-f", "-"); err != nil {
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

// routePods gives the control plane routes to the pods of all nodes.
func (p *plan) routePods(ctx context.Context) error {
	var nodes struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				PodCIDR netip.Prefix `json:"podCIDR"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := p.Get(ctx, &nodes, "nodes"); err != nil {
		return err
	}
	for _, n := range nodes.Items {
		if err := p.Lab.Route(ctx, n.Spec.PodCIDR, n.Metadata.Name); err != nil {
			return err
		}
	}
	return nil
}

// lastWords returns the last messages of a node that does not get Ready.
func (p *plan) lastWords(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return runScript(ctx, p.Lab, node, `journalctl --no-pager --output cat --lines 15 --unit kubelet --unit flanneld --unit `+p.Parts.Runtime.unit()+`; exit 1`)
}
