package report

import (
	"fmt"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// loaded has the TCP stream beside the questions of an arm, as medians over the counted runs.
type loaded struct{ Arm, Share, Asked, Carried, Retransmits string }

// listLoads returns the arms that have a load.
func listLoads(r bench.Result) (out []loaded) {
	for i, arm := range r.Arms {
		part := arm.Workload.Load
		if part == 0 {
			continue
		}
		var carried, again []float64
		for _, run := range r.Counted(i) {
			if run.Load == nil {
				continue
			}
			if carried = append(carried, run.Load.Gbps); run.Load.Retransmits != nil {
				again = append(again, float64(*run.Load.Retransmits))
			}
		}
		out = append(out, loaded{
			Arm: arm.Name, Share: fmt.Sprintf("%s of %s Gb/s", formatPercent(part), bench.Number(arm.ThroughputGbps)),
			Asked: bench.Number(part*arm.ThroughputGbps) + " Gb/s", Carried: formatGbps(carried), Retransmits: formatSpan(again, 1),
		})
	}
	return out
}

// formatGbps prints the median of throughputs.
func formatGbps(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return bench.Number(bench.Median(values)) + " Gb/s"
}

func loadTable(list []loaded) *screen.Table {
	t := screen.NewTable("TCP BESIDE", ">PART OF THE PATH'S", ">ASKED", ">CARRIED", ">RETRANSMITS")
	for _, l := range list {
		t.Add(screen.Words(l.Arm, l.Share, l.Asked, l.Carried, l.Retransmits)...)
	}
	return t
}
