// Command culvert-bench measures the gain of Virtual Functions: it conducts a
// measurement, runs as the agent at both ends, and shows and compares results.
// `culvert bench` execs it.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
)

// version is set by the linker.
var version = "unknown"

func main() {
	os.Exit(cli.Run(newRoot()))
}

func newRoot() *cobra.Command {
	return cli.NewRoot("bench", version, &cobra.Command{
		Short: "Measure what Virtual Functions gain",
		Long: `Measures the gain of VFs in throughput, packets, latency and CPU, with intervals
and chance. run measures on this host, over SSH, in a cluster or a lab, and writes
a result. report shows a result, and compare shows the difference of two, also for
CI.`,
		Example: `  sudo culvert bench run --from netns:a --to netns:b
  culvert bench run m4 --cluster --nodes n1,n2 --network default/sriov
  culvert bench presets
  culvert bench report result.json
  culvert bench compare before.json after.json --fail-if 'throughput<-5%'`,
	},
		newRunCommand(), newPresetsCommand(), newReportCommand(), newCompareCommand(), newAgentCommand(), newAttachTimesCommand(),
	)
}
