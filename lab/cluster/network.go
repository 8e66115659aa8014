package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// CNI is a default network that the pods of a cluster can have.
type CNI string

// The default networks. Each encapsulates in VXLAN over the first PF, with an MTU of 1450 bytes for
// pods.
const (
	Flannel CNI = "flannel"
	Calico  CNI = "calico"
	// CalicoCrossSubnet is Calico that encapsulates between subnets only. The nodes of a lab are on
	// one subnet, so that nothing is encapsulated.
	CalicoCrossSubnet CNI = "calico-crosssubnet"
)

// ParseCNI reads the name of a default network. Empty text is Flannel.
func ParseCNI(s string) (CNI, error) {
	switch n := CNI(s); n {
	case "":
		return Flannel, nil
	case Flannel, Calico, CalicoCrossSubnet:
		return n, nil
	}
	return "", fmt.Errorf("CNI %q: want %s, %s or %s", s, Flannel, Calico, CalicoCrossSubnet)
}

// Title returns the name of the project, for people.
func (n CNI) Title() string {
	switch n {
	case Calico:
		return "Calico (VXLAN)"
	case CalicoCrossSubnet:
		return "Calico (VXLAN CrossSubnet)"
	}
	return "Flannel"
}

func (n CNI) isCalico() bool { return n == Calico || n == CalicoCrossSubnet }

// InstallNetwork applies the objects of the cluster's default network.
func (c *Cluster) InstallNetwork(ctx context.Context) error {
	objects := []byte(flannelManifest)
	if c.CNI.isCalico() {
		var err error
		if objects, err = readCalico(c.Parts, c.CNI); err != nil {
			return err
		}
	}
	if _, err := c.KubectlIn(ctx, bytes.NewReader(objects), "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("install %s: %w", c.CNI.Title(), err)
	}
	return nil
}

// awaitNetwork waits until the default network is complete on all nodes.
func (p *plan) awaitNetwork(ctx context.Context) error {
	if !p.CNI.isCalico() {
		return nil
	}
	if _, err := p.Kubectl(ctx, "--namespace", "kube-system", "rollout", "status", "daemonset/calico-node", "--timeout="+readyTime.String()); err != nil {
		return err
	}
	return p.awaitBlocks(ctx)
}

// awaitBlocks waits until each node has a block of pods' addresses.
func (p *plan) awaitBlocks(ctx context.Context) error {
	for {
		routes, err := p.podRoutes(ctx)
		if err == nil && len(routes) < len(p.nodes) {
			err = fmt.Errorf("%d of %d nodes have a block of addresses", len(routes), len(p.nodes))
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(time.Second):
		}
	}
}

// networkLog returns an error with the last messages of a node's part of the default network.
func (c *Cluster) networkLog(ctx context.Context, node string) error {
	if !c.CNI.isCalico() {
		return runScript(ctx, c.Lab, node, `journalctl --no-pager --output cat --lines 15 --unit flanneld; exit 1`)
	}
	out, err := c.Kubectl(ctx, "--namespace", "kube-system", "logs", "--selector", "k8s-app=calico-node", "--all-containers", "--prefix", "--tail", "15")
	return errors.Join(err, fmt.Errorf("calico-node: %s", out))
}
