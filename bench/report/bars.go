package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// names returns the names of the arms in rows.
func names(list []row) (all []string) {
	for _, r := range list {
		all = append(all, excerpt.Clean(r.Arm))
	}
	return all
}

// barFigures draws a figure of the arms of each metric: median, interval, every run as a dot, and
// the wire's ceiling. Arms of a sweep are drawn by sweepFigures.
func barFigures(r bench.Result) []figure {
	var list []row
	for _, l := range listRows(r) {
		if !isSwept(r, r.Arms[l.Index]) {
			list = append(list, l)
		}
	}
	var out []figure
	for _, group := range byMetric(list) {
		out = append(out, barFigure(r, group))
	}
	return out
}

// firstFigures returns the charts of medians. Before them comes a chart of the arms between the
// same ends as the sentence's, unless the first chart of medians has no other arms. The page begins
// with the first.
func firstFigures(r bench.Result) []figure {
	all := slices.Concat(barFigures(r), sweepFigures(r), delayFigures(r), histogramFigures(r))
	best, found := headline(r)
	if !found {
		return all
	}
	arm := r.Arms[best.Arm]
	var group []row
	others := false
	for _, l := range listRows(r) {
		switch a := r.Arms[l.Index]; {
		case a.Workload == arm.Workload && a.Path.Ends == arm.Path.Ends && !math.IsNaN(l.Middle.Value):
			group = append(group, l)
		case l.Metric.Name == arm.Main().Name && !isSwept(r, a):
			others = true
		}
	}
	if !others && !isSwept(r, arm) {
		return all
	}
	first := barFigure(r, group)
	first.Title += ", " + arm.Path.Ends + ": " + describeLoad(arm.Workload)
	return append([]figure{first}, all...)
}

const barRow = 46

func barFigure(r bench.Result, group []row) figure {
	metric := group[0].Metric
	most := 0.0
	for _, l := range group {
		most = math.Max(most, l.Ceiling)
		for _, v := range r.Values(l.Index, metric) {
			most = math.Max(most, v)
		}
	}
	c := chart{height: float64(len(group)*barRow + 4)}
	x := axis{from: 2, to: chartWidth - 6, most: math.Max(most, math.SmallestNonzeroFloat64)}
	colour := chooseColours(r)
	var said []string
	ceilings := false
	longest := 0
	for _, l := range group {
		longest = max(longest, len(l.formatValue()))
	}
	short := screen.ShortenAll(names(group), 44-longest)
	for i, l := range group {
		y := float64(i * barRow)
		c.drawText(0, y+13, "label", short[i])
		c.drawText(chartWidth, y+13, "value end", l.formatValue())
		c.drawRect(0, y+19, chartWidth, 20, "track")
		c.drawRect(0, y+19, x.positionOf(l.Middle.Value), 20, "bar "+colour(r.Arms[l.Index]))
		for _, v := range r.Values(l.Index, metric) {
			c.drawDot(x.positionOf(v), y+29, 2.2, "run")
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
		said = append(said, fmt.Sprintf("%s %s, %s", l.Arm, l.formatValue(), formatInterval(l.Middle)))
	}
	note := "Bars are medians, dots are runs, the bracket is the 95 % interval"
	if metric.Less {
		note += "; shorter is better"
	}
	if ceilings {
		note += "; the dashed line is what the wire can carry"
	}
	return figure{Title: strings.ToUpper(metric.Title[:1]) + metric.Title[1:], Note: note + ".", Drawing: c.renderSVG(strings.Join(said, "; "))}
}
