package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// BenchName is the lab that LendEnds boots.
const BenchName = "bench"

// ends are a lab that culvert bench measures in: the networks of two nodes, and of a
// container on each with the demo's two interfaces, the overlay's and a VF, and one of
// a VLAN of the PF; or of several such containers that send to one. The second node's PF has
// an address in the VFs' subnet, as R0's gateway. Beside the one sender is a container
// with a VF of the same PF.
type ends struct {
	place.LabEnds
	lab *lab.Lab
}

// mostSenders is how many VFs the PF has.
const mostSenders = 7

// nearName is the container beside the one sender.
const nearName = "near"

// gateway is the PF's address in R0's subnet.
const gateway = "172.16.91.254/24"

// LendEnds boots a lab and writes its [place.LabEnds] to out as one JSON object: the ends, or the
// reason why there are none. It takes the lab down when in ends or ctx does, so that no lab
// outlives the measurement.
func LendEnds(ctx context.Context, o Options, senders int, in io.Reader, out io.Writer) error {
	return lend(ctx, in, out, func(ctx context.Context) (*ends, error) { return bootEnds(ctx, o, senders) })
}

// lend boots a lab and writes its ends.
func lend(ctx context.Context, in io.Reader, out io.Writer, boot func(context.Context) (*ends, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the program
		_, _ = io.Copy(io.Discard, in) // an error is an end, too
		stop()
	}()
	e, err := boot(ctx)
	if err != nil {
		return json.NewEncoder(out).Encode(place.LabEnds{Error: err.Error()})
	}
	if err = json.NewEncoder(out).Encode(e.LabEnds); err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, e.takeDown(ctx))
}

// bootEnds boots the lab. If there are several senders, they are containers that send to the
// container on the other node.
func bootEnds(ctx context.Context, o Options, senders int) (*ends, error) {
	if senders < 1 || senders > mostSenders {
		return nil, fmt.Errorf("%d senders: take 1 to %d, as many as the PF has VFs", senders, mostSenders)
	}
	return bootNodes(ctx, o, hostYAML, func(ctx context.Context, e *ends, d *demo) error { return e.prepareEnds(ctx, d, senders) })
}

// bootNodes boots two nodes with Culvert and a host.yaml, and calls prepare, which makes the ends.
func bootNodes(ctx context.Context, o Options, hostYAML string, prepare func(context.Context, *ends, *demo) error) (*ends, error) {
	d, err := newDemo(o)
	if err != nil {
		return nil, err
	}
	d.Steps = lab.NewSteps(o.Log, o.Live)
	defer d.Steps.Close()
	stage, setup, err := d.stageFiles(ctx, hostYAML)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(stage)
	l, err := lab.Up(ctx, lab.Options{Name: o.Name, Nodes: nodeCount, Progress: d.Steps, Bound: true, Prepare: prepareSetup(setup)})
	if err != nil {
		return nil, err
	}
	e := &ends{LabEnds: place.LabEnds{Management: lab.MgmtInterface}, lab: l}
	d.nodes = node.Of(l, nodeCount)
	if err = d.installNodes(ctx, stage); err == nil {
		err = prepare(ctx, e, d)
	}
	if err != nil {
		return nil, errors.Join(err, e.takeDown(ctx))
	}
	return e, nil
}

// prepareEnds makes the containers' networks.
func (e *ends) prepareEnds(ctx context.Context, d *demo, senders int) error {
	d.Step("making containers' networks: eth0 from the overlay, net1 a VF of %s", node.UplinkPF)
	if err := eachNode(ctx, d.nodes, func(ctx context.Context, i int, n node.Node) error {
		side := []*[]string{&e.From, &e.To}[i]
		if senders == 1 {
			*side = append(*side, n.Place(""))
		}
		count := []int{senders, 1}[i]
		if senders == 1 && i == 0 {
			if _, err := plugPod(ctx, n, nearName); err != nil {
				return err
			}
			e.Near = n.Place(nearName)
		}
		for j := range count {
			name := nameContainer(i, j, count)
			if _, err := plugPod(ctx, n, name); err != nil {
				return err
			}
			*side = append(*side, n.Place(name))
		}
		return nil
	}); err != nil {
		return err
	}
	if err := plugVLANs(ctx, d.nodes, senders); err != nil {
		return err
	}
	_, err := d.nodes[1].Run(ctx, "ip", "address", "add", gateway, "dev", node.UplinkPF)
	return err
}

// nameContainer returns the name of the j-th of count containers of the i-th node, both from 0.
func nameContainer(i, j, count int) string {
	if count == 1 {
		return podNames[i]
	}
	return fmt.Sprintf("%s%d", podNames[i], j+1)
}

// firstVLAN is the VLAN between the first container that sends and the one that receives.
const firstVLAN = 97

// plugVLANs gives each container that sends an interface of a VLAN of its PF, and the container that
// receives one of each such VLAN, as R4's machines had. A PF has one interface of a VLAN, so each
// sender has a VLAN of its own. The emulated PF drops broadcasts with a tag, so the containers know
// each other's address.
func plugVLANs(ctx context.Context, nodes []node.Node, senders int) error {
	var macs []string
	for _, n := range nodes {
		mac, err := n.Run(ctx, "cat", "/sys/class/net/"+node.UplinkPF+"/address")
		if err != nil {
			return err
		}
		macs = append(macs, strings.TrimSpace(string(mac)))
	}
	return eachNode(ctx, nodes, func(ctx context.Context, i int, n node.Node) error {
		other := 1 - i
		for j := range senders {
			vlan := firstVLAN + j
			if _, err := n.Script(ctx, "make a VLAN's interface", `
				modprobe 8021q
				ip link add link "$1" name "vlan$3" type vlan id "$3"
				ip link set "vlan$3" netns "$2"
				in="ip -n $2"
				$in address add "$4/24" dev "vlan$3"
				$in link set "vlan$3" up
				$in neighbor add "$5" lladdr "$6" dev "vlan$3" nud permanent`,
				node.UplinkPF, nameContainer(i, j, []int{senders, 1}[i]), fmt.Sprint(vlan),
				vlanAddress(vlan, n), vlanAddress(vlan, nodes[other]), macs[other]); err != nil {
				return err
			}
		}
		return nil
	})
}

// vlanAddress returns the address of the node's container in a VLAN.
func vlanAddress(vlan int, n node.Node) string { return fmt.Sprintf("172.16.%d.%d", vlan, n.Number) }

// takeDown takes the lab down, even when ctx has ended.
func (e *ends) takeDown(ctx context.Context) error {
	return e.lab.Down(context.WithoutCancel(ctx))
}
