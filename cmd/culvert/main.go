// Command culvert is Culvert's command line: it shows and changes the NICs and VFs
// that culvertd owns. Its commands lab, bench and esxi exec the programs culvert-lab,
// culvert-bench and culvert-esxi.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/program"
	"github.com/culvert-net/culvert/internal/rpc"
)

func main() {
	os.Exit(cli.Run(newCommand(filepath.Base(os.Args[0]), os.Args[1:]), func(err error) string { return hintAbsence("/", err) }))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "culvert",
		Short: "SR-IOV Virtual Functions for pods and virtual machines",
		Long: `Culvert gives pods and virtual machines their own slice of the NIC, takes it back
clean, and measures the gain.

culvertd owns the Virtual Functions (VFs) of a node. This program shows their
state and passes your changes to culvertd. That needs root, since only root may
use culvertd's socket. culvert lab needs neither culvertd nor an SR-IOV NIC: it
boots machines that have both.`,
		Example: `  culvert status                       # this node, and its problems
  culvert status --cluster             # all of a Kubernetes cluster
  culvert vf list                      # the VFs and their owners
  culvert doctor                       # check that this host is fit for VFs
  culvert host plan ./host.yaml        # the effect of a change
  culvert lab up                       # try it without hardware
  culvert bench report result.json     # the gain of VFs`,
		Version:           version,
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
	root.AddCommand(newVMCommand(n), newEventsCommand(n), newHostCommand(n), newLedgerCommand(n), newDoctorCommand(p), newWhyCommand(p), newSupportCommand(n), newMetricsCommand(n), newNetCommand(), newMigrateCommand(), newVersionCommand(),
		newProgramCommand(program.Lab, "Boot nodes with emulated SR-IOV NICs"), newProgramCommand(program.Bench, "Measure what Virtual Functions gain"),
		newProgramCommand(program.ESXi, "Give VFs to the virtual machines of an ESXi host"))
	cli.Explain(root)
	return root
}
