// Command culvert is what a person runs: it shows and changes what culvertd
// owns. Its commands lab and bench exec the programs culvert-lab and culvert-bench.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/cli"
	"github.com/culvert-net/culvert/program"
	"github.com/culvert-net/culvert/rpc"
)

func main() {
	os.Exit(cli.Run(command(filepath.Base(os.Args[0]), os.Args[1:])))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "culvert",
		Short: "SR-IOV Virtual Functions for pods and virtual machines",
		Long: `Culvert gives pods and virtual machines their own slice of the NIC, takes it back
clean, and proves what was gained.

culvertd owns the Virtual Functions (VFs) of a node; this program asks it what is
there and tells it what is wanted. That needs root, since culvertd's socket is
root's. culvert lab needs neither culvertd nor an SR-IOV NIC: it boots machines
that have both.`,
		Example: `  culvert status                       # what this node has, and what is wrong
  culvert status --cluster             # all of a Kubernetes cluster
  culvert vf list                      # who has which VF
  culvert doctor                       # is this host fit, and what would mend it
  culvert host plan ./host.yaml        # what a change would do, and to whom
  culvert lab up                       # try it without hardware
  culvert bench report result.json     # what VFs gained`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	p := &place{}
	n := &p.node
	root.PersistentFlags().StringVar(&n.socket, "socket", rpc.DefaultSocket, "where culvertd listens")
	for _, cmd := range []*cobra.Command{newStatusCommand(p), newVFCommand(p), newPoolCommand(p)} {
		p.addFlags(cmd)
		cmd.PersistentFlags().BoolVar(&p.wanted, "cluster", false, "ask the cluster of the kubeconfig, not this node's culvertd")
		root.AddCommand(cmd)
	}
	root.AddCommand(newVMCommand(n), newEventsCommand(n), newHostCommand(n), newLedgerCommand(n), newDoctorCommand(p), newNetCommand(), newMigrateCommand(), newVersionCommand(),
		newProgramCommand(program.Lab, "Boot nodes with emulated SR-IOV NICs"), newProgramCommand(program.Bench, "Measure what Virtual Functions gain"))
	return root
}
