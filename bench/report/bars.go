package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// names returns the names of the arms in rows, below their question.
func names(list []row) (all []string) {
	for _, r := range list {
		all = append(all, excerpt.Clean(r.Within))
	}
	return all
}

// barRows returns the rows of a question that are drawn as bars: those with a value, and those between
// the same ends as the sentence's arms first. Rows of a limit that the NIC does not enforce are not drawn.
func (v view) barRows(q question) []row {
	var out []row
	for _, l := range v.rows {
		if slices.Contains(q.Arms, l.Index) && !math.IsNaN(l.Middle.Value) && !isUnenforced(v.Result, v.Arms[l.Index]) {
			out = append(out, l)
		}
	}
	if v.best != nil {
		ends := v.Arms[v.best.Arm].Path.Ends
		slices.SortStableFunc(out, func(a, b row) int {
			return rankEnds(v.Arms[a.Index], ends) - rankEnds(v.Arms[b.Index], ends)
		})
	}
	return out
}

func rankEnds(a bench.Arm, ends string) int {
	if a.Path.Ends == ends {
		return 0
	}
	return 1
}

// beyondLimit is the part of a rate limit above which a rate shows that the NIC does not enforce it. A
// rate of payload is below the limit of an enforced one, which counts headers too.
const beyondLimit = 1.05

// isUnenforced reports whether an arm has a rate limit which the NIC accepts and does not enforce: an arm
// over the same path was faster than its own limit.
func isUnenforced(r bench.Result, arm bench.Arm) bool {
	return arm.Workload.RateLimit > 0 && len(listBeyond(r, identifyPaths(arm))) > 0
}

// listBeyond returns the arms over a path that were faster than their rate limits.
func listBeyond(r bench.Result, path string) (beyond []int) {
	for i, a := range r.Arms {
		if a.Workload.RateLimit > 0 && identifyPaths(a) == path && medianMbps(r, i) > beyondLimit*float64(a.Workload.RateLimit) {
			beyond = append(beyond, i)
		}
	}
	return beyond
}

func medianMbps(r bench.Result, arm int) float64 {
	var all []float64
	for _, run := range r.Counted(arm) {
		all = append(all, run.Gbps*1e3)
	}
	return bench.Median(all)
}

// describeUnenforced says of which paths of a question the NIC does not enforce the rate limit.
func (v view) describeUnenforced(q question) []string {
	var out []string
	seen := map[string]bool{}
	for _, i := range q.Arms {
		path := identifyPaths(v.Arms[i])
		if seen[path] || !isUnenforced(v.Result, v.Arms[i]) {
			continue
		}
		beyond := listBeyond(v.Result, path)
		seen[path] = true
		first := beyond[0]
		out = append(out, fmt.Sprintf("%s: no. The NIC accepts max_tx_rate and does not enforce it: %s Mb/s arrived at a limit of %d Mb/s. So no bars are drawn.",
			v.labels[first].path, bench.Number(medianMbps(v.Result, first)), v.Arms[first].Workload.RateLimit))
	}
	return out
}

// listFigures returns the charts of a question, except those over time: medians, sizes, round trips.
func (v view) listFigures(q question) []figure {
	var out []figure
	bars := slices.DeleteFunc(v.barRows(q), func(l row) bool { return isSwept(v.Result, v.Arms[l.Index]) })
	for _, group := range byMetric(bars) {
		out = append(out, v.barFigure(group))
	}
	if v.best != nil && slices.Contains(q.Arms, v.best.Arm) {
		for _, group := range byMetric(costRows(v.Result, bars)) {
			out = append(out, v.barFigure(group))
		}
	}
	return slices.Concat(out, v.sweepFigures(q.Arms), v.delayFigures(q.Arms), v.histogramFigures(q.Arms))
}

// costRows returns rows with the processor time in place of the main metric.
func costRows(r bench.Result, list []row) []row {
	var out []row
	for _, l := range list {
		for _, m := range bench.Metrics(r.Arms[l.Index].Workload.Kind) {
			if m.Name == "cpu" {
				m.Unit = costUnit(l.CPUUnit)
				values := r.Values(l.Index, m)
				l.Metric, l.Middle, l.Ceiling, l.N = m, bench.Estimate(values), 0, len(values)
				out = append(out, l)
			}
		}
	}
	return out
}

const barRow = 46

func (v view) barFigure(group []row) figure {
	metric := group[0].Metric
	most, long := 0.0, 0.0
	for _, l := range group {
		most, long = math.Max(most, l.Ceiling), math.Max(long, widthOf(l.formatValue(), 13, true))
		for _, value := range v.Values(l.Index, metric) {
			most = math.Max(most, value)
		}
	}
	c := chart{height: float64(len(group)*barRow + 4)}
	x := axis{from: 2, to: chartWidth - 6, most: math.Max(most, math.SmallestNonzeroFloat64)}
	var said []string
	ceilings := false
	short := shortenTo(names(group), chartWidth-long-gap, 13)
	for i, l := range group {
		y := float64(i * barRow)
		c.drawText(0, y+13, "label", short[i])
		c.drawText(chartWidth, y+13, "value end", l.formatValue())
		c.drawRect(0, y+19, chartWidth, 20, "track")
		c.drawRect(0, y+19, x.positionOf(l.Middle.Value), 20, "bar "+v.colour(v.Arms[l.Index]))
		for _, value := range v.Values(l.Index, metric) {
			c.drawDot(x.positionOf(value), y+29, 2.2, "run")
		}
		if formatInterval(l.Middle) != "-" {
			c.drawLine(x.positionOf(l.Middle.Low), y+29, x.positionOf(l.Middle.High), y+29, "whisker")
			c.drawLine(x.positionOf(l.Middle.Low), y+24, x.positionOf(l.Middle.Low), y+34, "whisker")
			c.drawLine(x.positionOf(l.Middle.High), y+24, x.positionOf(l.Middle.High), y+34, "whisker")
		}
		if l.Ceiling > 0 {
			ceilings = true
			c.drawLine(x.positionOf(l.Ceiling), y+18, x.positionOf(l.Ceiling), y+43, "ceiling")
		}
		said = append(said, fmt.Sprintf("%s %s, %s", l.Within, l.formatValue(), formatInterval(l.Middle)))
	}
	note := "Bars are medians, dots are runs, the bracket is the 95 % interval"
	if metric.Less {
		note += "; shorter is better"
	}
	if ceilings {
		note += "; the dashed line is what the wire can carry"
	}
	title := capitalize(metric.Title) + ": " + describeLoad(askedBy(v.Arms[group[0].Index].Workload).load)
	return figure{Title: title, Note: note + ".", Drawing: c.renderSVG(strings.Join(said, "; "))}
}
