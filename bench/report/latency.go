package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// delayNames are the points of a distribution, with equal steps between them on the
// chart: the tail is what it is for.
func delayNames() []string { return []string{"min", "50 %", "90 %", "99 %", "99.9 %", "max"} }

// delayFigures draw how round trips are spread, by workload.
func delayFigures(r bench.Result) []figure {
	var out []figure
	for _, w := range loads(r) {
		var drawn []int // arms
		for i, a := range r.Arms {
			if _, found := delays(r, i); found && a.Workload == w {
				drawn = append(drawn, i)
			}
		}
		if drawn != nil {
			out = append(out, delayFigure(r, drawn))
		}
	}
	return out
}

func delayFigure(r bench.Result, drawn []int) (f figure) {
	const left, right = 38, chartWidth - 18
	least, most := math.Inf(1), 0.0
	for _, i := range drawn {
		s, _ := delays(r, i)
		most = math.Max(most, s.Max)
		if s.Min > 0 {
			least = math.Min(least, s.Min)
		}
	}
	c := chart{height: 214}
	y := logarithmic(186, 20, math.Min(least, most), most)
	x := func(i int) float64 { return left + 10 + (right-left-10)*float64(i)/5 }
	c.frame(y, left, right, "us")
	for i, name := range delayNames() {
		c.line(x(i), 186, x(i), 190, "grid")
		c.text(x(i), 204, "axis middle", name)
	}
	colour, said := colours(r), []string{}
	for _, i := range drawn {
		a := r.Arms[i]
		s, _ := delays(r, i)
		class := "line " + colour(a)
		var points [][2]float64
		for k, v := range s.points() {
			points = append(points, [2]float64{x(k), y.at(v)})
			c.dot(x(k), y.at(v), 2.6, class+" dot")
		}
		c.path(points, class)
		f.Keys = append(f.Keys, key{colour(a), a.Name})
		said = append(said, fmt.Sprintf("%s: median %s, 99 %% %s, largest %s us", a.Name, bench.Number(s.P50), bench.Number(s.P99), bench.Number(s.Max)))
	}
	f.Title = "Round trips"
	f.Note = "How many were faster: half, 90 of 100 and so on; medians over the runs, on a logarithmic scale: " + load(r.Arms[drawn[0]].Workload) + "."
	f.Drawing = c.svg(strings.Join(said, "; "))
	return f
}
