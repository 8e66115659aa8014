// Command culvert is what a person runs: it shows and changes what culvertd
// owns, and it boots the lab.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	var exit exitError
	if errors.As(err, &exit) {
		os.Exit(int(exit))
	}
	fmt.Fprintln(os.Stderr, "culvert:", err)
	os.Exit(1)
}

// exitError carries the exit status of a command that ran elsewhere (in a lab
// node, say) to the shell, without a message of ours.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "culvert",
		Short:         "SR-IOV Virtual Functions for pods and virtual machines",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newLabCommand())
	return root
}
