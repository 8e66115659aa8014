package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Unlike describes how the second result's circumstances differ from the first's: machines,
// interfaces, and the workloads and paths of arms that both have. If it returns nothing, their
// figures can be compared. The version of culvert is left out: an engine that changed has another
// version itself.
func Unlike(a, b Result) []string {
	var out []string
	for _, p := range pairMachines(a.Machines, b.Machines) {
		switch {
		case p[0] == nil:
			out = append(out, fmt.Sprintf("machine %s is only in the second", p[1].Name))
		case p[1] == nil:
			out = append(out, fmt.Sprintf("machine %s is only in the first", p[0].Name))
		default:
			out = append(out, unlikeMachines(*p[0], *p[1])...)
		}
	}
	for i, x := range a.Arms {
		if j := slices.IndexFunc(b.Arms, func(y Arm) bool { return y.Name == x.Name }); j >= 0 {
			out = append(out, unlikeArms(x, b.Arms[j])...)
			out = append(out, unlikeMechanisms(a, b, i, j)...)
		}
	}
	return out
}

// Apart describes how the other machines of a result differ from its first.
func Apart(r Result) []string {
	var out []string
	for i := 1; i < len(r.Machines); i++ {
		out = append(out, unlikeMachines(r.Machines[0], r.Machines[i])...)
	}
	return out
}

// pairMachines pairs machines of the same name, and then the others in their order, since the
// machines of another cluster have other names.
func pairMachines(a, b []Machine) [][2]*Machine {
	var pairs [][2]*Machine
	taken := map[int]bool{}
	var left []*Machine
	for i := range a {
		j := slices.IndexFunc(b, func(m Machine) bool { return m.Name == a[i].Name })
		if j < 0 || taken[j] {
			left = append(left, &a[i])
			continue
		}
		taken[j] = true
		pairs = append(pairs, [2]*Machine{&a[i], &b[j]})
	}
	for j := range b {
		if taken[j] {
			continue
		}
		pair := [2]*Machine{nil, &b[j]}
		if len(left) > 0 {
			pair[0], left = left[0], left[1:]
		}
		pairs = append(pairs, pair)
	}
	for _, m := range left {
		pairs = append(pairs, [2]*Machine{m, nil})
	}
	return pairs
}

// traits has the properties by which two things of a kind are compared.
type traits []Setting

func (t *traits) addTrait(name string, value any) {
	if s, ok := value.(string); ok && s == "" {
		value = "none"
	}
	*t = append(*t, Setting{name, fmt.Sprint(value)})
}

// addSettings adds settings. A setting that only one side has is compared with "none".
func (t *traits) addSettings(list []Setting) { *t = append(*t, list...) }

// prefixSettings puts a prefix before the names of settings.
func prefixSettings(of string, settings []Setting) (all []Setting) {
	for _, s := range settings {
		all = append(all, Setting{of + s.Name, s.Value})
	}
	return all
}

// listUnlike describes each trait that differs, with where before its name.
func (t traits) listUnlike(other traits, where string) []string {
	var out []string
	value := func(t traits, name string) string {
		if i := slices.IndexFunc(t, func(s Setting) bool { return s.Name == name }); i >= 0 {
			return t[i].Value
		}
		return "none"
	}
	both := slices.Clone(t)
	for _, s := range other {
		if !slices.ContainsFunc(t, func(o Setting) bool { return o.Name == s.Name }) {
			both = append(both, Setting{Name: s.Name})
		}
	}
	for _, s := range both {
		if was, is := value(t, s.Name), value(other, s.Name); was != is {
			out = append(out, describeChange(where+s.Name, was, is))
		}
	}
	return out
}

func describeChange(what, from, to string) string {
	return fmt.Sprintf("%s: %s against %s", what, from, to)
}

func unlikeMachines(a, b Machine) []string {
	at := a.Name + ": "
	if a.Name != b.Name {
		at = a.Name + " and " + b.Name + ": "
	}
	out := a.listTraits().listUnlike(b.listTraits(), at)
	for _, x := range a.Interfaces {
		i := slices.IndexFunc(b.Interfaces, func(y Interface) bool { return y.Name == x.Name })
		if i < 0 {
			out = append(out, fmt.Sprintf("%sinterface %s is only in the first", at, x.Name))
			continue
		}
		y := b.Interfaces[i]
		if x.Qdisc == "" || y.Qdisc == "" { // one result is of a version that did not read it, or the interface was down
			x.Qdisc, y.Qdisc = "", ""
		}
		out = append(out, x.listTraits().listUnlike(y.listTraits(), at+x.Name+" ")...)
	}
	for _, y := range b.Interfaces {
		if !slices.ContainsFunc(a.Interfaces, func(x Interface) bool { return y.Name == x.Name }) {
			out = append(out, fmt.Sprintf("%sinterface %s is only in the second", at, y.Name))
		}
	}
	return out
}

func (m Machine) listTraits() traits {
	var t traits
	t.addTrait("kernel", m.Kernel)
	t.addTrait("processor", m.CPU)
	t.addTrait("processors", m.CPUs)
	t.addTrait("NUMA nodes", m.NUMANodes)
	t.addTrait("memory, MiB", m.MemoryMiB)
	t.addTrait("governor", m.Governor)
	t.addTrait("hypervisor", m.Hypervisor)
	t.addTrait("mitigations", strings.Join(m.Mitigated, ", "))
	t.addSettings(m.Sysctls)
	t.addSettings(m.Platform)
	t.addSettings(m.Tools)
	return t
}

// Settings returns the machine's settings, and the properties of its interfaces under their names.
func (m Machine) Settings() []Setting {
	all := slices.Concat(m.Platform, m.Sysctls)
	for _, i := range m.Interfaces {
		all = append(all, prefixSettings(i.Name+" ", i.listTraits())...)
	}
	return all
}

// listTraits leaves out the numbers of an interface's interrupts and its PCI address, which may
// change with each boot and do not affect its speed.
func (i Interface) listTraits() traits {
	var t traits
	t.addTrait("driver", i.Driver)
	t.addTrait("firmware", i.Firmware)
	t.addTrait("MTU", i.MTU)
	t.addTrait("speed, Mb/s", i.SpeedMbps)
	t.addTrait("receive queues", i.RxQueues)
	t.addTrait("transmit queues", i.TxQueues)
	t.addTrait("receive ring", i.RxRing)
	t.addTrait("transmit ring", i.TxRing)
	t.addTrait("NUMA node", i.NUMA)
	var cpus []string
	for _, irq := range i.IRQs {
		cpus = append(cpus, irq.CPUs)
	}
	t.addTrait("interrupts on processors", strings.Join(cpus, " | "))
	t.addTrait("PCI Express link", i.Bus)
	t.addSettings(prefixSettings("coalescing ", i.Coalescing))
	t.addTrait("flow control", i.FlowControl)
	t.addSettings(prefixSettings("hashed of ", i.FlowHash))
	t.addSettings(i.Steering)
	if i.Qdisc != "" {
		t.addTrait("queueing discipline", i.Qdisc)
	}
	t.addSettings(i.Offloads)
	return t
}

func unlikeArms(a, b Arm) []string {
	list := func(x Arm) traits {
		var t traits
		w := x.Workload
		t.addTrait("ends", x.Path.Ends)
		t.addTrait("network", x.Path.Network)
		t.addTrait("the Service's address is replaced", string(x.Path.Replaced))
		t.addTrait("place", x.Path.Place)
		t.addTrait("in the middle", string(x.Path.Via.How))
		t.addTrait("MTU", fmt.Sprintf("%d and %d", x.Path.From.MTU, x.Path.To.MTU))
		t.addTrait("kind", string(w.Kind))
		t.addTrait("engine", strings.TrimSpace(w.Engine+" "+w.Version))
		t.addTrait("seconds", w.Seconds)
		t.addTrait("seconds to warm up", w.Warmup)
		t.addTrait("streams", w.Streams)
		t.addTrait("size", w.Size)
		t.addTrait("window", w.Window)
		t.addTrait("rate", w.Rate)
		t.addTrait("flows, sources, MACs", fmt.Sprintf("%d, %d, %d", w.Flows, w.Sources, w.MACs))
		t.addTrait("frames in a burst", w.Burst)
		t.addTrait("reverse", w.Reverse)
		t.addTrait("over UDP", w.UDP)
		t.addTrait("senders", w.Senders)
		t.addTrait("DSCP", w.DSCP)
		t.addTrait("load", w.Load)
		t.addTrait("rate limit of the VF", w.RateLimit)
		t.addTrait("cable pulled", w.Pulled)
		t.addTrait("by hand", w.ByHand)
		return t
	}
	return list(a).listUnlike(list(b), "arm "+a.Name+": ")
}

// Remarks describes the unusual parts of a result's fingerprint, such as ends where one processor
// takes all packets (report R4's P18 and M18), and ends whose NIC is on another NUMA node than
// the processors that did the work.
func Remarks(r Result) []string {
	out := slices.Concat(r.sideRemarks(), r.aboveTheWire(), r.mismatchRemarks(), r.mechanismRemarks(), r.processorRemarks(), r.throttleRemarks(), r.windowRemarks())
	for _, m := range r.Machines {
		if m.CPUs < 2 {
			continue
		}
		for _, i := range m.Interfaces {
			if s := r.remoteWork(m, i); s != "" {
				out = append(out, s)
			}
		}
		for _, i := range m.Interfaces {
			if cpu, one := i.oneProcessor(); one && r.usesInterface(m.Name, i.Name) {
				out = append(out, fmt.Sprintf("%s on %s: one processor takes all packets: it has %s, and its %s to processor %s of %d only. "+
					"More queues, and irqbalance or smp_affinity, spread them.", i.Name, m.Name, countOf(i.RxQueues, "receive queue", ""), countOf(len(i.IRQs), "interrupt", "come"), cpu, m.CPUs))
			}
		}
	}
	return out
}

// listAboveWire returns the arms whose figures are above what a wire of the NIC's speed can carry.
func (r Result) listAboveWire() (arms []int) {
	for i, a := range r.Arms {
		if c, values := a.Ceiling(), r.Values(i, a.Main()); c > 0 && len(values) > 0 && Median(values) > AboveWire*c {
			arms = append(arms, i)
		}
	}
	return arms
}

// WithoutFalseWires returns the result without the ceilings between two machines if a figure
// between them is above its ceiling. A NIC there does not keep to its speed, so that its wire
// limits no figure.
func (r Result) WithoutFalseWires() Result {
	type wire struct{ from, to string }
	unbound := map[wire]bool{}
	for _, i := range r.listAboveWire() {
		p := r.Arms[i].Path
		unbound[wire{p.From.Machine, p.To.Machine}], unbound[wire{p.To.Machine, p.From.Machine}] = true, true
	}
	r.Arms = slices.Clone(r.Arms)
	for i := range r.Arms {
		if a := &r.Arms[i]; unbound[wire{a.Path.From.Machine, a.Path.To.Machine}] {
			a.CeilingGbps, a.CeilingPPS = 0, 0
		}
	}
	return r
}

// aboveTheWire describes the figures of listAboveWire.
func (r Result) aboveTheWire() []string {
	var above []string
	for _, i := range r.listAboveWire() {
		above = append(above, r.Arms[i].Name)
	}
	if len(above) == 0 {
		return nil
	}
	more := ""
	if n := len(above) - 1; n > 0 {
		more = fmt.Sprintf(" (and %s)", countOf(n, "other arm", ""))
	}
	return []string{above[0] + more + " is above what a wire of its speed can carry: a NIC there does not keep to its speed, as emulated ones do not. No figure between these machines is compared with a wire."}
}

// countOf writes a number of things, with a verb if there is one.
func countOf(n int, what, verb string) string {
	switch {
	case n == 1 && verb != "":
		verb += "s"
	case n != 1:
		what += "s"
	}
	return strings.TrimSuffix(fmt.Sprintf("%d %s %s", n, what, verb), " ")
}

// oneProcessor returns the processor that serves all interrupts of the interface. One processor
// serves an interrupt, even if any of them may, until irqbalance or a person moves it.
func (i Interface) oneProcessor() (cpu string, one bool) {
	for _, irq := range i.IRQs {
		comes := cmp.Or(irq.Comes, irq.CPUs)
		if _, err := strconv.Atoi(comes); err != nil || cpu != "" && cpu != comes {
			return "", false
		}
		cpu = comes
	}
	return cpu, cpu != ""
}

// usesInterface reports whether an arm's path begins or ends at the interface of a machine or guest, leaves by
// it, or is forwarded over it.
func (r Result) usesInterface(machine, name string) bool {
	return r.handsOn(machine, name) || slices.ContainsFunc(r.Arms, func(a Arm) bool {
		return slices.ContainsFunc(a.Paths(), func(p Path) bool {
			return slices.ContainsFunc([]End{p.From, p.To}, func(e End) bool {
				return (e.Machine == machine || e.Machine+"/"+e.Name == machine) && e.Over(name)
			})
		})
	})
}

// handsOn reports whether a machine or guest in the middle of a path had traffic on the interface.
func (r Result) handsOn(machine, name string) bool {
	return slices.ContainsFunc(r.Runs, func(run Run) bool {
		return slices.ContainsFunc(r.Arms[run.Arm].listRelays(run), func(e seenEnd) bool {
			return e.end.Machine == machine &&
				slices.ContainsFunc(e.seen.Interfaces, func(c Counters) bool { return c.Interface == name })
		})
	})
}
