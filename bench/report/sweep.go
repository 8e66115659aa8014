package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// sweep is the arms that differ in path and size alone.
type sweep struct {
	metric bench.Metric
	load   bench.Workload // without its size
	sizes  []int
	lines  []sweepLine
}

// sweepLine is one path's, with an arm for each size; -1 where there is none.
type sweepLine struct {
	name string
	arms []int
}

// sized is the workload without its size.
func sized(a bench.Arm) bench.Workload {
	w := a.Workload
	w.Size = 0
	return w
}

// sizes are those in which a workload was sent, least first.
func sizes(r bench.Result, like bench.Arm) []int {
	var out []int
	for _, a := range r.Arms {
		if a.Workload.Size > 0 && sized(a) == sized(like) && !slices.Contains(out, a.Workload.Size) {
			out = append(out, a.Workload.Size)
		}
	}
	slices.Sort(out)
	return out
}

// swept reports whether the arm is one size of three or more.
func swept(r bench.Result, a bench.Arm) bool {
	return a.Workload.Size > 0 && len(sizes(r, a)) >= 3
}

func sweeps(r bench.Result) []sweep {
	var out []sweep
	for i, a := range r.Arms {
		first := slices.IndexFunc(r.Arms, func(b bench.Arm) bool { return b.Workload.Size > 0 && sized(b) == sized(a) })
		if !swept(r, a) || first != i {
			continue
		}
		s := sweep{metric: a.Main(), load: sized(a), sizes: sizes(r, a)}
		for j, b := range r.Arms {
			if b.Workload.Size == 0 || sized(b) != sized(a) {
				continue
			}
			name := way(b.Path)
			at := slices.IndexFunc(s.lines, func(l sweepLine) bool { return l.name == name })
			if at < 0 {
				at = len(s.lines)
				s.lines = append(s.lines, sweepLine{name: name, arms: slices.Repeat([]int{-1}, len(s.sizes))})
			}
			s.lines[at].arms[slices.Index(s.sizes, b.Workload.Size)] = j
		}
		out = append(out, s)
	}
	return out
}

// used is the part of the processors that worked, of the end that was busier: the
// median of the arm's runs, in percent.
func used(r bench.Result, arm int) float64 {
	var all []float64
	for _, run := range r.Counted(arm) {
		most := math.NaN()
		for _, one := range run.Each() {
			for _, c := range []bench.CPUUse{one.From.CPU, one.To.CPU} {
				if total := c.Total() + c.Idle + c.Steal; total > 0 && !(most > 100*c.Total()/total) {
					most = 100 * c.Total() / total
				}
			}
		}
		if !math.IsNaN(most) {
			all = append(all, most)
		}
	}
	return bench.Median(all)
}

// sweepFigures draw each sweep as report R1's figure (M6) has it: the rate above, the
// processors below, by size.
func sweepFigures(r bench.Result) []figure {
	var out []figure
	for _, s := range sweeps(r) {
		out = append(out, s.figure(r))
	}
	return out
}

func (s sweep) figure(r bench.Result) figure {
	const left, right = 38, chartWidth - 14
	rate := func(arm int) float64 { return bench.Median(r.Values(arm, s.metric)) }
	cpu := func(arm int) float64 { return used(r, arm) }
	mostRate, mostCPU := 0.0, 0.0
	for _, l := range s.lines {
		for _, arm := range l.arms {
			if arm >= 0 {
				mostRate = math.Max(mostRate, math.Max(rate(arm), r.Arms[arm].Ceiling()))
				mostCPU = math.Max(mostCPU, cpu(arm))
			}
		}
	}
	c := chart{height: 290}
	x := func(i int) float64 { return left + 8 + (right-left-16)*float64(i)/float64(len(s.sizes)-1) }
	for i, n := range s.sizes {
		if i%(1+len(s.sizes)/8) == 0 {
			c.text(x(i), 284, "axis middle", strings.TrimSuffix(strings.Replace(size(n), " ", "", 1), "iB"))
		}
	}
	up, down := linear(168, 20, mostRate), linear(268, 200, math.Min(100, mostCPU))
	c.frame(up, left, right, s.metric.Unit)
	c.frame(down, left, right, "CPU, % of the machine")
	f := figure{Title: "By size", Note: "Medians by the bytes of one write, datagram or frame; the CPU is that of the busier end. Dashed: what the wire can carry."}
	colour, said := colours(r), []string{}
	for _, l := range s.lines {
		class := colour(r.Arms[slices.MaxFunc(l.arms, func(a, b int) int { return a - b })])
		points := l.draw(&c, x, up, rate, "line "+class)
		l.draw(&c, x, down, cpu, "line "+class)
		l.draw(&c, x, up, func(arm int) float64 { return given(r.Arms[arm].Ceiling()) }, "ceiling")
		f.Keys = append(f.Keys, key{class, l.name})
		said = append(said, l.name+": "+strings.Join(points, ", "))
	}
	f.Note += " " + load(s.load) + "."
	f.Drawing = c.svg(fmt.Sprintf("%s by size. %s", s.metric.Title, strings.Join(said, "; ")))
	return f
}

// draw joins the line's values and returns them in words.
func (l sweepLine) draw(c *chart, x func(int) float64, y axis, of func(arm int) float64, class string) (said []string) {
	var points [][2]float64
	for i, arm := range l.arms {
		if arm < 0 || math.IsNaN(of(arm)) {
			continue
		}
		points = append(points, [2]float64{x(i), y.at(of(arm))})
		said = append(said, bench.Number(of(arm)))
	}
	c.path(points, class)
	if class != "ceiling" {
		for _, p := range points {
			c.dot(p[0], p[1], 2.6, class+" dot")
		}
	}
	return said
}

// given makes what is not known NaN.
func given(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}
