package main

import "github.com/spf13/cobra"

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what Virtual Functions gain",
		Long: `What VFs gain in throughput, packets, latency and CPU, with intervals and chance:
a result as a report for people, two of them compared for people and CI.`,
		Example: `  culvert bench report result.json
  culvert bench compare before.json after.json --fail-if 'throughput<-5%'`,
	}
	return group(cmd, newBenchReportCommand(), newBenchCompareCommand(), newBenchAgentCommand())
}
