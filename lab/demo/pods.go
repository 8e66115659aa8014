package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// vfDir holds the VF network's CNI configuration on a node.
const vfDir = "/etc/cni/vf.d"

// pod is a container with both interfaces.
type pod struct {
	node.Container
	overlay, vf     node.Attachment
	overlayIP, vfIP netip.Addr
}

// podNames and podCommands are those of R0's iperf3 pods, one on each node.
var (
	podNames    = [nodeCount]string{"client", "server"}
	podCommands = [nodeCount][]string{{"sleep", "infinity"}, {"iperf3", "-s"}}
)

// startPods does on each node what kubelet, a meta plugin and the device
// plugin do for a pod of R0.
func (d *demo) startPods(ctx context.Context) ([]*pod, error) {
	d.Step("starting a container on each node: eth0 from the overlay, net1 from Culvert by R0's NetworkAttachmentDefinition")
	pods := make([]*pod, nodeCount)
	err := eachNode(ctx, d.nodes, func(ctx context.Context, i int, n node.Node) error {
		p, err := startPod(ctx, n, podNames[i], podCommands[i])
		pods[i] = p
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, p := range pods {
		fmt.Fprintf(d.Steps, "         %s on %s: eth0 %s, net1 %s\n", podNames[i], p.Node.Name, p.overlayIP, p.vfIP)
	}
	return pods, nil
}

func startPod(ctx context.Context, n node.Node, name string, argv []string) (*pod, error) {
	p, err := plugPod(ctx, n, name)
	if err != nil {
		return nil, err
	}
	p.Container, err = n.Start(ctx, name, argv...)
	return p, err
}

// plugPod makes the network namespace of a pod, with both interfaces.
func plugPod(ctx context.Context, n node.Node, name string) (*pod, error) {
	device, err := freeVF(ctx, n)
	if err != nil {
		return nil, err
	}
	network, config, err := vfConfig(reportObjects, n.Number, device)
	if err != nil {
		return nil, err
	}
	if err := n.WriteFile(ctx, vfDir+"/10-vf.conf", config); err != nil {
		return nil, err
	}
	if err := n.AddNetns(ctx, name); err != nil {
		return nil, err
	}
	args := "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + name
	p := &pod{
		overlay: node.Attachment{Network: node.OverlayNetwork, Dir: node.OverlayDir, Netns: name, Interface: "eth0", Args: args},
		vf:      node.Attachment{Network: network, Dir: vfDir, Netns: name, Interface: "net1", Args: args},
	}
	if p.overlayIP, err = attachInterface(ctx, n, p.overlay); err != nil {
		return nil, err
	}
	p.vfIP, err = attachInterface(ctx, n, p.vf)
	return p, err
}

// attachInterface adds an interface and returns its address.
func attachInterface(ctx context.Context, n node.Node, a node.Attachment) (netip.Addr, error) {
	out, err := n.CNI(ctx, "add", a)
	if err != nil {
		return netip.Addr{}, err
	}
	var result struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return netip.Addr{}, fmt.Errorf("read the result of CNI ADD of %s: %w", a.Network, err)
	}
	if len(result.IPs) == 0 {
		return netip.Addr{}, fmt.Errorf("CNI ADD of %s gave no address: %s", a.Network, out)
	}
	return result.IPs[0].Address.Addr(), nil
}

// nodeStatus asks culvertd.
func nodeStatus(ctx context.Context, n node.Node) (api.NodeStatus, error) {
	var st api.NodeStatus
	out, err := n.Run(ctx, "culvert", "status", "-o", "json")
	if err == nil {
		err = json.Unmarshal(out, &st)
	}
	return st, err
}

// freeVF chooses as R0's device plugin does: any free VF of the pool. It takes
// one of the PF that carries the overlay, so that both ways share a wire.
func freeVF(ctx context.Context, n node.Node) (string, error) {
	st, err := nodeStatus(ctx, n)
	if err != nil {
		return "", err
	}
	for _, v := range st.VFs {
		if v.Pool == poolName && v.PF == node.UplinkPF && v.Phase == "free" {
			return v.PCI.String(), nil
		}
	}
	return "", fmt.Errorf("no VF of %s on %s is free in pool %s", node.UplinkPF, n.Name, poolName)
}

// showOwners prints the owner of each VF, and checks that culvertd's answer is right.
func (d *demo) showOwners(ctx context.Context) error {
	d.Step("who has which VF?")
	for i, n := range d.nodes {
		out, err := n.Run(ctx, "culvert", "vf", "list")
		if err != nil {
			return err
		}
		d.quoteOutput(n, "culvert vf list", out)
		if want := "default/" + podNames[i]; !strings.Contains(string(out), want) {
			d.noteProblem("culvert vf list on %s does not name %s", n.Name, want)
		}
	}
	return nil
}

// stopPods takes everything back, as kubelet does: the container, its
// interfaces, its network namespace.
func (d *demo) stopPods(ctx context.Context, pods []*pod) error {
	d.Step("deleting the containers: the VFs come back")
	return eachNode(ctx, d.nodes, func(ctx context.Context, i int, n node.Node) error {
		p := pods[i]
		if err := p.Delete(ctx); err != nil {
			return err
		}
		var g errgroup.Group
		for _, a := range []node.Attachment{p.vf, p.overlay} {
			g.Go(func() error {
				_, err := n.CNI(ctx, "del", a)
				return err
			})
		}
		return errors.Join(g.Wait(), n.DelNetns(ctx, podNames[i]))
	})
}

// compareVFs asks the kernel and culvertd whether every VF is as it was.
func (d *demo) compareVFs(ctx context.Context) error {
	d.Step("comparing every VF with what it was before: the kernel's word, and Culvert's")
	after, reported := make([]node.VFs, len(d.nodes)), make([]api.NodeStatus, len(d.nodes))
	err := eachNode(ctx, d.nodes, func(ctx context.Context, i int, n node.Node) (err error) {
		if after[i], err = d.kernel(ctx, n); err == nil {
			reported[i], err = d.culvert(ctx, n)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, n := range d.nodes {
		bad := map[string]bool{}
		for name, change := range d.before[i].Changes(after[i]) {
			bad[name] = true
			d.noteProblem("%s: the kernel says of %s: %s", n.Name, name, change)
		}
		for _, v := range reported[i].VFs {
			if v.Phase != "free" || len(v.Differences) > 0 {
				bad[v.Name] = true
				d.noteProblem("%s: culvertd says: %s is %s %s %v", n.Name, v.Name, v.Phase, v.Reason, v.Differences)
			}
		}
		d.result.Leaked += len(bad)
	}
	if d.result.Leaked == 0 {
		fmt.Fprintf(d.Steps, "         all %d are back at their baseline\n", d.result.VFsCreated)
	}
	return nil
}
