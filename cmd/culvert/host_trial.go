package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/rpc"
)

// longestTrial is the longest time in which culvertd waits for culvert host confirm.
const longestTrial = 24 * time.Hour

// tryHost puts a host.yaml on trial. It shows what going back does not undo before anything changes.
// At a terminal it waits for the answer.
func tryHost(cmd *cobra.Command, n *node, req api.HostRequest, window time.Duration, out output) error {
	o := out.textOptions(cmd)
	req.ForTrial = true
	var plan api.Plan
	if err := rpc.Call(cmd.Context(), n.socket, api.MethodHostPlan, req, &plan); err != nil {
		return err
	}
	if !out.IsForPrograms() {
		if _, err := io.WriteString(cmd.OutOrStdout(), o.Fit(text.Plan(plan, o))); err != nil {
			return err
		}
	}
	var result api.ApplyResult
	try := api.HostTryRequest{File: req.File, Content: req.Content, Seconds: int(window / time.Second)}
	if err := rpc.Call(cmd.Context(), n.socket, api.MethodHostTry, try, &result); err != nil {
		return err
	}
	if out.IsForPrograms() {
		return errors.Join(cli.Encode(cmd.OutOrStdout(), out.String(), result), text.NotApplied(req.File, result))
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), o.Fit(text.Tried(result, time.Now(), o))); err != nil {
		return err
	}
	if !result.Applied || result.Trial == nil || !isTerminal(cmd.InOrStdin()) {
		return text.NotApplied(req.File, result)
	}
	return errors.Join(askToKeep(cmd, n, result.Trial.Until), text.NotApplied(req.File, result))
}

func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// askToKeep waits for Enter or yes, which confirm the trial, for an interrupt, which ends it, or for
// its end.
func askToKeep(cmd *cobra.Command, n *node, until time.Time) error {
	out, late := cmd.OutOrStdout(), time.After(time.Until(until))
	answers := readAnswers(cmd.Context(), cmd.InOrStdin())
	for {
		fmt.Fprint(out, "Press Enter to keep it, or Ctrl-C to go back now: ")
		select {
		case answer, isThere := <-answers:
			switch {
			case !isThere:
				fmt.Fprintln(out)
				return fmt.Errorf("host.yaml is not confirmed, and the terminal takes no answer any more: culvertd goes back at %s, unless culvert host confirm comes before",
					until.Local().Format(time.TimeOnly))
			case slices.Contains([]string{"", "y", "yes"}, strings.ToLower(answer)):
				return confirmHost(cmd.Context(), cmd, n)
			}
			fmt.Fprintf(out, "%q is no answer. ", answer)
		case <-cmd.Context().Done():
			fmt.Fprintln(out)
			return revertAfterInterrupt(cmd, n)
		case <-late:
			fmt.Fprintln(out)
			return errors.New("host.yaml was not confirmed in time: culvertd goes back to the one before it: culvert status shows when that is done")
		}
	}
}

// revertAfterInterrupt ends the trial though the command's context has ended.
func revertAfterInterrupt(cmd *cobra.Command, n *node) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), statusBound)
	defer cancel()
	return revertHost(ctx, cmd, n)
}

// readAnswers sends the lines of in without the spaces around them, and closes the channel at the end
// of in.
func readAnswers(ctx context.Context, in io.Reader) <-chan string {
	answers := make(chan string)
	go func() { // ends with in, with ctx, or with the program
		defer close(answers)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case answers <- strings.TrimSpace(lines.Text()):
			case <-ctx.Done():
				return
			}
		}
	}()
	return answers
}

func confirmHost(ctx context.Context, cmd *cobra.Command, n *node) error {
	var kept api.HostTrial
	if err := rpc.Call(ctx, n.socket, api.MethodHostConfirm, nil, &kept); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "host.yaml of %s stays.\n", kept.Began.Local().Format("15:04:05"))
	return nil
}

func revertHost(ctx context.Context, cmd *cobra.Command, n *node) error {
	var result api.ApplyResult
	if err := rpc.Call(ctx, n.socket, api.MethodHostRevert, nil, &result); err != nil {
		return err
	}
	if result.Trial != nil {
		return errors.New("host.yaml goes back, and waits for owners of VFs or another problem: culvert status shows what is left")
	}
	fmt.Fprintln(cmd.OutOrStdout(), "The host.yaml before the trial is in force again.")
	return nil
}

func newHostConfirmCommand(n *node) *cobra.Command {
	return &cobra.Command{
		Use:   "confirm",
		Short: "Keep the host.yaml that is on trial",
		Long: `Ends the trial that culvert host apply --confirm began. The host.yaml stays, and
culvertd no longer goes back to the one before it.`,
		Example: `  sudo culvert host apply --confirm 60s ./host.yaml
  sudo culvert host confirm`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return confirmHost(cmd.Context(), cmd, n) },
	}
}

func newHostRevertCommand(n *node) *cobra.Command {
	return &cobra.Command{
		Use:   "revert",
		Short: "Go back from the host.yaml that is on trial, before its time is up",
		Long: `Ends the trial that culvert host apply --confirm began. culvertd brings the
host.yaml before it back, with the number of VFs, the MTU and the addresses of
each PF that the trial changed. No owner loses a VF by that: culvertd waits for
those that have one, and culvert status names them.`,
		Example: `  sudo culvert host apply --confirm 10m ./host.yaml
  sudo culvert host revert`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return revertHost(cmd.Context(), cmd, n) },
	}
}
