package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// Sentence returns the result in one sentence: how much the VF carries compared with another
// path. If there is nothing to compare with, it gives the measured figure. It names both arms
// with their MTU.
func Sentence(r bench.Result) string {
	r = r.WithoutFalseWires()
	p, found := headline(r)
	if !found {
		return alone(r)
	}
	arm, base := r.Arms[p.Arm], r.Arms[p.Base]
	w := wordsFor(arm.Main().Name)
	gain := formatRatio(p.Ratio.Value)
	who := describeSubject(arm, base)
	what := possessed(base, arm, w.what)
	arms := fmt.Sprintf("%s: %s against %s.", at(r, arm), withMTU(arm), withMTU(base))
	switch {
	case p.Significant():
		cpu := ""
		if p.CPU.Significant() {
			cpu = fmt.Sprintf(" at %s the %s (%s)", formatRatio(p.CPU.Ratio.Value), w.cpu, bounds(p.CPU))
		}
		return fmt.Sprintf("%s %s %s %s (%s, p=%s, %s)%s%s", who, w.does, gain, what, bounds(p.Difference), formatChance(p.Adjusted), runs(p.N), cpu, arms)
	case p.Within(bench.DefaultMargin):
		return fmt.Sprintf("%s %s as much as %s, within %s: %s (%s, %s)%s", who, w.does, what, formatPercent(bench.DefaultMargin), gain, bounds(p.Difference), runs(p.N), arms)
	}
	return fmt.Sprintf("%s %s %s %s, which may be chance (%s; to show that much takes %s)%s", who, w.does, gain, what, runs(p.N), needs(p.Difference), arms)
}

// bounds prints the interval of a ratio.
func bounds(d bench.Difference) string {
	if math.IsInf(d.Ratio.Low, 0) || math.IsInf(d.Ratio.High, 0) {
		return "no bounds"
	}
	return formatRatio(d.Ratio.Low) + " to " + formatRatio(d.Ratio.High)
}

// needs returns how many rounds would show the difference that was seen.
func needs(d bench.Difference) string {
	if n := d.Rounds(d.Ratio.Value - 1); n > 0 {
		return fmt.Sprintf("about %d rounds", n)
	}
	return "more rounds"
}

// withMTU names an arm, its ends and its MTU.
func withMTU(a bench.Arm) string {
	s := a.Name
	if a.Path.Ends != "" && !strings.Contains(s, a.Path.Ends) {
		s += ", " + a.Path.Ends
	}
	if mtu := a.MTU(); mtu > 0 {
		return fmt.Sprintf("%s (MTU %d)", s, mtu)
	}
	return s + " (MTU not measured)"
}

type words struct{ does, what, cpu string }

func wordsFor(metric string) words {
	switch metric {
	case "pps":
		return words{"carries", "packet rate", "CPU per packet"}
	case "requests":
		return words{"answers", "requests a second", ""}
	case "p50":
		return words{"answers in", "round-trip time", ""}
	}
	return words{"carries", "throughput", "CPU per Gb/s"}
}

// headline chooses the pair for the sentence. It prefers streams to packets, packets to
// datagrams, and those to questions; then pairs between pods or guests, pairs between machines,
// and the order of [weighPair]. The pairs that remain do not depend on the figures, and are compared
// as a family of their own, by the tests of all pairs. Most results have one. headline takes the
// pair that carries most. The order of the arms does not matter.
func headline(r bench.Result) (best bench.Pair, found bool) {
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
	for _, p := range r.Pairs() {
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
		more := p.Is.Value > best.Is.Value && !r.Arms[p.Arm].Main().Less
		if !found || more {
			best, found = p, true
		}
	}
	return best, found
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

// describeSubject and possessed name the arms by their networks if these differ.
func describeSubject(arm, other bench.Arm) string {
	if arm.Path.Network == "" || arm.Path.Network == other.Path.Network {
		return arm.Name
	}
	return arm.Path.Network
}

func possessed(base, other bench.Arm, what string) string {
	switch n := base.Path.Network; n {
	case "", other.Path.Network:
		return "the " + what + " of " + base.Name
	case "host":
		return "the host network's " + what
	default:
		return "the " + n + "'s " + what
	}
}

// at names the size if several sizes were measured.
func at(r bench.Result, arm bench.Arm) string {
	if arm.Workload.Size == 0 || !slices.ContainsFunc(r.Arms, func(a bench.Arm) bool {
		return a.Workload.Kind == arm.Workload.Kind && a.Workload.Size != arm.Workload.Size
	}) {
		return ""
	}
	switch arm.Workload.Kind {
	case bench.Packets:
		return ", with frames of " + formatSize(arm.Workload.Size)
	case bench.Stream:
		return ", with writes of " + formatSize(arm.Workload.Size)
	case bench.Datagram, bench.Request, bench.Connect, bench.Echo:
	}
	return ", with messages of " + formatSize(arm.Workload.Size)
}

// alone returns the sentence for a result in which no two arms can be compared.
func alone(r bench.Result) string {
	for i, arm := range r.Arms {
		main := arm.Main()
		values := r.Values(i, main)
		if len(values) == 0 {
			continue
		}
		e := bench.Estimate(values)
		s := fmt.Sprintf("%s: %s %s %s (%s, n=%d)", arm.Name, main.Title, bench.Number(e.Value), main.Unit, formatInterval(e), len(values))
		if c := arm.Ceiling(); c > 0 {
			s += ", " + formatPercent(e.Value/c) + " of what the wire can carry"
		}
		return s + besideLoads(r, i) + "."
	}
	if n := len(r.Runs); n > 0 {
		return fmt.Sprintf("Nothing was measured: none of %d runs counts.", n)
	}
	return "Nothing was measured: there are no runs."
}

// besideLoads returns the figures of the arms that differ from an arm by a load.
func besideLoads(r bench.Result, idle int) (s string) {
	of := r.Arms[idle]
	for i, a := range r.Arms {
		w := a.Workload
		if w.Load = of.Workload.Load; i == idle || w != of.Workload || identifyPaths(a) != identifyPaths(of) {
			continue
		}
		main := a.Main()
		s += fmt.Sprintf("; beside TCP of %s %s", formatPercent(a.Workload.Load), formatAmount(bench.Median(r.Values(i, main)), main))
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

func runs(n [2]int) string {
	if n[0] == n[1] {
		return fmt.Sprintf("n=%d", n[0])
	}
	return fmt.Sprintf("n=%d and %d", n[0], n[1])
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
