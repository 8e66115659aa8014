// Command culvert-lab boots machines with emulated SR-IOV NICs, to see Culvert work,
// to develop it and to test it, and shows the demos. `culvert lab` execs it.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/lab"
)

// version is set by the linker.
var version = "unknown"

func main() {
	lab.Reexec()
	os.Exit(cli.Run(newRoot()))
}

func newRoot() *cobra.Command {
	var name string
	root := cli.NewRoot("lab", version, &cobra.Command{
		Short: "Boot nodes with emulated SR-IOV NICs",
		Long: `Boots machines with emulated SR-IOV NICs (Intel 82576, driver igb, 7 VFs a PF)
to see Culvert work, to develop it and to test it. No hardware is needed, and
KVM is used where it works.

A lab is one to four Debian nodes, worker01 and up. Each has the PFs enp1s0 and
enp2s0; all first PFs are on one switch, all second ones on another. The lab
lives in a network namespace of its own and touches nothing of the host's.
'culvert lab down' leaves nothing but the cached image.`,
		Example: `  culvert lab up
  culvert lab exec worker01 -- ip link
  culvert lab link worker01 enp2s0 down
  culvert lab down`,
	},
		newUpCommand(&name), newStatusCommand(&name), newSSHCommand(&name), newExecCommand(&name),
		newCopyCommand(&name), newLinkCommand(&name), newRebootCommand(&name), newKillCommand(&name),
		newStartCommand(&name), newDownCommand(&name), newFastCommand(), newKubectlCommand(&name), newDemoCommand(&name), newEndsCommand(),
	)
	root.PersistentFlags().StringVar(&name, "name", lab.DefaultName, "which lab: several can be up side by side")
	return root
}
