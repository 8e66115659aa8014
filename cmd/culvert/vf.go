package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status/pick"
	"github.com/culvert-net/culvert/internal/node/status/text"
)

func newVFCommand(p *place) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "vf",
		Aliases: []string{"vfs"},
		Short:   "Show Virtual Functions with their owners and settings",
		Long: `A Virtual Function (VF) is a slice of a NIC that a pod or a virtual machine uses
directly. culvertd makes them, gives them out, and takes them back clean.

A VF is named by any of

  enp1s0f0#3          its Physical Function (PF) and index
  0000:01:10.6        its PCI address
  enp1s0f0v3          its netdevice
  default/a           its owner: namespace/pod, container ID, virtual machine`,
		Example: `  culvert vf list
  culvert vf show enp1s0f0#3
  culvert vf show default/a
  culvert vf top`,
	}
	if !p.wanted { // kubectl's plugin changes nothing, and a cluster's objects have no counters
		cmd.AddCommand(newVFHistoryCommand(p), newVFRebaseCommand(p), newVFTopCommand(p))
	}
	return cli.Group(cmd, newVFListCommand(p), newVFShowCommand(p), newVFWatchCommand(p))
}

func newVFListCommand(p *place) *cobra.Command {
	var filter pick.Filter
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the VFs: phase, owner, network, addresses, settings",
		Long: `Lists the VFs of this node or of a cluster, one a line. SETTINGS are those that
differ from the VF's baseline, as read back from the kernel; only the node itself
knows them. A ! after the phase marks a VF with a problem; culvert vf show
explains it.

Phases: making, free, prepared (for a ResourceClaim), configuring, attached,
releasing, quarantined (it could not be reset), damaged (its record in the ledger
cannot be read).

More states:

  given      the kubelet gave it to a pod that has no network for it, such as a
             vfio device
  unmanaged  the ledger does not have it
  missing    the ledger has it, and it is not on the bus`,
		Example: `  culvert vf list
  culvert vf list --pf enp1s0f0 --phase free
  culvert vf list --pool intel_sriov_netdevice -o wide
  culvert vf list -o json | jq -r '.[] | select(.owner).owner.name'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := addOutput(cmd, true)
	addFilter(cmd, p, &filter)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		st, err := p.mergedStatus(cmd.Context())
		if err != nil {
			return err
		}
		vfs, err := filter.VFs(st)
		if err != nil {
			return err
		}
		return out.writeValue(cmd, vfs, func(o text.Options) string { return text.VFs(vfs, st.Time, o) })
	}
	return cmd
}

// addFilter gives cmd the flags that select VFs.
func addFilter(cmd *cobra.Command, p *place, filter *pick.Filter) {
	f := cmd.Flags()
	f.StringVar(&filter.PF, "pf", "", "only those of this PF")
	f.StringVar(&filter.Pool, "pool", "", "only those of this pool, as prefix/name or name")
	cli.AddChoice(cmd, &filter.Phase, "phase", "only those in this phase", pick.Phases()...)
	f.StringVar(&filter.Owner, "owner", "", "only those of this owner, e.g. default/a")
	p.completeFlag(cmd, "pf", pick.PFs)
	p.completeFlag(cmd, "pool", pick.Pools)
	p.completeFlag(cmd, "owner", pick.Owners)
}

func newVFShowCommand(p *place) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show VF",
		Short: "Show everything about one VF, or about all VFs of an owner",
		Long: `Shows the VF, its owner and the time since when, its network and addresses. It
shows each setting in four columns: the owner's request, the kernel's value now,
the value when the VF was clean, and whether the PF's driver has that setting.
Where the driver rounds a rate, the first two columns differ.

Problems are at the end: for a VF with an owner, differences from its lease; for
any other, from its baseline. A cluster's objects have no settings and no times:
the command shows these on the node itself.`,
		Example: `  culvert vf show enp1s0f0#3
  culvert vf show 0000:01:10.6 -o yaml
  culvert vf show default/a`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeWords(pick.IDs),
	}
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st, err := p.mergedStatus(cmd.Context())
		if err != nil {
			return err
		}
		vfs, err := pick.VF(st, args[0])
		if err != nil {
			return err
		}
		return out.writeValue(cmd, vfs, func(o text.Options) string { return showAll(vfs, st, o) })
	}
	return cmd
}

func showAll(vfs []api.VF, st api.NodeStatus, o text.Options) string {
	screens := make([]string, len(vfs))
	for i, v := range vfs {
		screens[i] = text.VF(v, st, o)
	}
	return strings.Join(screens, "\n")
}
