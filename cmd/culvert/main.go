// Command culvert is what a person runs: it shows and changes what culvertd
// owns, and it boots the lab.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/rpc"
	"github.com/culvert-net/culvert/suggest"
)

func main() {
	root := command(filepath.Base(os.Args[0]), os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root.ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	var exit exitError
	if errors.As(err, &exit) {
		os.Exit(int(exit))
	}
	fmt.Fprintln(os.Stderr, root.CommandPath()+":", err)
	os.Exit(1)
}

// exitError carries the exit status of a command that ran elsewhere (in a lab
// node, say) to the shell, without a message of ours.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

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
	root.AddCommand(newVMCommand(n), newEventsCommand(n), newHostCommand(n), newLedgerCommand(n), newDoctorCommand(n), newVersionCommand(), newLabCommand(), newBenchCommand())
	return root
}

// group makes cmd one that only has commands below it: alone it shows its
// help, and a word that is none of them is an error.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var known []string
		for _, c := range commands {
			known = append(known, c.Name())
		}
		return fmt.Errorf("%s has no command %q%s", cmd.CommandPath(), args[0], orList(suggest.DidYouMean(args[0], known), known))
	}
	return cmd
}

func orList(hint string, known []string) string {
	if hint == "" {
		return ": it has " + strings.Join(known, ", ")
	}
	return hint
}
