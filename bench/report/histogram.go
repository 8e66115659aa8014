package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// histogramFigures draws how many questions of some arms took how long, one figure for each workload.
func (v view) histogramFigures(arms []int) []figure {
	r := v.Result
	var out []figure
	for _, w := range loads(r) {
		var drawn []int // arms
		for _, i := range arms {
			if r.Arms[i].Workload == w && sumBins(r, i) != nil {
				drawn = append(drawn, i)
			}
		}
		if drawn != nil {
			out = append(out, v.histogramFigure(drawn))
		}
	}
	return out
}

// sumBins returns the part of an arm's questions in each bin, in percent, over all counted runs. It is
// nil if no run has bins.
func sumBins(r bench.Result, arm int) []float64 {
	var sum []float64
	total := 0.0
	for _, run := range r.Counted(arm) {
		if run.Delays == nil {
			continue
		}
		for i, n := range run.Delays.Bins {
			if i == len(sum) {
				sum = append(sum, 0)
			}
			sum[i] += float64(n)
			total += float64(n)
		}
	}
	if total == 0 {
		return nil
	}
	for i := range sum {
		sum[i] *= 100 / total
	}
	return sum
}

func (v view) histogramFigure(drawn []int) (f figure) {
	r := v.Result
	const left, right, bottom = 38, chartWidth - 18, 186
	first, last, most := math.MaxInt, 0, 0.0
	parts := make([][]float64, len(drawn))
	for k, i := range drawn {
		parts[k] = sumBins(r, i)
		for bin, part := range parts[k] {
			if part > 0 {
				first, last, most = min(first, bin), max(last, bin), math.Max(most, part)
			}
		}
	}
	c := chart{height: 222}
	y := linearAxis(bottom, 20, most)
	x := logarithmicAxis(left, right, bench.BinFrom(first), bench.BinFrom(last+1))
	c.drawFrame(y, left, right, "% of the questions")
	for _, at := range x.listTicks() {
		c.drawLine(x.positionOf(at), bottom, x.positionOf(at), bottom+4, "grid")
		c.drawText(x.positionOf(at), bottom+18, "axis middle", tick(at))
	}
	c.drawText(right, bottom+33, "axis end", "us")
	colour, said := v.colour, []string{}
	for k, i := range drawn {
		a := r.Arms[i]
		points := [][2]float64{{x.positionOf(bench.BinFrom(first)), bottom}}
		largest := 0
		for bin := first; bin <= last; bin++ {
			part := 0.0
			if bin < len(parts[k]) {
				part = parts[k][bin]
			}
			if part > parts[k][largest] {
				largest = bin
			}
			points = append(points, [2]float64{x.positionOf(bench.BinFrom(bin)), y.positionOf(part)}, [2]float64{x.positionOf(bench.BinFrom(bin + 1)), y.positionOf(part)})
		}
		c.drawPath(append(points, [2]float64{x.positionOf(bench.BinFrom(last + 1)), bottom}), "line "+colour(a))
		f.Keys = append(f.Keys, key{colour(a), v.labels[i].within()})
		said = append(said, fmt.Sprintf("%s: most from %s to %s us", v.labels[i].within(), bench.Number(bench.BinFrom(largest)), bench.Number(bench.BinFrom(largest+1))))
	}
	f.Title = "How long questions took: " + describeLoad(r.Arms[drawn[0]].Workload)
	f.Note = "The part of all questions of the runs that count, by ten steps for each factor of ten; lost ones have the time until the sender gave up."
	f.Drawing = c.renderSVG(strings.Join(said, "; "))
	return f
}
