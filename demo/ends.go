package demo

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/culvert-net/culvert/demo/node"
	"github.com/culvert-net/culvert/lab"
)

// BenchName is the lab that Between boots.
const BenchName = "bench"

// Ends are what culvert bench measures between in a lab of its own: the networks of
// two nodes, and of a container on each with the demo's two interfaces, the overlay's
// and a VF. The second node's PF has an address in the VFs' subnet, as R0's gateway.
type Ends struct {
	From, To []string // as culvert bench run has them
	lab      *lab.Lab
}

// gateway is the PF's address in R0's subnet.
const gateway = "172.16.91.254/24"

// Between boots the lab. Down takes it down.
func Between(ctx context.Context, o Options) (_ *Ends, err error) {
	d, err := newDemo(o)
	if err != nil {
		return nil, err
	}
	d.steps = newSteps(o.Log, o.Live)
	defer d.steps.close()
	stage, err := d.stage(ctx)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(stage)
	l, err := lab.Up(ctx, lab.Options{Name: o.Name, Nodes: nodeCount, Progress: d.steps, Bound: true})
	if err != nil {
		return nil, err
	}
	e := &Ends{lab: l}
	if err := e.furnish(ctx, d, stage); err != nil {
		return nil, errors.Join(err, e.Down(ctx))
	}
	return e, nil
}

// furnish installs Culvert and makes the ends.
func (e *Ends) furnish(ctx context.Context, d *demo, stage string) error {
	d.nodes = node.Of(e.lab, nodeCount)
	if err := d.install(ctx, stage); err != nil {
		return err
	}
	d.step("making a container's network on each node: eth0 from the overlay, net1 a VF of %s", node.UplinkPF)
	if err := d.each(func(i int, n node.Node) error {
		_, err := plug(ctx, n, podNames[i])
		return err
	}); err != nil {
		return err
	}
	if _, err := d.nodes[1].Run(ctx, "ip", "address", "add", gateway, "dev", node.UplinkPF); err != nil {
		return err
	}
	for i, side := range []*[]string{&e.From, &e.To} {
		place := fmt.Sprintf("lab:%s/%s", d.Name, d.nodes[i].Name)
		*side = []string{place, place + ",netns=" + podNames[i]}
	}
	return nil
}

// Down takes the lab down, even when ctx has ended.
func (e *Ends) Down(ctx context.Context) error {
	return e.lab.Down(context.WithoutCancel(ctx))
}
