package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status/pick"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

func newVFRebaseCommand(p *place) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rebase VF...",
		Short: "Take the present state of a quarantined VF as its new baseline",
		Long: `culvertd compares a VF that comes back from its owner with its baseline: its state
when it was made and clean. The host may set up new interfaces in another way
since then, by another version of the driver, a .link file of udev, or a tool for
tuning. Then every VF that comes back differs and stays quarantined.

rebase shows how a VF differs. When --yes is given or a person agrees, culvertd
binds the VF's driver anew, so that nothing of the last owner is left. It takes
the interface's name, MTU, state and attributes as the new baseline. The VF is
free then.

It refuses a VF that is in use, and a difference in the settings that the PF holds
for the VF (MAC address, VLAN, spoof check, trust, rates). It also refuses a
difference that appears only while it works. A clean VF never has such
differences.`,
		Example: `  culvert vf list --phase quarantined
  sudo culvert vf rebase enp1s0f0#3          # says how it differs, and asks
  sudo culvert vf rebase enp1s0f0#3 enp1s0f0#4 --yes`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.completeWords(pick.IDs),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, without asking")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.inCluster() {
			return fmt.Errorf("culvert vf rebase works on this node alone: run it on the node that has the VF")
		}
		st, err := p.mergedStatus(cmd.Context())
		if err != nil {
			return err
		}
		var vfs []api.VF
		for _, arg := range args {
			found, err := pick.VF(st, arg)
			if err != nil {
				return err
			}
			vfs = append(vfs, found...)
		}
		var failed []error
		for _, v := range vfs {
			failed = append(failed, p.rebaseVF(cmd, v, yes))
		}
		return errors.Join(failed...)
	}
	return cmd
}

// rebaseVF shows how a VF differs from its baseline, asks the user, and makes culvertd
// take a new baseline.
func (p *place) rebaseVF(cmd *cobra.Command, v api.VF, yes bool) error {
	out := cmd.OutOrStdout()
	var seen, done api.Rebased
	if err := rpc.Call(cmd.Context(), p.socket, api.MethodRebase, api.RebaseRequest{VF: v.PCI}, &seen); err != nil {
		return err
	}
	if len(seen.Differences) == 0 {
		fmt.Fprintf(out, "%s (%s) is as its baseline says: there is nothing to take anew.\n", v.Name, v.PCI)
		return nil
	}
	fmt.Fprintf(out, "%s (%s) differs from its baseline:\n", v.Name, v.PCI)
	for _, d := range seen.Differences {
		fmt.Fprintf(out, "  %s\n", d)
	}
	if !yes && !askPerson(cmd, "Bind its driver anew, and take what is left of that as its baseline? [y/N] ") {
		return fmt.Errorf("%s: nothing was changed, since the answer was not y: run it again, or give --yes", v.Name)
	}
	if err := rpc.Call(cmd.Context(), p.socket, api.MethodRebase, api.RebaseRequest{VF: v.PCI, Accept: seen.Differences}, &done); err != nil {
		return err
	}
	if len(done.Differences) == 0 {
		fmt.Fprintf(out, "%s is free: with its driver bound anew it is as its baseline says.\n", v.Name)
		return nil
	}
	fmt.Fprintf(out, "%s is free. In its new baseline %s.\n", v.Name, vf.Differences(done.Differences))
	return nil
}
