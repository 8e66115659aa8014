package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// delayNames returns the points of a distribution. The chart has equal steps between them, since
// it is meant to show the tail.
func delayNames() []string { return []string{"min", "50 %", "90 %", "99 %", "99.9 %", "max"} }

// delayFigures draws the distribution of round trips of some arms, one figure for each workload.
func (v view) delayFigures(arms []int) []figure {
	r := v.Result
	var out []figure
	for _, w := range loads(r) {
		var drawn []int // arms
		for _, i := range arms {
			if _, found := spreadOf(r, i); found && r.Arms[i].Workload == w {
				drawn = append(drawn, i)
			}
		}
		if drawn != nil {
			out = append(out, v.delayFigure(drawn))
		}
	}
	return out
}

func (v view) delayFigure(drawn []int) (f figure) {
	r := v.Result
	const right = chartWidth - 18
	least, most := math.Inf(1), 0.0
	for _, i := range drawn {
		s, _ := spreadOf(r, i)
		most = math.Max(most, s.Max)
		if s.Min > 0 {
			least = math.Min(least, s.Min)
		}
	}
	c := chart{height: 214}
	y := logarithmicAxis(186, 20, math.Min(least, most), most)
	left := y.leftOf()
	x := func(i int) float64 { return left + 10 + (right-left-10)*float64(i)/5 }
	c.drawFrame(y, left, right, "us")
	for i, name := range delayNames() {
		c.drawLine(x(i), 186, x(i), 190, "grid")
		c.drawText(x(i), 204, "axis middle", name)
	}
	said := []string{}
	for _, i := range drawn {
		a := r.Arms[i]
		s, _ := spreadOf(r, i)
		class := "line " + v.colour(a)
		var points [][2]float64
		for k, delay := range s.listPoints() {
			if math.IsNaN(delay) {
				continue // the runs have too few questions for this percentile
			}
			points = append(points, [2]float64{x(k), y.positionOf(delay)})
			c.drawDot(x(k), y.positionOf(delay), 2.6, class+" dot")
		}
		c.drawPath(points, class)
		f.Keys = append(f.Keys, key{v.colour(a), v.labels[i].within()})
		said = append(said, fmt.Sprintf("%s: median %s, largest %s us", v.labels[i].within(), bench.Number(s.P50), bench.Number(s.Max)))
	}
	f.Title = "Round trips: " + describeLoad(r.Arms[drawn[0]].Workload)
	f.Note = "How many were faster: half, 90 of 100 and so on; medians over the runs, with the least and the largest of all runs, on a logarithmic scale."
	f.Drawing = c.renderSVG(strings.Join(said, "; "))
	return f
}
