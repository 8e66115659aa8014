package main

import "github.com/spf13/cobra"

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what Virtual Functions gain",
		Long: `What VFs gain in throughput, packets, latency and CPU, with intervals and chance:
run measures, on this host, over SSH, in a cluster or a lab, and writes a result;
report draws it for people, and compare says for people and CI how two differ.`,
		Example: `  sudo culvert bench run --from netns:a --to netns:b
  culvert bench run m4 --cluster --nodes n1,n2 --network default/sriov
  culvert bench presets
  culvert bench report result.json
  culvert bench compare before.json after.json --fail-if 'throughput<-5%'`,
	}
	return group(cmd, newBenchRunCommand(), newBenchPresetsCommand(), newBenchReportCommand(), newBenchCompareCommand(), newBenchAgentCommand())
}
