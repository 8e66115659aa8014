package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// row is one arm as every form of the report tells it.
type row struct {
	Arm     string
	Index   int
	Metric  bench.Metric
	Middle  bench.Interval
	N       int
	Ceiling float64 // of Metric, in its unit; 0 unknown
	CPU     float64 // median of the metric "cpu", NaN unknown
	CPUUnit string
	// Against are comparisons with other arms, in words.
	Against []string
}

func rows(r bench.Result) []row {
	var out []row
	pairs := r.Pairs()
	slices.SortStableFunc(pairs, func(a, b bench.Pair) int { return says(r, a) - says(r, b) })
	for i, arm := range r.Arms {
		main := arm.Main()
		values := r.Values(i, main)
		line := row{Arm: arm.Name, Index: i, Metric: main, Middle: bench.Estimate(values), N: len(values), Ceiling: arm.Ceiling(), CPU: math.NaN()}
		for _, m := range bench.Metrics(arm.Workload.Kind) {
			if m.Name == "cpu" {
				line.CPU, line.CPUUnit = bench.Median(r.Values(i, m)), m.Unit
			}
		}
		for _, p := range pairs {
			if p.Arm == i && p.N[0] > 0 && p.N[1] > 0 {
				line.Against = append(line.Against, against(r, p))
			}
		}
		out = append(out, line)
	}
	return out
}

func against(r bench.Result, p bench.Pair) string {
	base := r.Arms[p.Base].Path.Network
	if base == "" || base == r.Arms[p.Arm].Path.Network {
		base = r.Arms[p.Base].Name
	}
	s := times(p.Ratio.Value) + " " + base
	switch {
	case !p.CanTell():
		return s + ", too few runs"
	case !p.Significant():
		return s + ", no difference"
	}
	return s + ", p=" + chance(p.P)
}

// limit is what held an arm down, in how many of the runs that count.
type limit struct {
	Arm string
	bench.Limit
	Runs, Of int
}

// limits are those that came first in most runs of each arm, at most two of them.
func limits(r bench.Result) []limit {
	var out []limit
	for i, arm := range r.Arms {
		counted := r.Counted(i)
		var found []limit
		for _, run := range counted {
			if len(run.Limits) == 0 {
				continue
			}
			first := run.Limits[0]
			if arm.Main().Less && first.What == "unknown" {
				continue // delays are not held down by anything
			}
			at := slices.IndexFunc(found, func(l limit) bool { return l.What == first.What && l.Where == first.Where })
			if at < 0 {
				at = len(found)
				found = append(found, limit{Arm: arm.Name, Limit: first, Of: len(counted)})
			}
			found[at].Runs++
		}
		slices.SortStableFunc(found, func(a, b limit) int { return b.Runs - a.Runs })
		out = append(out, found[:min(2, len(found))]...)
	}
	return out
}

// cares are what a reader must know before believing the figures.
func cares(r bench.Result) []string {
	var out []string
	if r.Unfinished != "" {
		out = append(out, "Runs are missing that were planned: "+r.Unfinished)
	}
	void := 0
	for _, run := range r.Runs {
		if run.Void != "" {
			void++
		}
	}
	if void > 0 {
		out = append(out, fmt.Sprintf("Void, and counted for nothing: %d of %d runs; see below why.", void, len(r.Runs)))
	}
	for i, arm := range r.Arms {
		switch n := len(r.Values(i, arm.Main())); {
		case n == 0:
			out = append(out, fmt.Sprintf("Arm %s has no run that counts.", arm.Name))
		case n < 6:
			out = append(out, fmt.Sprintf("Arm %s has %d: six runs are the fewest that bound a median.", arm.Name, n))
		}
		if slices.ContainsFunc(r.Counted(i), func(run bench.Run) bool {
			return slices.ContainsFunc(run.Limits, func(l bench.Limit) bool { return l.What == "generator" })
		}) {
			out = append(out, fmt.Sprintf("Arm %s is generator-limited: the path may carry more than was sent.", arm.Name))
		}
	}
	return append(append(out, bench.Remarks(r)...), r.Notes...)
}

// voids are the runs that count for nothing, with the reason.
func voids(r bench.Result) []string {
	var out []string
	for i, run := range r.Runs {
		if run.Void != "" {
			out = append(out, fmt.Sprintf("run %d, %s: %s", i+1, r.Arms[run.Arm].Name, run.Void))
		}
	}
	return out
}

// about says when, with what, and how many runs.
func about(r bench.Result) string {
	counts := [3]int{}
	for _, run := range r.Runs {
		switch {
		case run.Void != "":
			counts[2]++
		case run.Discard:
			counts[1]++
		default:
			counts[0]++
		}
	}
	var parts []string
	if r.Preset != "" {
		parts = append(parts, "preset "+r.Preset)
	}
	parts = append(parts, r.Started.UTC().Format("2006-01-02 15:04")+" to "+r.Ended.UTC().Format("15:04 UTC"))
	if r.Culvert != "" {
		parts = append(parts, "culvert "+r.Culvert)
	}
	parts = append(parts, fmt.Sprintf("%d runs counted, %d to warm up, %d void", counts[0], counts[1], counts[2]))
	return strings.Join(parts, "; ")
}

// beside puts what a report printed next to what was measured here.
type beside struct {
	Name, Printed, Arm, Here, Ratio string
}

func printed(r bench.Result) []beside {
	var out []beside
	for _, f := range r.Printed {
		b := beside{Name: f.Name, Printed: f.Text, Arm: f.Arm, Here: "-", Ratio: "-"}
		if b.Printed == "" {
			b.Printed = bench.Number(f.Value) + " " + f.Unit
		}
		if i := slices.IndexFunc(r.Arms, func(a bench.Arm) bool { return a.Name == f.Arm }); i >= 0 {
			v, unit := here(r, i, f.Unit)
			if !math.IsNaN(v) {
				b.Here = bench.Number(v) + " " + unit
				if f.Text == "" && f.Unit == unit && f.Value != 0 && unit != bench.RetransmitsUnit { // runs differ in length
					b.Ratio = times(v / f.Value)
				}
			}
		}
		out = append(out, b)
	}
	return out
}

// here is an arm's median that stands beside a figure of that unit, with its own unit.
func here(r bench.Result, arm int, unit string) (float64, string) {
	if unit != bench.RetransmitsUnit {
		main := r.Arms[arm].Main()
		return bench.Median(r.Values(arm, main)), main.Unit
	}
	var counts []float64
	for _, run := range r.Counted(arm) {
		if run.Retransmits != nil {
			counts = append(counts, float64(*run.Retransmits))
		}
	}
	return bench.Median(counts), unit
}

// machine tells a fingerprint in a line.
func machine(m bench.Machine) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if m.Kernel != "" {
		add("Linux %s", m.Kernel)
	}
	if m.CPUs > 0 {
		add("%d x %s", m.CPUs, cmp.Or(m.CPU, "-"))
	}
	if m.NUMANodes > 1 {
		add("%d NUMA nodes", m.NUMANodes)
	}
	if m.MemoryMiB > 0 {
		add("%d MiB", m.MemoryMiB)
	}
	if m.Governor != "" {
		add("governor %s", m.Governor)
	}
	if m.Hypervisor != "" {
		add("a guest of %s", m.Hypervisor)
	}
	for _, t := range m.Tools {
		add("%s %s", t.Name, t.Value)
	}
	return strings.Join(parts, ", ")
}

// card tells an interface's fingerprint in a line.
func card(i bench.Interface) string {
	parts := []string{i.Name + ": " + cmp.Or(i.Driver, "-")}
	if i.SpeedMbps > 0 {
		parts = append(parts, bench.Number(float64(i.SpeedMbps)/1e3)+" Gb/s")
	}
	parts = append(parts, fmt.Sprintf("MTU %d", i.MTU), fmt.Sprintf("%d+%d queues", i.RxQueues, i.TxQueues))
	if i.RxRing > 0 {
		parts = append(parts, fmt.Sprintf("ring %d", i.RxRing))
	}
	if i.NUMA >= 0 {
		parts = append(parts, fmt.Sprintf("NUMA node %d", i.NUMA))
	}
	return strings.Join(parts, ", ")
}

// end tells where traffic starts or stops: machine, namespace, interface.
func end(e bench.End) string {
	s := e.Machine + " " + e.Name + " " + e.Interface
	if e.VF != nil && e.PF != "" {
		s += fmt.Sprintf(" (VF %d of %s)", *e.VF, e.PF)
	} else if e.Uplink != "" {
		s += " (over " + e.Uplink + ")"
	}
	return s
}

// places are the paths, each with the arms that go over it.
func places(r bench.Result) []place {
	var out []place
	for _, a := range r.Arms {
		for _, path := range a.Paths() {
			p := place{Way: way(path), Via: path.Via, From: path.From, To: path.To}
			at := slices.IndexFunc(out, func(o place) bool {
				return o.Way == p.Way && o.Via == p.Via && end(o.From) == end(p.From) && end(o.To) == end(p.To)
			})
			if at < 0 {
				at = len(out)
				out = append(out, p)
			}
			out[at].Arms = append(out[at].Arms, a.Name)
		}
	}
	return out
}

type place struct {
	Way      string
	Via      bench.Relay
	From, To bench.End
	Arms     []string
}

// through tells what is in the middle of a path, if anything: machine, namespace, interfaces.
func through(v bench.Relay) string {
	if v == (bench.Relay{}) {
		return ""
	}
	s := " through " + v.Machine + " " + v.Name
	if v.In != "" {
		s += " " + v.In + "-" + v.Out
	}
	return s + " (" + string(v.How) + ")"
}

// way names a path: pod-pod, VF, other node.
func way(p bench.Path) string {
	parts := slices.DeleteFunc([]string{p.Ends, p.Network, p.Place}, func(s string) bool { return s == "" })
	return strings.Join(parts, ", ")
}
