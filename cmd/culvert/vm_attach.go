package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/guests"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest/libvirt"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

func newVMAttachCommand(n *node) *cobra.Command {
	req := api.GuestXMLRequest{}
	var bond bool
	a := guests.Attachment{}
	cmd := &cobra.Command{
		Use:   "attach GUEST",
		Short: "Give a VF to a guest, as it runs and in its definition",
		Long: `Gives the guest, named by its name or UUID, a free VF of the pool. It puts the VF
into the running guest and into its definition, where there is one; --live or
--config selects one of them. If any step fails it changes nothing. Run again, it
changes nothing either.

--way is interface (<interface type='hostdev'>) or hostdev (<hostdev>, the only
one for a VLAN with priority, or of 802.1ad).

--bond gives two VFs of two PFs, with the same settings, as net1a and net1b (of
--device net1), for a bond in the guest: mode active-backup, fail_over_mac active.
--apart is for a VF of another PF than a device has that is there already.

--failover makes the VF the fast path of a virtio interface of the guest, which
has that alias, <teaming type='persistent'/> and the VF's MAC address (--mac). A
guest all of whose VFs are such can be migrated while it runs.

A guest that runs must have a free PCI slot to plug into: with machine type q35, a
<controller type='pci' model='pcie-root-port'/> for each.`,
		Example: `  culvert vm attach db1 --pool fast --vlan 100 --max-tx-rate 1000
  culvert vm attach db1 --pool fast --device net2 --config
  culvert vm attach db1 --pool fast --bond
  culvert vm attach db1 --pool fast --failover ua-slow --mac 02:00:00:00:00:07`,
		Args: cobra.ExactArgs(1),
	}
	settings := addRequest(cmd, &req, "interface", "hostdev", "network")
	f := cmd.Flags()
	f.BoolVar(&bond, "bond", false, "two VFs, of two PFs")
	f.BoolVar(&a.Live, "live", false, "the running guest, and not its definition")
	f.BoolVar(&a.Config, "config", false, "its definition, and not the running guest")
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		a.Guest = args[0]
		if req.Way == "network" {
			return errors.New("--way network: a network has to be defined first: culvert vm xml --way network prints it; or take interface or hostdev")
		}
		if req.Spec, err = settings.specOf(cmd); err != nil {
			return err
		}
		if a.Devices, err = pairRequests(req, bond); err != nil {
			return err
		}
		here, err := guests.Here(n.socket)
		if err != nil {
			return err
		}
		done, err := guests.Attach(cmd.Context(), here, a, func(string) {})
		if err != nil {
			return err
		}
		return out.writeValue(cmd, done, func(text.Options) string { return text.GuestAttached(done) })
	}
	return cmd
}

// pairRequests returns the request, or the two of a bond.
func pairRequests(req api.GuestXMLRequest, bond bool) ([]api.GuestXMLRequest, error) {
	switch {
	case !bond:
		return []api.GuestXMLRequest{req}, nil
	case req.Apart != "" || req.Failover != "":
		return nil, errors.New("--bond is of two VFs of two PFs, without --apart and --failover")
	}
	a, b := req, req
	a.Device, b.Device, b.Apart = req.Device+"a", req.Device+"b", req.Device+"a"
	return []api.GuestXMLRequest{a, b}, nil
}

func newVMDetachCommand(n *node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "detach GUEST [DEVICE]",
		Short: "Take VFs back from a guest",
		Long: `Takes the VFs of a guest, named by its name or UUID, or the one that is called
DEVICE. It takes them out of the running guest, which has to release them, and out
of its definition. culvertd resets each VF to its baseline, and reads it back. A
VF that cannot be reset is quarantined, with the reason, and tried again.

A guest that releases no device (such as one that has not booted) keeps it, and
nothing is changed. A guest that is shut down gives its VFs back by itself, and
gets them again when it starts.`,
		Example: `  culvert vm detach db1
  culvert vm detach db1 net1`,
		Args: cobra.RangeArgs(1, 2),
	}
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := api.GuestDetachRequest{Guest: args[0]}
		if len(args) > 1 {
			req.Device = args[1]
		}
		done, err := detachVFs(cmd.Context(), n, req)
		if err != nil {
			return err
		}
		return out.writeValue(cmd, done, func(text.Options) string {
			if len(done.VFs)+len(done.Devices) == 0 {
				return fmt.Sprintf("vm %s: there was no VF to take back\n", req.Guest)
			}
			return text.GuestDetached(done)
		})
	}
	return cmd
}

// detachVFs takes VFs back from a guest. Without libvirt it cannot change the guest:
// culvertd then decides by its ledger alone, and refuses a VF that a process has open.
func detachVFs(ctx context.Context, n *node, req api.GuestDetachRequest) (done api.GuestDetached, err error) {
	here, err := guests.Here(n.socket)
	if err != nil {
		return done, err
	}
	done, err = guests.Detach(ctx, here, req.Guest, req.Device, func(string) {})
	if !errors.Is(err, libvirt.ErrNone) && !errors.Is(err, vf.ErrNotReady) {
		return done, err
	}
	return done, rpc.Call(ctx, n.socket, api.MethodGuestDetach, req, &done)
}
