package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/culvert-net/culvert/bench"
)

// Sentence is the result in one: what the VF carries of what the other way does, or,
// where nothing stands beside it, what was measured.
func Sentence(r bench.Result) string {
	p, found := headline(r)
	if !found {
		return alone(r)
	}
	arm, base := r.Arms[p.Arm], r.Arms[p.Base]
	w := wordsFor(arm.Main().Name)
	gain := times(p.Ratio.Value)
	how := fmt.Sprintf("+-%.2f, p=%s, %s", (p.Ratio.High-p.Ratio.Low)/2, chance(p.P), runs(p.N))
	if !p.CanTell() {
		return fmt.Sprintf("%s %s %s %s (%s: too few to rule out chance)%s.", subject(arm, base), w.does, gain, possessed(base, arm, w.what), runs(p.N), at(r, arm))
	}
	if !p.Significant() {
		return fmt.Sprintf("%s shows no difference: %s %s (%s)%s.", subject(arm, base), gain, possessed(base, arm, w.what), how, at(r, arm))
	}
	cpu := ""
	if c := p.CPU.Ratio.Value; !math.IsNaN(c) {
		cpu = fmt.Sprintf(" at %s the %s", times(c), w.cpu)
	}
	return fmt.Sprintf("%s %s %s %s (%s)%s%s.", subject(arm, base), w.does, gain, possessed(base, arm, w.what), how, cpu, at(r, arm))
}

type words struct{ does, what, cpu string }

func wordsFor(metric string) words {
	switch metric {
	case "pps":
		return words{"carries", "packet rate", "CPU per packet"}
	case "p50":
		return words{"answers in", "round-trip time", ""}
	}
	return words{"carries", "throughput", "CPU per Gb/s"}
}

// headline chooses the pair that says most: streams before packets before datagrams
// before questions, of those by [says], and of those the one that carries most.
func headline(r bench.Result) (best bench.Pair, found bool) {
	order := []bench.Kind{bench.Stream, bench.Packets, bench.Datagram, bench.Request, bench.Echo}
	compare := func(a, b bench.Pair) int {
		kind := func(p bench.Pair) int { return slices.Index(order, r.Arms[p.Arm].Workload.Kind) }
		return cmp.Or(kind(a)-kind(b), says(r, a)-says(r, b))
	}
	for _, p := range r.Pairs() {
		if p.N[0] == 0 || p.N[1] == 0 || math.IsNaN(p.Ratio.Value) {
			continue
		}
		more := p.Is.Value > best.Is.Value && !r.Arms[p.Arm].Main().Less
		if than := compare(p, best); !found || than < 0 || than == 0 && more {
			best, found = p, true
		}
	}
	return best, found
}

// says ranks what a pair is about: an overlay's place taken, then another network's,
// then two ways of one kind.
func says(r bench.Result, p bench.Pair) int {
	switch r.Arms[p.Base].Path.Network {
	case r.Arms[p.Arm].Path.Network:
		return 2
	case "overlay":
		return 0
	}
	return 1
}

// subject and possessed name the arms by their networks where those differ.
func subject(arm, other bench.Arm) string {
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

// at tells the size where several were measured.
func at(r bench.Result, arm bench.Arm) string {
	if arm.Workload.Size == 0 || !slices.ContainsFunc(r.Arms, func(a bench.Arm) bool {
		return a.Workload.Kind == arm.Workload.Kind && a.Workload.Size != arm.Workload.Size
	}) {
		return ""
	}
	switch arm.Workload.Kind {
	case bench.Packets:
		return ", with frames of " + size(arm.Workload.Size)
	case bench.Stream:
		return ", with writes of " + size(arm.Workload.Size)
	case bench.Datagram, bench.Request, bench.Echo:
	}
	return ", with messages of " + size(arm.Workload.Size)
}

// alone is the sentence where no two arms can be compared.
func alone(r bench.Result) string {
	for i, arm := range r.Arms {
		main := arm.Main()
		values := r.Values(i, main)
		if len(values) == 0 {
			continue
		}
		e := bench.Estimate(values)
		s := fmt.Sprintf("%s: %s %s %s (%s, n=%d)", arm.Name, main.Title, bench.Number(e.Value), main.Unit, between(e), len(values))
		if c := arm.Ceiling(); c > 0 {
			s += ", " + percent(e.Value/c) + " of what the wire can carry"
		}
		return s + "."
	}
	if n := len(r.Runs); n > 0 {
		return fmt.Sprintf("Nothing was measured: none of %d runs counts.", n)
	}
	return "Nothing was measured: there are no runs."
}

// times tells a ratio, percent a part; those that no two figures of one result have
// are told in short.
func times(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v >= 1e4:
		return fmt.Sprintf("%.1gx", v)
	}
	return fmt.Sprintf("%.2fx", v)
}

func percent(part float64) string {
	switch {
	case math.IsNaN(part) || math.IsInf(part, 0):
		return "-"
	case part >= 100:
		return fmt.Sprintf("%.1g %%", 100*part)
	}
	return fmt.Sprintf("%.0f %%", 100*part)
}

func chance(p float64) string {
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

// between tells an interval; one without bounds has too few values.
func between(i bench.Interval) string {
	if math.IsNaN(i.Value) || math.IsInf(i.Low, 0) || math.IsInf(i.High, 0) {
		return "-"
	}
	return bench.Number(i.Low) + " to " + bench.Number(i.High)
}

// size tells bytes as people write them: 64, 1 KiB, 512 KiB.
func size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
