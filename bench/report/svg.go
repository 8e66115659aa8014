package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/excerpt"
)

// Charts are drawn this wide, in units that a phone shows as about one pixel and a
// desk as one and a half. Letters are 12 high.
const chartWidth = 360

// chart is an SVG in the making. Colours are classes of the page's style, so that they
// follow light and dark.
type chart struct {
	b      strings.Builder
	height float64
}

func (c *chart) text(x, y float64, class, s string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(excerpt.Clean(s)))
}

func (c *chart) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func (c *chart) rect(x, y, w, h float64, class string) {
	fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" class="%s"/>`, x, y, math.Max(0, w), h, class)
}

func (c *chart) dot(x, y, r float64, class string) {
	fmt.Fprintf(&c.b, `<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"/>`, x, y, r, class)
}

func (c *chart) path(points [][2]float64, class string) {
	c.b.WriteString(`<polyline points="`)
	for i, p := range points {
		if i > 0 {
			c.b.WriteByte(' ')
		}
		fmt.Fprintf(&c.b, "%.1f,%.1f", p[0], p[1])
	}
	fmt.Fprintf(&c.b, `" class="%s"/>`, class)
}

// svg closes the drawing. What it shows is said in words, for whoever hears the page.
func (c *chart) svg(said string) template.HTML {
	head := fmt.Sprintf(`<svg viewBox="0 0 %d %.0f" role="img" aria-label="`, chartWidth, c.height)
	return template.HTML(head + html.EscapeString(excerpt.Clean(said)) + `">` + c.b.String() + "</svg>") //nolint:gosec // every text in it went through EscapeString
}

// figure is a chart with its caption.
type figure struct {
	Title, Note string
	Drawing     template.HTML
	Keys        []key
}

// key tells which line is whose.
type key struct{ Class, Name string }

// axis maps values to a side of the chart, from 0, or from a power of ten.
type axis struct {
	from, to float64 // where on the chart
	least    float64 // of the values: 0, or more where it is logarithmic
	most     float64
}

func linear(from, to, most float64) axis { return axis{from: from, to: to, most: niceAbove(most)} }

// logarithmic spans whole powers of ten, at most nine.
func logarithmic(from, to, least, most float64) axis {
	top := math.Ceil(math.Log10(math.Max(most, 1e-3)) - 1e-9)
	bottom := math.Floor(math.Log10(math.Max(least, 1e-3)) + 1e-9)
	bottom = math.Max(math.Min(bottom, top-1), top-9)
	return axis{from: from, to: to, least: math.Pow(10, bottom), most: math.Pow(10, top)}
}

func (a axis) at(v float64) float64 {
	part := v / a.most
	if a.least > 0 {
		part = math.Log(v/a.least) / math.Log(a.most/a.least)
	}
	if math.IsNaN(part) {
		part = 0
	}
	return a.from + math.Min(1, math.Max(0, part))*(a.to-a.from)
}

// ticks are values to write beside the axis.
func (a axis) ticks() []float64 {
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

// rounds are round numbers from 0 to most, three to six, for an axis that ends where
// what it shows does.
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

// niceAbove is the first round number that is not below v, with quarters that are
// round too.
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

// tick tells a value beside an axis, short.
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

// frame draws the axes of a chart whose plot begins at left.
func (c *chart) frame(y axis, left, right float64, unit string) {
	for _, v := range y.ticks() {
		c.line(left, y.at(v), right, y.at(v), "grid")
		c.text(left-5, y.at(v)+4, "axis end", tick(v))
	}
	c.text(0, y.to-9, "axis", unit)
}

// colours gives each path a class, in the order of the arms: the first over a VF and
// the first over an overlay have the same ones in every report.
func colours(r bench.Result) func(bench.Arm) string {
	known := map[string]string{}
	for _, c := range []struct{ network, class string }{{"VF", "c1"}, {"overlay", "c2"}} {
		if i := slices.IndexFunc(r.Arms, func(a bench.Arm) bool { return a.Path.Network == c.network }); i >= 0 {
			known[way(r.Arms[i].Path)] = c.class
		}
	}
	others := 0
	for _, a := range r.Arms {
		if known[way(a.Path)] == "" {
			known[way(a.Path)] = fmt.Sprintf("c%d", 3+others%4)
			others++
		}
	}
	return func(a bench.Arm) string { return known[way(a.Path)] }
}

// loads are the workloads of the arms, each once.
func loads(r bench.Result) []bench.Workload {
	var out []bench.Workload
	for _, a := range r.Arms {
		if !slices.Contains(out, a.Workload) {
			out = append(out, a.Workload)
		}
	}
	return out
}

// load tells a workload in a few words.
func load(w bench.Workload) string {
	parts := []string{strings.TrimSpace(w.Engine + " " + string(w.Kind))}
	if w.Streams > 1 {
		parts = append(parts, fmt.Sprintf("%d streams", w.Streams))
	}
	if w.Size > 0 {
		parts = append(parts, size(w.Size))
	}
	if w.Flows > 1 {
		parts = append(parts, fmt.Sprintf("%d flows", w.Flows))
	}
	if w.Burst > 1 {
		parts = append(parts, fmt.Sprintf("bursts of %d", w.Burst))
	}
	if w.AFXDP {
		parts = append(parts, "AF_XDP")
	}
	if w.UDP && w.Kind == bench.Request {
		parts = append(parts, "UDP")
	}
	if w.Reverse {
		parts = append(parts, "the other end sends")
	}
	return strings.Join(parts, ", ")
}
