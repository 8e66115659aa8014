package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// ExitStatus is the error of a command that only sets the exit status; Run prints
// nothing for it. Commands that run another command, for example in a lab node,
// return it.
type ExitStatus int

func (e ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Run runs a program's command line until SIGINT or SIGTERM ends its context. It
// prints the error, if there is one, with what hints add to it, and returns the exit status. A hint
// returns lines of text, or "".
func Run(root *cobra.Command, hints ...func(error) string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root.ExecuteContext(ctx)
	stop()
	var exit ExitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	}
	// An error may repeat the text of a pod, another host or a file.
	fmt.Fprintln(root.ErrOrStderr(), root.CommandPath()+":", excerpt.Lines(err.Error()))
	for _, hint := range hints {
		fmt.Fprint(root.ErrOrStderr(), hint(err))
	}
	return 1
}
