package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// seriesFigures draws every counted run of some arms over its time, one figure for each workload: these
// show a rate that sags, climbs or stops, which a median does not. Arms of a sweep are left out, and
// limits that the NIC does not enforce.
func (v view) seriesFigures(arms []int) []figure {
	r := v.Result
	var out []figure
	for _, w := range loads(r) {
		var drawn []int // arms
		for _, i := range arms {
			if a := r.Arms[i]; a.Workload == w && !isSwept(r, a) && !isUnenforced(r, a) && !a.Main().Less && slices.ContainsFunc(r.Counted(i), hasSeries) {
				drawn = append(drawn, i)
			}
		}
		if drawn != nil {
			out = append(out, v.seriesFigure(drawn))
		}
	}
	return out
}

// hasSeries reports whether a run has enough steps to show a change over time.
func hasSeries(run bench.Run) bool { return len(run.Series) > 2 }

func (v view) seriesFigure(drawn []int) (f figure) {
	r := v.Result
	const right = chartWidth - 14
	first := r.Arms[drawn[0]]
	unit, most, seconds := first.Main().Unit, 0.0, 0.0
	for _, i := range drawn {
		for _, run := range slices.DeleteFunc(r.Counted(i), func(run bench.Run) bool { return !hasSeries(run) }) {
			seconds = math.Max(seconds, run.Seconds)
			most = math.Max(most, slices.Max(run.Series)/per(unit))
		}
	}
	c := chart{height: 220}
	y := linearAxis(186, 20, most)
	left := y.leftOf()
	x := axis{from: left, to: right, most: math.Max(seconds, math.SmallestNonzeroFloat64)}
	c.drawFrame(y, left, right, unit)
	for _, at := range rounds(seconds) {
		c.drawText(x.positionOf(at), 202, "axis middle", tick(at))
	}
	c.drawText(right, 217, "axis end", "seconds")
	said := []string{}
	for _, i := range drawn {
		class := v.colour(r.Arms[i])
		low, high := math.Inf(1), 0.0
		for _, run := range r.Counted(i) {
			if !hasSeries(run) {
				continue
			}
			points := make([][2]float64, 0, len(run.Series))
			for k, rate := range run.Series {
				low, high = math.Min(low, rate/per(unit)), math.Max(high, rate/per(unit))
				points = append(points, [2]float64{x.positionOf((float64(k) + 0.5) * run.Seconds / float64(len(run.Series))), y.positionOf(rate / per(unit))})
			}
			c.drawPath(points, "line thin "+class)
		}
		f.Keys = append(f.Keys, key{class, v.labels[i].within()})
		said = append(said, fmt.Sprintf("%s between %s and %s %s", v.labels[i].within(), bench.Number(low), bench.Number(high), unit))
	}
	f.Title, f.Note = "Over time: "+describeLoad(first.Workload), "Each line is one run that counts."
	f.Drawing = c.renderSVG(strings.Join(said, "; "))
	return f
}

// per returns how many units of a series make one unit of its metric: a series counts packets,
// and Mpps counts millions of them.
func per(unit string) float64 {
	if unit == "Mpps" {
		return 1e6
	}
	return 1
}
