package report

import (
	"math"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// shared says how several paths at once shared an arm's total, as medians over the counted runs.
type shared struct {
	Arm, Total string
	Ways       []portion
	Fairness   string // the least as a part of the most
}

// portion is the part that one of the paths carried.
type portion struct{ Way, Value, Part string }

func listShares(r bench.Result) []shared {
	var out []shared
	for i, arm := range r.Arms {
		paths := arm.Paths()
		if len(paths) < 2 {
			continue
		}
		main := arm.Main()
		each := make([][]float64, len(paths))
		var fair []float64
		for _, run := range r.Counted(i) {
			if len(run.Shares) != len(paths) {
				continue
			}
			for j, one := range run.Each() {
				each[j] = append(each[j], main.Of(arm, one))
			}
			if f := arm.Fairness(run); !math.IsNaN(f) {
				fair = append(fair, f)
			}
		}
		total := bench.Median(r.Values(i, main))
		s := shared{Arm: arm.Name, Total: formatAmount(total, main), Fairness: bench.Number(bench.Median(fair))}
		for j, p := range paths {
			v := bench.Median(each[j])
			s.Ways = append(s.Ways, portion{describeEnd(p.From) + " to " + describeEnd(p.To), formatAmount(v, main), formatPercent(v / total)})
		}
		out = append(out, s)
	}
	return out
}

func formatAmount(v float64, m bench.Metric) string {
	if math.IsNaN(v) {
		return "-"
	}
	return bench.Number(v) + " " + m.Unit
}

// shareTable writes each path's share, where several carried at once.
func shareTable(b *screenText, list []shared) {
	for _, s := range list {
		t := screen.NewTable("AT ONCE", ">MEDIAN", ">OF TOTAL")
		for _, p := range s.Ways {
			t.Add(screen.Words("  "+p.Way, p.Value, p.Part)...)
		}
		t.Add(screen.Cell{Text: s.Arm + ", total"}, screen.Cell{Text: s.Total}, screen.Cell{})
		t.Add(screen.Cell{Text: "  least : most"}, screen.Cell{Text: s.Fairness}, screen.Cell{})
		writeTable(b, t)
	}
}
