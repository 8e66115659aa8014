package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// Sentence returns the result in a few sentences: the headline, how certain it is, at how much CPU,
// and both arms with their MTU.
func Sentence(r bench.Result) string {
	return makeView(r).summarize().String()
}

// headed is the result for a reader of one line, with the details for others.
type headed struct {
	Line      string // "VF carries 3.0 times what the overlay carries."
	Detail    string
	Arm, Base int // which it compares; -1 if none
}

func (h headed) String() string { return strings.TrimSpace(h.Line + " " + h.Detail) }

// summarize compares the VF with another path. If there is nothing to compare with, it gives the
// measured figure.
func (v view) summarize() headed {
	p := v.best
	if p == nil {
		return alone(v.Result)
	}
	arm, base := v.Arms[p.Arm], v.Arms[p.Base]
	w := wordsFor(arm.Main().Name)
	who, other := v.nameSubject(p.Arm, p.Base), v.nameOther(p.Base, p.Arm)
	h := headed{Line: fmt.Sprintf(w.times, who, formatTimes(p.Ratio.Value), other) + ".", Arm: p.Arm, Base: p.Base}
	switch {
	case p.Significant():
		h.Detail = fmt.Sprintf("%s; %s, p=%s.", boundTimes(p.Difference), describeRounds(p.N), formatChance(p.Adjusted))
		if p.CPU.Significant() {
			h.Detail += fmt.Sprintf(" It takes %s the %s: %s.", formatTimes(p.CPU.Ratio.Value), w.cpu, boundTimes(p.CPU))
		}
	case p.Within(bench.DefaultMargin):
		h.Line = fmt.Sprintf(w.alike+", within %s.", who, other, formatPercent(bench.DefaultMargin))
		h.Detail = fmt.Sprintf("%s: %s; %s.", formatRatio(p.Ratio.Value), boundTimes(p.Difference), describeRounds(p.N))
	default:
		h.Line = strings.TrimSuffix(h.Line, ".") + ", which may be chance."
		h.Detail = fmt.Sprintf("%s; to show that much takes %s.", capitalize(describeRounds(p.N)), needs(p.Difference))
	}
	h.Detail += fmt.Sprintf(" Compared%s: %s with %s.", v.labels[p.Arm].by(), withMTU(v.labels[p.Arm], arm), withMTU(v.labels[p.Base], base))
	return h
}

func capitalize(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// formatTimes writes a ratio for the headline, with two digits, or three near 1.
func formatTimes(v float64) string {
	digits := 1
	if v >= 9.95 {
		digits = 0
	}
	if v >= 1.095 && v < 1e4 {
		return strconv.FormatFloat(v, 'f', digits, 64) + " times"
	}
	return strings.TrimSuffix(formatRatio(v), "x") + " times"
}

// boundTimes prints the interval of a ratio for the sentence.
func boundTimes(d bench.Difference) string {
	if math.IsInf(d.Ratio.Low, 0) || math.IsInf(d.Ratio.High, 0) {
		return "no bounds"
	}
	return strings.TrimSuffix(formatRatio(d.Ratio.Low), "x") + " to " + strings.TrimSuffix(formatRatio(d.Ratio.High), "x") + " times"
}

// describeRounds says how many rounds were compared. Two arms of one result are measured in turns.
func describeRounds(n [2]int) string {
	if n[0] == n[1] {
		return fmt.Sprintf("%d rounds in turns", n[0])
	}
	return fmt.Sprintf("%d and %d rounds", n[0], n[1])
}

// needs returns how many rounds would show the difference that was seen.
func needs(d bench.Difference) string {
	if n := d.Rounds(d.Ratio.Value - 1); n > 0 {
		return fmt.Sprintf("about %d rounds", n)
	}
	return "more rounds"
}

// withMTU names an arm's path, its ends and its MTU.
func withMTU(l label, a bench.Arm) string {
	s := l.path
	if l.whole != "" {
		s = l.whole
	}
	if a.Path.Ends != "" && !strings.Contains(s, a.Path.Ends) {
		s += " " + a.Path.Ends
	}
	if mtu := a.MTU(); mtu > 0 {
		return fmt.Sprintf("%s (MTU %d)", s, mtu)
	}
	return s + " (MTU not measured)"
}

// words are formats of the sentence: with the subject, a ratio and the other, and without a ratio.
type words struct{ times, alike, cpu string }

func wordsFor(metric string) words {
	switch metric {
	case "pps":
		return words{"%s carries %s the packets that %s carries", "%s carries as many packets as %s", "CPU per packet"}
	case "requests":
		return words{"%s answers %s the requests that %s answers", "%s answers as many requests as %s", ""}
	case "p50":
		return words{"%s answers in %s the time of %s", "%s answers as fast as %s", ""}
	}
	return words{"%s carries %s what %s carries", "%s carries as much as %s", "CPU per Gb/s"}
}

// headline chooses the pair for the sentence. It prefers streams to packets, packets to
// datagrams, and those to questions; then pairs between pods or guests, pairs between machines,
// and the order of [weighPair]. The pairs that remain do not depend on the figures, and are compared
// as a family of their own, by the tests of all pairs. Most results have one. headline takes the
// pair that carries most. The order of the arms does not matter.
func headline(r bench.Result, pairs []bench.Pair) (best *bench.Pair) {
	order := []bench.Kind{bench.Stream, bench.Packets, bench.Datagram, bench.Connect, bench.Request, bench.Echo}
	compare := func(a, b bench.Pair) int {
		kind := func(p bench.Pair) int { return slices.Index(order, r.Arms[p.Arm].Workload.Kind) }
		node := func(p bench.Pair) int { return strings.Count(r.Arms[p.Arm].Path.Ends, "node") }
		near := func(p bench.Pair) int {
			if path := r.Arms[p.Arm].Path; path.From.Machine == path.To.Machine {
				return 1
			}
			return 0
		}
		return cmp.Or(kind(a)-kind(b), node(a)-node(b), near(a)-near(b), weighPair(r, a)-weighPair(r, b))
	}
	var primary []bench.Pair
	for _, p := range pairs {
		if p.N[0] == 0 || p.N[1] == 0 || math.IsNaN(p.Ratio.Value) {
			continue
		}
		if len(primary) == 0 || compare(p, primary[0]) < 0 {
			primary = []bench.Pair{p}
		} else if compare(p, primary[0]) == 0 {
			primary = append(primary, p)
		}
	}
	for _, p := range bench.AsFamily(primary) {
		if best == nil || p.Is.Value > best.Is.Value && !r.Arms[p.Arm].Main().Less {
			best = &p
		}
	}
	return best
}

// weighPair ranks a pair by its base: first an overlay, then another network, last the network of
// the arm itself.
func weighPair(r bench.Result, p bench.Pair) int {
	switch r.Arms[p.Base].Path.Network {
	case r.Arms[p.Arm].Path.Network:
		return 2
	case "overlay":
		return 0
	}
	return 1
}

// nameSubject and nameOther name the arms by their networks if these differ.
func (v view) nameSubject(arm, other int) string {
	if n := v.Arms[arm].Path.Network; n != "" && n != v.Arms[other].Path.Network {
		return n
	}
	return v.labels[arm].within()
}

func (v view) nameOther(base, other int) string {
	switch n := v.Arms[base].Path.Network; n {
	case "", v.Arms[other].Path.Network:
		return v.labels[base].within()
	case "host":
		return "the host network"
	default:
		return "the " + n
	}
}

// alone returns the sentence for a result in which no two arms can be compared.
func alone(r bench.Result) headed {
	for i, arm := range r.Arms {
		main := arm.Main()
		values := r.Values(i, main)
		if len(values) == 0 {
			continue
		}
		e := bench.Estimate(values)
		h := headed{Line: fmt.Sprintf("%s: %s %s %s.", arm.Name, main.Title, bench.Number(e.Value), main.Unit), Arm: i, Base: -1}
		h.Detail = fmt.Sprintf("Median of %d runs: %s.", len(values), formatInterval(e))
		if c := arm.Ceiling(); c > 0 {
			h.Detail += " It is " + formatPercent(e.Value/c) + " of what the wire can carry."
		}
		h.Detail += besideLoads(r, i)
		return h
	}
	if n := len(r.Runs); n > 0 {
		return headed{Line: fmt.Sprintf("Nothing was measured: none of %d runs counts.", n), Arm: -1, Base: -1}
	}
	return headed{Line: "Nothing was measured: there are no runs.", Arm: -1, Base: -1}
}

// besideLoads returns a sentence for each of the arms that differ from an arm by a load.
func besideLoads(r bench.Result, idle int) (s string) {
	of := r.Arms[idle]
	for i, a := range r.Arms {
		w := a.Workload
		if w.Load = of.Workload.Load; i == idle || w != of.Workload || identifyPaths(a) != identifyPaths(of) {
			continue
		}
		main := a.Main()
		s += fmt.Sprintf(" Beside TCP of %s: %s.", formatPercent(a.Workload.Load), formatAmount(bench.Median(r.Values(i, main)), main))
	}
	return s
}

// formatRatio writes a ratio, formatPercent a part. Both print one digit of a value that is too
// large to be the ratio of two figures of one result.
func formatRatio(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v >= 1e4:
		return fmt.Sprintf("%.1gx", v)
	}
	return fmt.Sprintf("%.2fx", v)
}

func formatPercent(part float64) string {
	switch {
	case math.IsNaN(part) || math.IsInf(part, 0):
		return "-"
	case part >= 100:
		return fmt.Sprintf("%.1g %%", 100*part)
	}
	return fmt.Sprintf("%.0f %%", 100*part)
}

func formatChance(p float64) string {
	if p < 0.001 {
		return "0.001 or less"
	}
	return fmt.Sprintf("%.1g", p)
}

// formatInterval prints an interval. An interval without bounds has too few values.
func formatInterval(i bench.Interval) string {
	if math.IsNaN(i.Value) || math.IsInf(i.Low, 0) || math.IsInf(i.High, 0) {
		return "-"
	}
	return bench.Number(i.Low) + " to " + bench.Number(i.High)
}

// formatSize prints a number of bytes as 64 B, 1 KiB or 512 KiB.
func formatSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
