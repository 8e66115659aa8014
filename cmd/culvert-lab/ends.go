package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/lab/demo"
)

// newEndsCommand makes the command that `culvert bench run --lab` runs.
func newEndsCommand() *cobra.Command {
	o := demo.Options{Name: demo.BenchName, Log: os.Stderr, Live: cli.ScreenOf(os.Stderr, os.Getenv).Terminal}
	senders, dpdk := 1, false
	cmd := &cobra.Command{
		Use:   "ends",
		Short: "Lend culvert bench a lab to measure in",
		Long: `Boots two nodes with Culvert and containers, writes the places of a measurement's
ends as one JSON object, and takes the lab down when standard input ends.

culvert bench run --lab starts it. By hand it is of little use.`,
		Example: "  culvert lab ends --senders 3",
		Args:    cobra.NoArgs,
		Hidden:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dpdk {
				return demo.LendDevices(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			return demo.LendEnds(cmd.Context(), o, senders, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cli.AddCount(cmd, &senders, "senders", 1, 64, "how many containers send at once")
	cmd.Flags().BoolVar(&dpdk, "dpdk", false, "lend VFs for DPDK in place of containers")
	cmd.Flags().StringVar(&o.Source, "source", sourceTree(), "Culvert's source tree")
	return cmd
}
