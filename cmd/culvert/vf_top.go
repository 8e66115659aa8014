package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/node/status/flow"
	"github.com/culvert-net/culvert/internal/node/status/pick"
	"github.com/culvert-net/culvert/internal/node/status/text"
)

// newVFTopCommand needs the counters of a node, which a cluster's objects do not have.
func newVFTopCommand(p *place) *cobra.Command {
	var filter pick.Filter
	span := 2 * time.Second
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show which VFs send and receive most",
		Long: `Reads the counters of all VFs in use twice, and shows the traffic between: the
loudest VF first. A packet counts as dropped also if it had an error.

The counters are those of the VF's netdevice, wherever that is. For a VF of a
guest or of DPDK, the PF's driver must count; many do not (igb), and the VF then
has "-". They count frames with their headers.

In a cluster, ask the culvertd of a node:

  kubectl -n culvert-system exec culvertd-x7k2p -- culvert vf top`,
		Example: `  culvert vf top
  culvert vf top --for 30s --pf enp1s0f0
  culvert vf top -o json | jq -r '.[0].owner.name'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := addOutput(cmd, false)
	f := cmd.Flags()
	cli.AddTime(cmd, &span, "for", 100*time.Millisecond, time.Hour, "how long to count")
	f.StringVar(&filter.PF, "pf", "", "only those of this PF")
	f.StringVar(&filter.Pool, "pool", "", "only those of this pool, as prefix/name or name")
	f.StringVar(&filter.Owner, "owner", "", "only those of this owner, e.g. default/a")
	p.completeFlag(cmd, "pf", pick.PFs)
	p.completeFlag(cmd, "pool", pick.Pools)
	p.completeFlag(cmd, "owner", pick.Owners)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if p.inCluster() {
			return errors.New("culvert vf top works on this node alone, since a cluster's objects have no counters: in a cluster, run it in the culvertd of a node:\n" +
				"kubectl -n culvert-system exec culvertd-x7k2p -- culvert vf top")
		}
		before, err := p.node.readStatus(cmd.Context())
		if err != nil {
			return err
		}
		select {
		case <-time.After(span):
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
		after, err := p.node.readStatus(cmd.Context())
		if err != nil {
			return err
		}
		if after.VFs, err = filter.VFs(after); err != nil {
			return err
		}
		flows := flow.Between(before, after)
		return out.writeValue(cmd, flows, func(o text.Options) string { return text.Flows(flows, o) })
	}
	return cmd
}
