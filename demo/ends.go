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
// and a VF; or of several containers that send to one. The second node's PF has an
// address in the VFs' subnet, as R0's gateway.
type Ends struct {
	From, To []string // as culvert bench run has them
	lab      *lab.Lab
}

// mostSenders is how many VFs the PF has.
const mostSenders = 7

// gateway is the PF's address in R0's subnet.
const gateway = "172.16.91.254/24"

// Between boots the lab. More than one sender are containers, and send to the one on the
// other node. Down takes the lab down.
func Between(ctx context.Context, o Options, senders int) (_ *Ends, err error) {
	if senders < 1 || senders > mostSenders {
		return nil, fmt.Errorf("%d senders: take 1 to %d, as many as the PF has VFs", senders, mostSenders)
	}
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
	if err := e.furnish(ctx, d, stage, senders); err != nil {
		return nil, errors.Join(err, e.Down(ctx))
	}
	return e, nil
}

// furnish installs Culvert and makes the ends.
func (e *Ends) furnish(ctx context.Context, d *demo, stage string, senders int) error {
	d.nodes = node.Of(e.lab, nodeCount)
	if err := d.install(ctx, stage); err != nil {
		return err
	}
	d.step("making containers' networks: eth0 from the overlay, net1 a VF of %s", node.UplinkPF)
	if err := d.each(func(i int, n node.Node) error {
		side := []*[]string{&e.From, &e.To}[i]
		place := fmt.Sprintf("lab:%s/%s", d.Name, n.Name)
		if senders == 1 {
			*side = append(*side, place)
		}
		count := []int{senders, 1}[i]
		for j := range count {
			name := podNames[i]
			if count > 1 {
				name = fmt.Sprintf("%s%d", name, j+1)
			}
			if _, err := plug(ctx, n, name); err != nil {
				return err
			}
			*side = append(*side, place+",netns="+name)
		}
		return nil
	}); err != nil {
		return err
	}
	_, err := d.nodes[1].Run(ctx, "ip", "address", "add", gateway, "dev", node.UplinkPF)
	return err
}

// Down takes the lab down, even when ctx has ended.
func (e *Ends) Down(ctx context.Context) error {
	return e.lab.Down(context.WithoutCancel(ctx))
}
