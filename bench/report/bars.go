package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/screen"
)

// barFigures draw the arms of each metric: median, interval, every run as a dot, and
// the wire's ceiling. Arms of a sweep have a figure of their own.
func barFigures(r bench.Result) []figure {
	var list []row
	for _, l := range rows(r) {
		if !swept(r, r.Arms[l.Index]) {
			list = append(list, l)
		}
	}
	var out []figure
	for _, group := range byMetric(list) {
		out = append(out, barFigure(r, group))
	}
	return out
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
	colour := colours(r)
	var said []string
	ceilings := false
	for i, l := range group {
		y := float64(i * barRow)
		c.text(0, y+13, "label", screen.Shorten(excerpt.Clean(l.Arm), 44-len(l.value())))
		c.text(chartWidth, y+13, "value end", l.value())
		c.rect(0, y+19, chartWidth, 20, "track")
		c.rect(0, y+19, x.at(l.Middle.Value), 20, "bar "+colour(r.Arms[l.Index]))
		for _, v := range r.Values(l.Index, metric) {
			c.dot(x.at(v), y+29, 2.2, "run")
		}
		if between(l.Middle) != "-" {
			c.line(x.at(l.Middle.Low), y+29, x.at(l.Middle.High), y+29, "whisker")
			c.line(x.at(l.Middle.Low), y+24, x.at(l.Middle.Low), y+34, "whisker")
			c.line(x.at(l.Middle.High), y+24, x.at(l.Middle.High), y+34, "whisker")
		}
		if l.Ceiling > 0 {
			ceilings = true
			c.line(x.at(l.Ceiling), y+18, x.at(l.Ceiling), y+43, "ceiling")
		}
		said = append(said, fmt.Sprintf("%s %s, %s", l.Arm, l.value(), between(l.Middle)))
	}
	note := "Bars are medians, dots are runs, the bracket is the 95 % interval"
	if metric.Less {
		note += "; shorter is better"
	}
	if ceilings {
		note += "; the dashed line is what the wire can carry"
	}
	return figure{Title: strings.ToUpper(metric.Title[:1]) + metric.Title[1:], Note: note + ".", Drawing: c.svg(strings.Join(said, "; "))}
}
