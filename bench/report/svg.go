package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// chartWidth is the width of charts, in units that are about one pixel on a phone and one and a
// half on a desktop. Letters are 12 units high.
const chartWidth = 360

// chart is an SVG under construction. Its colours are classes of the page's style, so that they
// follow the light or dark mode.
type chart struct {
	b      strings.Builder
	height float64
}

func (c *chart) drawText(x, y float64, class, s string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(excerpt.Clean(s)))
}

func (c *chart) drawLine(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func (c *chart) drawRect(x, y, w, h float64, class string) {
	fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" class="%s"/>`, x, y, math.Max(0, w), h, class)
}

func (c *chart) drawDot(x, y, r float64, class string) {
	fmt.Fprintf(&c.b, `<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"/>`, x, y, r, class)
}

func (c *chart) drawPath(points [][2]float64, class string) {
	c.b.WriteString(`<polyline points="`)
	for i, p := range points {
		if i > 0 {
			c.b.WriteByte(' ')
		}
		fmt.Fprintf(&c.b, "%.1f,%.1f", p[0], p[1])
	}
	fmt.Fprintf(&c.b, `" class="%s"/>`, class)
}

// renderSVG completes the drawing. said describes it in words for a screen reader.
func (c *chart) renderSVG(said string) template.HTML {
	head := fmt.Sprintf(`<svg viewBox="0 0 %d %.0f" role="img" aria-label="`, chartWidth, c.height)
	return template.HTML(head + html.EscapeString(excerpt.Clean(said)) + `">` + c.b.String() + "</svg>") //nolint:gosec // every text in it went through EscapeString
}

// figure is a chart with its caption.
type figure struct {
	Title, Note string
	Drawing     template.HTML
	Keys        []key
}

// key is the legend of a line: the class of its colour and the name of its arm.
type key struct{ Class, Name string }

// axis maps values to positions along a side of the chart. It begins at 0, or at a power of ten
// if it is logarithmic.
type axis struct {
	from, to float64 // where on the chart
	least    float64 // of the values: 0, or more where it is logarithmic
	most     float64
}

func linearAxis(from, to, most float64) axis { return axis{from: from, to: to, most: niceAbove(most)} }

// logarithmicAxis spans whole powers of ten, at most nine.
func logarithmicAxis(from, to, least, most float64) axis {
	top := math.Ceil(math.Log10(math.Max(most, 1e-3)) - 1e-9)
	bottom := math.Floor(math.Log10(math.Max(least, 1e-3)) + 1e-9)
	bottom = math.Max(math.Min(bottom, top-1), top-9)
	return axis{from: from, to: to, least: math.Pow(10, bottom), most: math.Pow(10, top)}
}

func (a axis) positionOf(v float64) float64 {
	part := v / a.most
	if a.least > 0 {
		part = math.Log(v/a.least) / math.Log(a.most/a.least)
	}
	if math.IsNaN(part) {
		part = 0
	}
	return a.from + math.Min(1, math.Max(0, part))*(a.to-a.from)
}

// listTicks returns the values to print beside the axis.
func (a axis) listTicks() []float64 {
	var out []float64
	if a.least > 0 {
		for v := a.least; v <= a.most*1.001; v *= 10 {
			out = append(out, v)
		}
		return out
	}
	const steps = 4
	for i := range steps + 1 {
		out = append(out, a.most*float64(i)/steps)
	}
	return out
}

// rounds returns three to six round numbers from 0 to most, for an axis that ends at its largest
// value.
func rounds(most float64) []float64 {
	out := []float64{0}
	if !(most > 0) || math.IsInf(most, 0) {
		return out
	}
	step, power := 0.0, math.Pow(10, math.Floor(math.Log10(most))-1)
	for _, n := range []float64{1, 2, 2.5, 5, 10, 20, 25} {
		if step = n * power; most < 6*step {
			break
		}
	}
	for v := step; v <= most*(1+1e-9); v += step {
		out = append(out, v)
	}
	return out
}

// niceAbove returns the smallest round number that is at least v and whose quarters are round
// too.
func niceAbove(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8} {
		if v <= n*power*(1+1e-9) {
			return n * power
		}
	}
	return 10 * power
}

// tick returns the short text of a value beside an axis.
func tick(v float64) string {
	for _, u := range []struct {
		size   float64
		suffix string
	}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if v >= u.size {
			if u.suffix == "k" {
				u.size = 1e3
			}
			return fmt.Sprintf("%.3g%s", v/u.size, u.suffix)
		}
	}
	return fmt.Sprintf("%.4g", v)
}

// leftOf returns where the plot begins, so that the axis's texts have room.
func (a axis) leftOf() float64 {
	widest := 0.0
	for _, v := range a.listTicks() {
		widest = max(widest, widthOf(tick(v), 12, false))
	}
	return max(38, widest+tickGap)
}

// tickGap is the distance of an axis's texts to its plot.
const tickGap = 5

// drawFrame draws the axes of a chart whose plot begins at left.
func (c *chart) drawFrame(y axis, left, right float64, unit string) {
	for _, v := range y.listTicks() {
		c.drawLine(left, y.positionOf(v), right, y.positionOf(v), "grid")
		c.drawText(left-tickGap, y.positionOf(v)+4, "axis end", tick(v))
	}
	c.drawText(0, y.to-9, "axis", unit)
}

// chartColours is the number of colour classes that the page has.
const chartColours = 10

// chooseColours gives each path a class, in the order of the arms: the VF and the overlay of the
// sentence, or the first of each, have the same ones in every report. When the colours are used up, they
// come again with another pattern of the line: p2, p3 and p4.
func chooseColours(r bench.Result, best *bench.Pair) func(bench.Arm) string {
	known := map[string]string{}
	first := slices.Clone(r.Arms)
	if best != nil {
		first = slices.Insert(first, 0, r.Arms[best.Arm], r.Arms[best.Base])
	}
	for _, c := range []struct{ network, class string }{{"VF", "c1"}, {"overlay", "c2"}} {
		if i := slices.IndexFunc(first, func(a bench.Arm) bool { return a.Path.Network == c.network }); i >= 0 {
			known[identifyPaths(first[i])] = c.class
		}
	}
	others := 0
	for _, a := range r.Arms {
		if known[identifyPaths(a)] == "" {
			class := fmt.Sprintf("c%d", 3+others%(chartColours-2))
			if pattern := 1 + others/(chartColours-2); pattern > 1 {
				class += fmt.Sprintf(" p%d", pattern)
			}
			known[identifyPaths(a)] = class
			others++
		}
	}
	return func(a bench.Arm) string { return known[identifyPaths(a)] }
}

// identifyPaths returns what sets the paths of an arm apart from those of other arms: names may be alike.
func identifyPaths(a bench.Arm) string {
	var all []string
	for _, p := range a.Paths() {
		all = append(all, fmt.Sprint(namePath(p), describeEnd(p.From), p.From.Address, describeEnd(p.To), p.To.Address, p.Service, describeRelay(p.Via)))
	}
	return strings.Join(all, "\n")
}

// loads returns the workloads of the arms, each once.
func loads(r bench.Result) []bench.Workload {
	var out []bench.Workload
	for _, a := range r.Arms {
		if !slices.Contains(out, a.Workload) {
			out = append(out, a.Workload)
		}
	}
	return out
}

// describeLoad names a workload in a few words, with all that sets it apart from another one.
func describeLoad(w bench.Workload) string {
	parts := []string{strings.TrimSpace(w.Engine + " " + string(w.Kind))}
	if w.Streams > 1 {
		parts = append(parts, fmt.Sprintf("%d streams", w.Streams))
	}
	if w.Size > 0 {
		parts = append(parts, formatSize(w.Size))
	}
	for _, n := range []struct {
		count int
		of    string
	}{{w.Flows, "flows"}, {w.Sources, "sources"}, {w.MACs, "MAC addresses"}, {w.Senders, "senders"}} {
		switch {
		case n.count > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.of))
		case n.count == 1 && n.of == "flows": // 0 leaves their number to the engine
			parts = append(parts, "1 flow")
		}
	}
	if w.Window > 0 {
		parts = append(parts, "window of "+formatSize(w.Window))
	}
	switch {
	case w.Rate > 0 && (w.Kind == bench.Stream || w.Kind == bench.Datagram):
		parts = append(parts, bench.Number(w.Rate/1e6)+" Mb/s")
	case w.Rate > 0:
		parts = append(parts, bench.Number(w.Rate)+" a second")
	}
	if w.DSCP > 0 {
		parts = append(parts, fmt.Sprintf("DSCP %d", w.DSCP))
	}
	if w.Load > 0 {
		parts = append(parts, formatPercent(w.Load)+" load")
	}
	if w.RateLimit > 0 {
		parts = append(parts, fmt.Sprintf("VF limited to %d Mb/s", w.RateLimit))
	}
	if w.Burst > 1 {
		parts = append(parts, fmt.Sprintf("bursts of %d", w.Burst))
	}
	if w.UDP && w.Kind == bench.Request {
		parts = append(parts, "UDP")
	}
	if w.Pulled {
		parts = append(parts, "the cable is pulled"+map[bool]string{true: " by hand"}[w.ByHand])
	}
	if w.Reverse {
		parts = append(parts, "the other end sends")
	}
	if w.Seconds > 0 {
		parts = append(parts, bench.Number(w.Seconds)+" s")
	}
	return strings.Join(parts, ", ")
}
