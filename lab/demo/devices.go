package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/lab/parts"
)

// devicePool is the pool of the VFs that DPDK drives: the last two of each node's uplink.
const devicePool = "culvert.dev/dpdk"

const deviceYAML = `pfs:
- name: enp1s0
  vfs: 7
- name: enp2s0
  vfs: 7
pools:
- name: dpdk
  deviceType: vfio-pci
  selectors:
    pfNames: ["enp1s0#5-6"]
`

// deviceHugePages are the pages of 2 MiB of each node: the two testpmds of the first one take 64 MiB
// each.
const deviceHugePages = 96

// LendDevices is LendEnds with other ends: two VFs of the first node, where frames start and stop, and
// one of the second node between them. Culvert has bound them to vfio-pci, and the nodes have
// dpdk-testpmd and huge pages.
func LendDevices(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	return lend(ctx, in, out, func(ctx context.Context) (*ends, error) {
		return bootNodes(ctx, o, deviceYAML, func(ctx context.Context, e *ends, d *demo) error { return e.prepareDevices(ctx, d) })
	})
}

func (e *ends) prepareDevices(ctx context.Context, d *demo) error {
	tree, err := parts.Fetch(ctx, d.Source, "dpdk", d.Step)
	if err != nil {
		return err
	}
	d.Step("installing DPDK's testpmd; setting %d huge pages of 2 MiB aside on each node", deviceHugePages)
	var found [nodeCount][]string
	var g errgroup.Group
	for i, n := range d.nodes {
		g.Go(func() (err error) {
			if err := n.Lab.LayOver(ctx, n.Name, tree); err != nil {
				return fmt.Errorf("install testpmd on %s: %w", n.Name, err)
			}
			if _, err := n.Run(ctx, "sysctl", "--quiet", "--write", fmt.Sprintf("vm.nr_hugepages=%d", deviceHugePages)); err != nil {
				return err
			}
			found[i], err = awaitDevices(ctx, n, 2)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	e.From, e.Via, e.To = found[0][:1], found[1][0], found[0][1:2]
	return nil
}

// awaitDevices waits until culvertd has bound so many VFs.
func awaitDevices(ctx context.Context, n node.Node, want int) (places []string, err error) {
	const long = time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, long, fmt.Errorf("culvertd on %s has not bound %d VFs of %s to %s in %s", n.Name, want, devicePool, vf.DriverVFIO, long))
	defer cancel()
	for {
		if places, err = freeDevices(ctx, n); err != nil || len(places) >= want {
			return places, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// freeDevices returns the places of a node's free VFs that are bound to vfio-pci.
func freeDevices(ctx context.Context, n node.Node) (places []string, err error) {
	st, err := nodeStatus(ctx, n)
	for _, v := range st.VFs {
		if v.Pool == devicePool && v.Phase == string(vf.PhaseFree) && v.Driver == vf.DriverVFIO {
			places = append(places, n.Place("")+",pci="+v.PCI.String())
		}
	}
	slices.Sort(places)
	return places, err
}
