package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// row is one arm, in the form that all outputs of the report share.
type row struct {
	Arm     string
	Within  string // the name below the question's title
	Index   int
	Metric  bench.Metric
	Middle  bench.Interval
	N       int
	Ceiling float64 // of Metric, in its unit; 0 unknown
	CPU     float64 // median of the metric "cpu", NaN unknown
	CPUUnit string
	// Against describes the comparisons with other arms.
	Against []string
}

func listRows(r bench.Result, pairs []bench.Pair) []row {
	var out []row
	labels := labelArms(r)
	pairs = slices.Clone(pairs)
	slices.SortStableFunc(pairs, func(a, b bench.Pair) int { return weighPair(r, a) - weighPair(r, b) })
	for i, arm := range r.Arms {
		main := arm.Main()
		values := r.Values(i, main)
		line := row{Arm: arm.Name, Within: labels[i].within(), Index: i, Metric: main, Middle: bench.Estimate(values), N: len(values), Ceiling: arm.Ceiling(), CPU: math.NaN()}
		for _, m := range bench.Metrics(arm.Workload.Kind) {
			if m.Name == "cpu" {
				line.CPU, line.CPUUnit = bench.Median(r.Values(i, m)), m.Unit
			}
		}
		for _, p := range pairs {
			if p.Arm == i && p.N[0] > 0 && p.N[1] > 0 {
				line.Against = append(line.Against, comparePair(r, p))
			}
		}
		out = append(out, line)
	}
	return out
}

func comparePair(r bench.Result, p bench.Pair) string {
	base := r.Arms[p.Base].Path.Network
	if base == "" || base == r.Arms[p.Arm].Path.Network {
		base = r.Arms[p.Base].Name
	}
	s := formatRatio(p.Ratio.Value) + " " + base
	switch {
	case p.Significant():
		return s + ", p=" + formatChance(p.Adjusted)
	case p.Within(bench.DefaultMargin):
		return s + ", alike within " + formatPercent(bench.DefaultMargin)
	}
	return s + ", cannot tell (" + needs(p.Difference) + " would)"
}

// limit is the cause that limited an arm, with the number of counted runs in which it did.
type limit struct {
	Arm string
	bench.Limit
	Runs, Of int
}

// listLimits returns, for each arm, at most two causes that came first in most of its runs.
func listLimits(r bench.Result) []limit {
	var out []limit
	for i, arm := range r.Arms {
		counted := r.Counted(i)
		var found []limit
		for _, run := range counted {
			first := bench.Limits(run, arm)[0] // by the present rules, also for an old result
			if arm.Main().Less && first.What == "unknown" {
				continue // no cause limits a delay
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

// listCares returns the warnings for readers who rely on the figures.
func listCares(r bench.Result, pairs []bench.Pair) []string {
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
			return slices.ContainsFunc(bench.Limits(run, arm), func(l bench.Limit) bool { return l.What == "generator" })
		}) {
			out = append(out, fmt.Sprintf("Arm %s is generator-limited: the path may carry more than was sent.", arm.Name))
		}
	}
	out = append(out, describeMTUs(r, pairs)...)
	return append(append(out, bench.Remarks(r)...), r.Notes...)
}

// describeMTUs names the first pair whose MTUs differ, and how many more there are: the MTUs
// cause a part of the difference between such arms.
func describeMTUs(r bench.Result, pairs []bench.Pair) []string {
	said, more := "", 0
	for _, p := range pairs {
		arm, base := r.Arms[p.Arm], r.Arms[p.Base]
		switch {
		case arm.MTU() == base.MTU() || arm.MTU() == 0 || base.MTU() == 0 || p.N[0] == 0 || p.N[1] == 0:
		case said == "":
			said = fmt.Sprintf("%s has MTU %d and %s has %d", arm.Name, arm.MTU(), base.Name, base.MTU())
		default:
			more++
		}
	}
	switch {
	case said == "":
		return nil
	case more > 0:
		said += fmt.Sprintf(", and %d more comparisons are like it", more)
	}
	return []string{said + ": a part of the difference is the MTU's."}
}

// listVoids returns the void runs, with the reason of each.
func listVoids(r bench.Result) []string {
	var out []string
	for i, run := range r.Runs {
		if run.Void != "" {
			out = append(out, fmt.Sprintf("run %d, %s: %s", i+1, r.Arms[run.Arm].Name, run.Void))
		}
	}
	return out
}

// describeResult describes when the result was measured, with which engines, and by how many
// runs.
func describeResult(r bench.Result) string {
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
	parts = append(parts, r.Started.UTC().Format("2006-01-02 15:04")+" to "+r.Ended.UTC().Format("15:04 UTC"))
	if r.Culvert != "" && r.Culvert != "-" {
		parts = append(parts, "culvert "+r.Culvert)
	}
	parts = append(parts, fmt.Sprintf("%d runs counted, %d to warm up, %d void", counts[0], counts[1], counts[2]))
	return strings.Join(parts, "; ")
}

// describeEmulation names the NICs that are emulated: those of machines that QEMU emulates
// without a hypervisor's help. It returns "" if no machine is known to be one.
func describeEmulation(r bench.Result) string {
	var drivers []string
	for _, m := range r.Machines {
		for _, i := range m.Interfaces {
			if m.Hypervisor == "tcg" && i.PCI != "" && !slices.Contains(drivers, i.Driver) {
				drivers = append(drivers, i.Driver)
			}
		}
	}
	if drivers == nil {
		return ""
	}
	slices.Sort(drivers)
	return fmt.Sprintf("The NICs (%s) and processors are emulated by QEMU: absolute figures mean nothing, ratios within this result do.", strings.Join(drivers, ", "))
}

// beside has a figure that a report printed, next to the one that was measured here.
type beside struct {
	Name, Printed, Arm, Here, Ratio string
}

func listPrinted(r bench.Result) []beside {
	var out []beside
	for _, f := range r.Printed {
		b := beside{Name: f.Name, Printed: f.Text, Arm: f.Arm, Here: "-", Ratio: "-"}
		if b.Printed == "" {
			b.Printed = bench.Number(f.Value) + " " + f.Unit
		}
		if f.Base != "" {
			b.Arm += " : " + f.Base
		}
		if i := armNamed(r, f.Arm); i >= 0 {
			v, unit := valueHere(r, i, f.Unit)
			if f.Unit == bench.RatioUnit || f.Unit == bench.SentRatioUnit {
				v, unit = ratioHere(r, i, armNamed(r, f.Base), f.Unit), f.Unit
			}
			if !math.IsNaN(v) {
				b.Here = bench.Number(v) + " " + unit
				if f.Text == "" && f.Unit == unit && f.Value != 0 && unit != bench.RetransmitsUnit { // runs differ in length
					b.Ratio = formatRatio(v / f.Value)
				}
			}
		}
		out = append(out, b)
	}
	return out
}

// valueHere returns the median of an arm to show beside a figure of the given unit, and the
// median's unit.
func valueHere(r bench.Result, arm int, unit string) (float64, string) {
	counted, a := r.Counted(arm), r.Arms[arm]
	switch unit {
	case bench.CPUUnit:
		return bench.Median(usedParts(r, arm)), unit
	case bench.SentUnit:
		return medianOf(counted, sentMpps), unit
	case bench.EachUnit:
		return medianOf(counted, func(run bench.Run) float64 {
			least := math.Inf(1)
			for _, one := range run.Each() {
				least = math.Min(least, a.Main().Of(a, one))
			}
			return least
		}), unit
	}
	if unit == "us" { // reports print the average that ping prints
		if d, found := spreadOf(r, arm); found {
			return d.Mean, unit
		}
		return math.NaN(), unit
	}
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

// armNamed returns the index of an arm, or -1 if there is none of the name.
func armNamed(r bench.Result, name string) int {
	return slices.IndexFunc(r.Arms, func(a bench.Arm) bool { return a.Name == name })
}

// ratioHere returns the ratio of two arms' medians, in one of the units of ratios, or NaN if there is no
// second arm.
func ratioHere(r bench.Result, arm, base int, unit string) float64 {
	if base < 0 {
		return math.NaN()
	}
	if unit == bench.SentRatioUnit {
		return medianOf(r.Counted(arm), sentMpps) / medianOf(r.Counted(base), sentMpps)
	}
	return bench.Median(r.Values(arm, r.Arms[arm].Main())) / bench.Median(r.Values(base, r.Arms[base].Main()))
}

// sentMpps returns the rate at which a run's frames left, or NaN if it does not have their number.
func sentMpps(run bench.Run) float64 {
	if run.Sent == 0 {
		return math.NaN()
	}
	return float64(run.Sent) / cmp.Or(run.SentSeconds, run.Seconds) / 1e6
}

// medianOf returns the median of a value of runs that have it.
func medianOf(runs []bench.Run, value func(bench.Run) float64) float64 {
	var all []float64
	for i := range runs {
		if v := value(runs[i]); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return bench.Median(all)
}

// describeMachine describes a machine's fingerprint in one line.
func describeMachine(m bench.Machine) string {
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

// describeCard describes an interface's fingerprint in one line.
func describeCard(i bench.Interface) string {
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

// describeEnd names where traffic starts or stops: machine, namespace, interface.
func describeEnd(e bench.End) string {
	s := e.Machine + " " + e.Name + " " + e.Interface
	if e.VF != nil && e.PF != "" {
		s += fmt.Sprintf(" (VF %d of %s)", *e.VF, e.PF)
	} else if e.Uplink != "" {
		s += " (over " + e.Uplink + ")"
	}
	return s
}

// listPlaces returns the paths, each with the questions that were asked over it.
func listPlaces(r bench.Result) []place {
	var out []place
	labels := labelArms(r)
	for i, a := range r.Arms {
		for _, path := range a.Paths() {
			p := place{Way: namePath(path), Via: path.Via, From: path.From, To: path.To}
			at := slices.IndexFunc(out, func(o place) bool {
				return o.Way == p.Way && o.Via == p.Via && describeEnd(o.From) == describeEnd(p.From) && describeEnd(o.To) == describeEnd(p.To)
			})
			if at < 0 {
				at = len(out)
				out = append(out, p)
			}
			if asks := labels[i].asks(); !slices.Contains(out[at].Asked, asks) {
				out[at].Asked = append(out[at].Asked, asks)
			}
		}
	}
	return out
}

type place struct {
	Way      string
	Via      bench.Relay
	From, To bench.End
	Asked    []string // which questions, by their short names
}

// describeRelay names the middle of a path, if it has one: machine, namespace, interfaces.
func describeRelay(v bench.Relay) string {
	if v == (bench.Relay{}) {
		return ""
	}
	s := " through " + v.Machine + " " + v.Name
	if v.In != "" {
		s += " " + v.In + "-" + v.Out
	}
	return s + " (" + string(v.How) + ")"
}

// namePath names a path: pod-pod, VF, other node. A Service has its address, with what replaced it.
func namePath(p bench.Path) string {
	network := p.Network
	if p.Service.IsValid() {
		network += " " + p.Service.String()
		if p.Replaced != "" {
			network += " (replaced " + string(p.Replaced) + ")"
		}
	}
	parts := slices.DeleteFunc([]string{p.Ends, network, p.Place}, func(s string) bool { return s == "" })
	return strings.Join(parts, ", ")
}
