package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// sweep has the arms that differ only in path and size.
type sweep struct {
	metric bench.Metric
	load   bench.Workload // without its size
	sizes  []int
	lines  []sweepLine
}

// sweepLine is the line of one path, with the index of its arm for each size; -1 if there is
// none.
type sweepLine struct {
	name string
	path string // identifyPaths of its arms
	arms []int
}

// withoutSize returns the arm's workload without its size.
func withoutSize(a bench.Arm) bench.Workload {
	w := a.Workload
	w.Size = 0
	return w
}

// listSizes returns the sizes in which a workload was sent, the smallest first.
func listSizes(r bench.Result, like bench.Arm) []int {
	var out []int
	for _, a := range r.Arms {
		if a.Workload.Size > 0 && withoutSize(a) == withoutSize(like) && !slices.Contains(out, a.Workload.Size) {
			out = append(out, a.Workload.Size)
		}
	}
	slices.Sort(out)
	return out
}

// isSwept reports whether the arm belongs to a sweep, which has three sizes or more.
func isSwept(r bench.Result, a bench.Arm) bool {
	return a.Workload.Size > 0 && len(listSizes(r, a)) >= 3
}

func findSweeps(r bench.Result) []sweep {
	var out []sweep
	for i, a := range r.Arms {
		first := slices.IndexFunc(r.Arms, func(b bench.Arm) bool { return b.Workload.Size > 0 && withoutSize(b) == withoutSize(a) })
		if !isSwept(r, a) || first != i {
			continue
		}
		s := sweep{metric: a.Main(), load: withoutSize(a), sizes: listSizes(r, a)}
		for j, b := range r.Arms {
			if b.Workload.Size == 0 || withoutSize(b) != withoutSize(a) {
				continue
			}
			path := identifyPaths(b)
			at := slices.IndexFunc(s.lines, func(l sweepLine) bool { return l.path == path })
			if at < 0 {
				at = len(s.lines)
				name := namePath(b.Path)
				if slices.ContainsFunc(s.lines, func(l sweepLine) bool { return l.name == name }) {
					name += ", " + describeEnd(b.Path.From) + " to " + describeEnd(b.Path.To)
				}
				s.lines = append(s.lines, sweepLine{name: name, path: path, arms: slices.Repeat([]int{-1}, len(s.sizes))})
			}
			s.lines[at].arms[slices.Index(s.sizes, b.Workload.Size)] = j
		}
		out = append(out, s)
	}
	return out
}

// usedPart returns the part of the processors that worked at the busier end, as the median of the
// arm's runs in percent.
func usedPart(r bench.Result, arm int) float64 {
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

// sweepFigures draws each sweep like the figure of report R1 (M6): by size, the rate above and
// the processors below.
func sweepFigures(r bench.Result) []figure {
	var out []figure
	for _, s := range findSweeps(r) {
		out = append(out, s.drawFigure(r))
	}
	return out
}

func (s sweep) drawFigure(r bench.Result) figure {
	const left, right = 38, chartWidth - 14
	rate := func(arm int) float64 { return bench.Median(r.Values(arm, s.metric)) }
	cpu := func(arm int) float64 { return usedPart(r, arm) }
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
			c.drawText(x(i), 284, "axis middle", strings.TrimSuffix(strings.Replace(formatSize(n), " ", "", 1), "iB"))
		}
	}
	up, down := linearAxis(168, 20, mostRate), linearAxis(268, 200, math.Min(100, mostCPU))
	c.drawFrame(up, left, right, s.metric.Unit)
	c.drawFrame(down, left, right, "CPU, % of the machine")
	f := figure{Title: "By size: " + describeLoad(s.load), Note: "Medians by the bytes of one write, datagram or frame; the CPU is that of the busier end."}
	colour, said := chooseColours(r), []string{}
	for _, l := range s.lines {
		class := colour(r.Arms[slices.MaxFunc(l.arms, func(a, b int) int { return a - b })])
		points := l.drawLine(&c, x, up, rate, "line "+class)
		l.drawLine(&c, x, down, cpu, "line "+class)
		l.drawLine(&c, x, up, func(arm int) float64 { return knownOrNaN(r.Arms[arm].Ceiling()) }, "ceiling")
		if ceilings := " Dashed: what the wire can carry."; !strings.HasSuffix(f.Note, ceilings) && slices.ContainsFunc(l.arms, func(arm int) bool { return arm >= 0 && r.Arms[arm].Ceiling() > 0 }) {
			f.Note += ceilings
		}
		f.Keys = append(f.Keys, key{class, l.name})
		said = append(said, l.name+": "+strings.Join(points, ", "))
	}
	f.Drawing = c.renderSVG(fmt.Sprintf("%s by size. %s", s.metric.Title, strings.Join(said, "; ")))
	return f
}

// drawLine joins the line's values and returns them in words.
func (l sweepLine) drawLine(c *chart, x func(int) float64, y axis, of func(arm int) float64, class string) (said []string) {
	var points [][2]float64
	for i, arm := range l.arms {
		if arm < 0 || math.IsNaN(of(arm)) {
			continue
		}
		points = append(points, [2]float64{x(i), y.positionOf(of(arm))})
		said = append(said, bench.Number(of(arm)))
	}
	c.drawPath(points, class)
	if class != "ceiling" {
		for _, p := range points {
			c.drawDot(p[0], p[1], 2.6, class+" dot")
		}
	}
	return said
}

// knownOrNaN returns NaN for a value that is not known.
func knownOrNaN(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}
