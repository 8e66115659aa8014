package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/rpc"
)

// node is the culvertd that the commands ask.
type node struct{ socket string }

// statusBound is how long a look at the node may take, completionBound how
// long a person who pressed Tab waits.
const (
	statusBound     = 30 * time.Second
	completionBound = 2 * time.Second
)

func (n *node) status(ctx context.Context) (st api.NodeStatus, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusBound)
	defer cancel()
	err = rpc.Call(ctx, n.socket, "status", nil, &st)
	return st, err
}

// complete offers words of the node's status; none when culvertd does not
// answer.
func (n *node) complete(words func(api.NodeStatus) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionBound)
		defer cancel()
		st, err := n.status(ctx)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(st), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag is complete for the value of a flag.
func (n *node) completeFlag(cmd *cobra.Command, flag string, words func(api.NodeStatus) []string) {
	complete := n.complete(words)
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, start)
	})
	cobra.CheckErr(err) // only if the flag were not there
}
