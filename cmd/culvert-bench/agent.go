package main

import (
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/internal/rpc"
)

func newAgentCommand() *cobra.Command {
	var expendable bool
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Take part in a measurement, at one end of a path",
		Long: `Runs at one end of a path, in its network namespace, and follows culvert bench's
orders on standard input. It sends or receives, and samples the machine's load and
counters meanwhile. It ends when standard input does, and leaves nothing behind.

culvert bench starts it where it is needed. By hand it is of little use.`,
		Example:           "  ip netns exec blue culvert bench agent",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Hidden:            true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A write to a conductor that is gone returns an error then, and does not end the agent before
			// it has undone what it set up.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			if expendable { // its memory is another program's; proc_pid_oom_score_adj(5)
				if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
					return err
				}
			}
			out := cmd.OutOrStdout()
			os.Stdout = nil // the ethtool library warns there, where the protocol is
			return agent.Run(cmd.Context(), cmd.InOrStdin(), out, agent.Options{
				Version: version, Culvertd: rpc.DefaultSocket,
				Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
			})
		},
	}
	cmd.Flags().BoolVar(&expendable, strings.TrimPrefix(place.Expendable, "--"), false, "be ended first where memory is short: the agent runs in another program's container")
	return cmd
}
