package report

import (
	"fmt"
	"math"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// counted has the counts of an arm's runs beside their rate, as medians over the runs:
// retransmits, frames sent, frames lost, and the congestion window. "-" stands for a count that
// was not measured.
type counted struct{ Arm, Retransmits, Sent, Lost, Cwnd string }

// countArms returns the counts of all arms that have some.
func countArms(r bench.Result) (out []counted) {
	for i, arm := range r.Arms {
		var again, sent, lost, window []float64
		for _, run := range r.Counted(i) {
			if run.Retransmits != nil {
				again = append(again, float64(*run.Retransmits))
			}
			if run.Sent > 0 {
				sent = append(sent, float64(run.Sent))
			}
			if run.Sent > 0 && knowsLoss(arm, run) {
				lost = append(lost, float64(run.Lost))
			}
			window = append(window, run.Cwnd...)
		}
		if len(again)+len(sent)+len(window) == 0 {
			continue
		}
		c := counted{Arm: arm.Name, Retransmits: formatSpan(again, 1), Sent: bench.Number(bench.Median(sent)), Lost: formatSpan(lost, 1), Cwnd: "-"}
		if arm.Workload.Kind == bench.Datagram && len(lost) > 0 {
			c.Lost += ", " + formatLoss(r.Counted(i))
		}
		if len(window) > 0 {
			c.Cwnd = formatSpan(window, 1024) + " KiB"
		}
		out = append(out, c)
	}
	return out
}

// formatLoss prints the median of the parts that were lost.
func formatLoss(runs []bench.Run) string {
	var parts []float64
	for _, run := range runs {
		if run.Sent > 0 {
			parts = append(parts, 100*float64(run.Lost)/float64(run.Sent))
		}
	}
	return bench.Number(bench.Median(parts)) + " %"
}

// knowsLoss reports whether a run counts lost frames. If fewer frames arrived than were sent and
// none counts as lost, the two counts are of different windows, as in results from before
// SentSeconds.
func knowsLoss(a bench.Arm, run bench.Run) bool {
	return a.Workload.Kind != bench.Stream && (run.Lost > 0 || run.SentSeconds > 0 || run.Sent <= run.Packets)
}

// formatSpan prints the median, the least and the largest of values, in multiples of unit.
func formatSpan(values []float64, unit float64) string {
	if len(values) == 0 {
		return "-"
	}
	least, middle, most := bench.Quantile(values, 0)/unit, bench.Median(values)/unit, bench.Quantile(values, 1)/unit
	if least == most {
		return bench.Number(middle)
	}
	return fmt.Sprintf("%s (%s to %s)", bench.Number(middle), bench.Number(least), bench.Number(most))
}

func countTable(list []counted) *screen.Table {
	t := screen.NewTable("COUNTED IN A RUN", ">RETRANSMITS", ">SENT", ">LOST", ">CWND")
	for _, c := range list {
		t.Add(screen.Words(c.Arm, c.Retransmits, c.Sent, c.Lost, c.Cwnd)...)
	}
	return t
}

// tripped has the distribution of an arm's round trips in microseconds: the least and the largest of
// all runs, and else medians over the runs.
type tripped struct {
	Arm    string
	Points []string // in the order of tripNames
	N      string   // questions of a run
	Lost   string
}

// tripNames returns the headings of the Points of [tripped].
func tripNames() []string {
	return []string{"MIN", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"}
}

func listTrips(r bench.Result) (out []tripped) {
	for i, arm := range r.Arms {
		d, found := spreadOf(r, i)
		if !found {
			continue
		}
		t := tripped{Arm: arm.Name}
		p := d.listPoints()
		for _, v := range append([]float64{p[0], d.Mean}, p[1:]...) {
			t.Points = append(t.Points, bench.Number(v))
		}
		lost, sent := uint64(0), uint64(0)
		var asked []float64
		for _, run := range r.Counted(i) {
			lost, sent = lost+run.Lost, sent+run.Sent
			if run.Delays != nil {
				asked = append(asked, float64(run.Delays.Count))
			}
		}
		t.N, t.Lost = bench.Number(bench.Median(asked)), fmt.Sprintf("%d of %d", lost, sent)
		out = append(out, t)
	}
	return out
}

func tripTable(list []tripped) *screen.Table {
	heads := []string{"ROUND TRIP, us"}
	for _, n := range tripNames() {
		heads = append(heads, ">"+n)
	}
	t := screen.NewTable(append(heads, ">N", ">LOST")...)
	for _, l := range list {
		t.Add(screen.Words(append(append([]string{l.Arm}, l.Points...), l.N, l.Lost)...)...)
	}
	return t
}

// spread has the distribution of round trips: the least and the largest of all runs, and the median
// over the runs of each percentile. A percentile for which the runs have too few questions is NaN.
type spread bench.Delays

func (s spread) listPoints() []float64 {
	return []float64{s.Min, s.P50, s.P90, s.P99, s.P999, s.Max}
}

// spreadOf returns the spread of an arm, and whether it has one.
func spreadOf(r bench.Result, arm int) (s spread, found bool) {
	var all [6][]float64
	var means []float64
	for _, run := range r.Counted(arm) {
		if run.Delays == nil {
			continue
		}
		means = append(means, run.Delays.Mean)
		for i, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
			if v := run.Percentile(q); !math.IsNaN(v) {
				all[i] = append(all[i], v)
			}
		}
	}
	m := func(i int) float64 { return bench.Median(all[i]) }
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range all[0] {
		least = math.Min(least, v)
	}
	for _, v := range all[5] {
		most = math.Max(most, v)
	}
	return spread{Min: least, Mean: bench.Median(means), P50: m(1), P90: m(2), P99: m(3), P999: m(4), Max: most}, len(means) > 0
}
