package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the chart, in pixels.
const (
	chartWidth = 720
	barLeft    = 110
	barRight   = 590
	barHeight  = 22
)

// SVG draws both pairs' throughput as bars, each pair to its own scale.
func (c Comparison) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="230" font-family="sans-serif" font-size="13">`+"\n", chartWidth)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	chartPair(&b, 28, "TCP throughput, this run: median, and each run as a dot",
		bar{c.Slow.Name, Median(c.Slow.Gbps), c.Slow.Gbps}, bar{c.Fast.Name, Median(c.Fast.Gbps), c.Fast.Gbps})
	chartPair(&b, 136, c.Source, bar{c.OldSlow.Name, c.OldSlow.Gbps, nil}, bar{c.OldFast.Name, c.OldFast.Gbps, nil})
	b.WriteString("</svg>\n")
	return b.String()
}

// bar is a line of the chart.
type bar struct {
	name  string
	value float64
	runs  []float64
}

func chartPair(b *strings.Builder, top int, title string, slow, fast bar) {
	most := math.Max(slow.value, fast.value)
	for _, v := range append(append([]float64{}, slow.runs...), fast.runs...) {
		most = math.Max(most, v)
	}
	length := func(v float64) float64 {
		if !(v > 0) || !(most > 0) { // NaN too
			return 0
		}
		return v / most * (barRight - barLeft)
	}
	fmt.Fprintf(b, `<text x="10" y="%d" font-weight="bold">%s</text>`+"\n", top, html.EscapeString(title))
	for i, line := range []struct {
		bar
		colour string
	}{{slow, "#d9a441"}, {fast, "#3a8f5c"}} {
		y := top + 12 + i*(barHeight+10)
		middle := y + barHeight/2
		fmt.Fprintf(b, `<text x="10" y="%d">%s</text>`, middle+5, html.EscapeString(line.name))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, barLeft, y, length(line.value), barHeight, line.colour)
		for _, v := range line.runs {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%d" r="3" fill="#222222"/>`, barLeft+length(v), middle)
		}
		fmt.Fprintf(b, `<text x="%d" y="%d">%s Gb/s</text>`+"\n", barRight+12, middle+5, html.EscapeString(Number(line.value)))
	}
}
