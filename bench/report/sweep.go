package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// sweep has the arms that differ only in path, direction and size.
type sweep struct {
	metric bench.Metric
	load   bench.Workload // without its size and direction
	sizes  []int
	lines  []sweepLine
}

// sweepLine is the line of one path and direction, with the index of its arm for each size; -1 if there is
// none.
type sweepLine struct {
	name string
	path string // identifyPaths of its arms
	back bool
	arms []int
}

// withoutSize returns the arm's workload without its size and direction.
func withoutSize(a bench.Arm) bench.Workload {
	w := a.Workload
	w.Size, w.Reverse = 0, false
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
	paths := namePaths(r)
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
			path, back, name := identifyPaths(b), b.Workload.Reverse, paths[j]
			at := slices.IndexFunc(s.lines, func(l sweepLine) bool { return l.path == path && l.back == back })
			if at < 0 {
				at = len(s.lines)
				if back {
					name += ", back"
				}
				s.lines = append(s.lines, sweepLine{name: name, path: path, back: back, arms: slices.Repeat([]int{-1}, len(s.sizes))})
			}
			s.lines[at].arms[slices.Index(s.sizes, b.Workload.Size)] = j
		}
		out = append(out, s)
	}
	return out
}

// usedParts returns the part of the processors that worked at the busier end in each of the arm's
// runs, in percent.
func usedParts(r bench.Result, arm int) (all []float64) {
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
	return all
}

// sweepFigures draws each sweep of some arms like the figure of report R1 (M6): by size, the rate above
// and the processors below.
func (v view) sweepFigures(arms []int) []figure {
	var out []figure
	for _, s := range findSweeps(v.Result) {
		if slices.ContainsFunc(s.lines, func(l sweepLine) bool {
			return slices.ContainsFunc(l.arms, func(arm int) bool { return slices.Contains(arms, arm) })
		}) {
			out = append(out, v.drawSweep(s))
		}
	}
	return out
}

// spanOf returns the median of values and how far they spread: the 95 % interval, or with fewer
// than six values from the least to the largest.
func spanOf(values []float64) bench.Interval {
	e := bench.Estimate(values)
	if len(values) > 0 && formatInterval(e) == "-" {
		e.Low, e.High = slices.Min(values), slices.Max(values)
	}
	return e
}

func (v view) drawSweep(s sweep) figure {
	r := v.Result
	rate := func(arm int) bench.Interval { return spanOf(r.Values(arm, s.metric)) }
	cpu := func(arm int) bench.Interval { return spanOf(usedParts(r, arm)) }
	wire := func(arm int) bench.Interval { return bench.Interval{Value: knownOrNaN(r.Arms[arm].Ceiling())} }
	mostRate, mostCPU, bounded, ceilings := 0.0, 0.0, true, false
	for _, l := range s.lines {
		for _, arm := range l.arms {
			if arm >= 0 {
				mostRate = max(mostRate, above(rate(arm)), r.Arms[arm].Ceiling())
				mostCPU = max(mostCPU, above(cpu(arm)))
				bounded = bounded && len(r.Values(arm, s.metric)) >= 6
				ceilings = ceilings || r.Arms[arm].Ceiling() > 0
			}
		}
	}
	const right = chartWidth - 14
	c := chart{height: 290}
	up, down := linearAxis(168, 20, mostRate), linearAxis(268, 200, math.Min(100, mostCPU))
	left := max(up.leftOf(), down.leftOf())
	x := func(i int) float64 { return left + 8 + (right-left-16)*float64(i)/float64(len(s.sizes)-1) }
	c.drawSizes(s.sizes, x)
	c.drawFrame(up, left, right, s.metric.Unit)
	c.drawFrame(down, left, right, "CPU, % of the machine")
	f := figure{Title: "By size: " + describeLoad(s.load), Note: "Medians by the bytes of one write, datagram or frame; the CPU is that of the busier end. The bars at each point are the 95 % interval."}
	if !bounded {
		f.Note = strings.Replace(f.Note, "are the 95 % interval", "reach from the least run to the largest", 1)
	}
	if ceilings {
		f.Note += " Dashed: what the wire can carry."
	}
	said := []string{}
	for _, l := range s.lines {
		class := v.colour(r.Arms[slices.Max(l.arms)])
		if l.back && !strings.Contains(class, " ") {
			class += " p2"
		}
		points := l.drawLine(&c, x, up, rate, "line "+class)
		l.drawLine(&c, x, down, cpu, "line "+class)
		l.drawLine(&c, x, up, wire, "ceiling")
		f.Keys = append(f.Keys, key{class, l.name})
		said = append(said, l.name+": "+strings.Join(points, ", "))
	}
	f.Drawing = c.renderSVG(fmt.Sprintf("%s by size. %s", s.metric.Title, strings.Join(said, "; ")))
	return f
}

// above returns the upper end of an interval, or 0 if there is none.
func above(i bench.Interval) float64 {
	if math.IsNaN(i.High) || math.IsInf(i.High, 0) {
		return 0
	}
	return i.High
}

// drawSizes writes as many sizes below the chart as fit, the last of them always.
func (c *chart) drawSizes(sizes []int, x func(int) float64) {
	free := math.Inf(1)
	for i := len(sizes) - 1; i >= 0; i-- {
		s := strings.TrimSuffix(strings.Replace(formatSize(sizes[i]), " ", "", 1), "iB")
		if half := widthOf(s, 12, false) / 2; x(i)+half <= free {
			c.drawText(x(i), 284, "axis middle", s)
			free = x(i) - half - gap/2
		}
	}
}

// drawLine joins the line's values, draws their spread, and returns them in words.
func (l sweepLine) drawLine(c *chart, x func(int) float64, y axis, of func(arm int) bench.Interval, class string) (said []string) {
	var points [][2]float64
	for i, arm := range l.arms {
		if arm < 0 || math.IsNaN(of(arm).Value) {
			continue
		}
		v := of(arm)
		points = append(points, [2]float64{x(i), y.positionOf(v.Value)})
		said = append(said, bench.Number(v.Value))
		if v.Low < v.High {
			said[len(said)-1] += " (" + formatInterval(v) + ")"
			c.drawLine(x(i), y.positionOf(v.Low), x(i), y.positionOf(v.High), strings.Replace(class, "line", "spread", 1))
		}
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
