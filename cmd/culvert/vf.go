package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/cli"
	"github.com/culvert-net/culvert/status/pick"
	"github.com/culvert-net/culvert/status/text"
)

func newVFCommand(p *place) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "vf",
		Aliases: []string{"vfs"},
		Short:   "Show Virtual Functions: who has which, with what settings",
		Long: `A Virtual Function (VF) is a slice of a NIC that a pod or a virtual machine uses
directly. culvertd makes them, gives them out, and takes them back clean.

A VF is named by any of

  enp1s0f0#3          its Physical Function (PF) and index
  0000:01:10.6        its PCI address
  enp1s0f0v3          its netdevice
  default/a           its owner: namespace/pod, container ID, virtual machine`,
		Example: `  culvert vf list
  culvert vf show enp1s0f0#3
  culvert vf show default/a`,
	}
	if !p.wanted { // kubectl's plugin changes nothing
		cmd.AddCommand(newVFRebaseCommand(p))
	}
	return cli.Group(cmd, newVFListCommand(p), newVFShowCommand(p))
}

func newVFListCommand(p *place) *cobra.Command {
	var filter pick.Filter
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the VFs: phase, owner, network, addresses, settings",
		Long: `Lists the VFs of this node, one a line, or of a cluster. SETTINGS are those that
differ from what the VF was like when it was made and clean, as read back from
the kernel; only the node itself knows them. A phase with ! is of a VF that is
not as it should be; culvert vf show says how.

Phases: making, free, configuring, attached, releasing, quarantined
(it could not be reset), given (by the kubelet to a pod that has no network for
it: a vfio device, say), unmanaged (not in Culvert's ledger), and missing (in
the ledger, but not on the bus).`,
		Example: `  culvert vf list
  culvert vf list --pf enp1s0f0 --phase free
  culvert vf list --pool intel_sriov_netdevice -o wide
  culvert vf list -o json | jq -r '.[] | select(.owner).owner.name'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := addOutput(cmd, true)
	f := cmd.Flags()
	f.StringVar(&filter.PF, "pf", "", "only those of this PF")
	f.StringVar(&filter.Pool, "pool", "", "only those of this pool, as prefix/name or name")
	f.StringVar(&filter.Phase, "phase", "", "only those in this phase, e.g. free or attached")
	f.StringVar(&filter.Owner, "owner", "", "only those that this owner has, e.g. default/a")
	p.completeFlag(cmd, "pf", pick.PFs)
	p.completeFlag(cmd, "pool", pick.Pools)
	p.completeFlag(cmd, "owner", pick.Owners)
	p.completeFlag(cmd, "phase", pick.Phases)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		st, err := p.status(cmd.Context())
		if err != nil {
			return err
		}
		vfs, err := filter.VFs(st)
		if err != nil {
			return err
		}
		return out.write(cmd, vfs, func(o text.Options) string { return text.VFs(vfs, st.Time, o) })
	}
	return cmd
}

func newVFShowCommand(p *place) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show VF",
		Short: "Show everything about one VF, or about all VFs of an owner",
		Long: `Shows what a VF is, who has it and since when, its network and addresses, and
each setting in four columns: what its owner asked for, what the kernel says now,
what it was when the VF was clean, and whether the PF's driver has that setting
at all. Where the driver rounds a rate, the two first columns differ.

What is not as it should be stands at the end: for a VF that somebody has,
differences to what it was given; for any other, to its baseline. A cluster's
objects have no settings and no times: these are shown on the node itself.`,
		Example: `  culvert vf show enp1s0f0#3
  culvert vf show 0000:01:10.6 -o yaml
  culvert vf show default/a`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.complete(pick.IDs),
	}
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st, err := p.status(cmd.Context())
		if err != nil {
			return err
		}
		vfs, err := pick.VF(st, args[0])
		if err != nil {
			return err
		}
		return out.write(cmd, vfs, func(o text.Options) string { return showAll(vfs, st, o) })
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
