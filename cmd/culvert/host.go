package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/rpc"
)

func newHostCommand(n *node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Declare how many VFs this host's NICs have, and its pools; install Culvert",
		Long: `/etc/culvert/host.yaml declares the VFs and pools of this host. culvertd applies
it at every boot, before kubelet and libvirtd start, with the same VFs and the
same MAC addresses every time.

  pfs:
  - name: enp1s0f0          # or a pattern such as enp1s0f*; or mac, pciAddress,
                            # vendor, device, driver
    vfs: 7                  # or max; 0 for none
    mtu: 9000               # left alone when not given
    addresses: [172.16.91.1/24]   # added to the PF, such as its VFs' gateway
    autoprobe: true         # the value of sriov_drivers_autoprobe
    needCarrier: true       # make VFs only when the cable is in
  pools:
  - name: intel_sriov_netdevice
    prefix: intel.com       # default culvert.dev
    deviceType: netdevice   # or vfio-pci
    drift: mend             # or report
    selectors:              # as in the SR-IOV device plugin; or a list of maps
      vendors: ["8086"]
      pfNames: ["enp1s0f0#0-3", "enp1s0f1"]

The first entry of pfs that matches a PF applies to it; Culvert leaves other PFs
alone. A VF is in the first pool that matches it. Selectors are vendors, devices,
drivers, pciAddresses, acpiIndexes, pfNames, rootDevices, linkTypes, isRdma and
needVhostNet. A pool may also have allow, which bounds the networks that use it,
and on a Kubernetes node excludeTopology, additionalInfo and cdi.
docs/reference/host.md has all keys.

The number of a PF's VFs cannot change while one of them has an owner: the kernel
removes all of them first. plan names the owners, and apply refuses.`,
		Example: `  culvert host validate ./host.yaml
  culvert host plan ./host.yaml
  sudo culvert host apply ./host.yaml`,
	}
	return cli.Group(cmd, newHostValidateCommand(), newHostPlanCommand(n), newHostApplyCommand(n), newHostConfirmCommand(n), newHostRevertCommand(n), newHostInstallCommand(), newHostUninstallCommand())
}

func newHostValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a host.yaml, without culvertd",
		Long: `Reads a host.yaml (default /etc/culvert/host.yaml; - is standard input) and lists
every mistake in it, by line. It needs no culvertd and no NIC. culvert host plan
checks whether the NICs can do it.`,
		Example: `  culvert host validate
  culvert host validate ./host.yaml && echo fine`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, spec, err := readHost(cmd, args)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is right: %d entries of pfs, %d pools\n", req.File, len(spec.PFs), len(spec.Pools))
			return nil
		},
	}
}

func newHostPlanCommand(n *node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [FILE]",
		Short: "Show what a host.yaml would change, and the owners that it would affect",
		Long: `Shows what applying a host.yaml (default /etc/culvert/host.yaml; - is standard
input) would change, PF by PF and VF by VF: + comes, - goes, ~ becomes something
else, ! is in the way. Nothing is changed.`,
		Example: `  culvert host plan ./host.yaml
  culvert host plan ./host.yaml -o json | jq '.pfs[].hurts'`,
		Args: cobra.MaximumNArgs(1),
	}
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req, _, err := readHost(cmd, args)
		if err != nil {
			return err
		}
		var plan api.Plan
		if err := rpc.Call(cmd.Context(), n.socket, api.MethodHostPlan, req, &plan); err != nil {
			return err
		}
		return out.writeValue(cmd, plan, func(o text.Options) string { return text.Plan(plan, o) })
	}
	return cmd
}

func newHostApplyCommand(n *node) *cobra.Command {
	var force bool
	var window time.Duration
	cmd := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Install a host.yaml, and apply it",
		Long: `Writes a host.yaml (default /etc/culvert/host.yaml, after an edit; - is standard
input) to /etc/culvert/host.yaml, as a whole or not at all, and applies it to the
NICs. It shows the plan as culvert host plan does, and returns when it is done.

If an owner would lose a VF, it changes nothing and names the owners. With --force
it takes their VFs from them: pods keep running without their network, and a
virtual machine loses a device while it runs.

With --confirm 60s the file is on trial. culvertd goes back to the host.yaml
before it, unless culvert host confirm (or Enter at this terminal) comes within
60 s after the work. It goes back also if this command or culvertd is killed, and
after a reboot at once. The command first shows what going back does not undo. A
trial takes no VF from an owner. VFs that get an owner meanwhile stay until their
release.

Exit status is 0 when everything is as the file says.`,
		Example: `  sudo culvert host apply ./host.yaml
  sudo culvert host apply --confirm 60s ./host.yaml
  sudoedit /etc/culvert/host.yaml && sudo culvert host apply`,
		Args: cobra.MaximumNArgs(1),
	}
	out := addOutput(cmd, false)
	cmd.Flags().BoolVar(&force, "force", false, "take VFs from their owners where the plan needs it")
	cli.AddTime(cmd, &window, "confirm", time.Second, longestTrial, "go back unless the file is confirmed within this time after it is applied")
	cmd.MarkFlagsMutuallyExclusive("force", "confirm")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req, _, err := readHost(cmd, args)
		if err != nil {
			return err
		}
		if window > 0 {
			return tryHost(cmd, n, req, window, out)
		}
		req.Force = force
		var result api.ApplyResult
		if err := rpc.Call(cmd.Context(), n.socket, api.MethodHostApply, req, &result); err != nil {
			return err
		}
		draw := func(o text.Options) string { return text.Applied(result, o) }
		return errors.Join(out.writeValue(cmd, result, draw), text.NotApplied(req.File, result))
	}
	return cmd
}

// readHost reads and checks the file that the arguments name.
func readHost(cmd *cobra.Command, args []string) (req api.HostRequest, spec desired.Spec, err error) {
	req.File = desired.DefaultPath
	if len(args) > 0 {
		req.File = args[0]
	}
	content, err := cli.ReadFile(cmd, req.File)
	if req.File == "-" {
		req.File = "standard input"
	}
	if errors.Is(err, fs.ErrNotExist) && len(args) == 0 {
		return req, spec, fmt.Errorf("%w: write one (culvert host --help shows how), or name a file", err)
	}
	if err != nil {
		return req, spec, err
	}
	req.Content = string(content)
	spec, err = desired.Parse(req.File, content)
	return req, spec, err
}
