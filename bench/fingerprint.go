package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Unlike says in words how the second result's circumstances differ from the first's:
// machines, interfaces and the workloads and paths of arms that both have. None,
// and their figures can be compared. The version of culvert is left out: an engine that
// changed has another version itself.
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
	for _, x := range a.Arms {
		if i := slices.IndexFunc(b.Arms, func(y Arm) bool { return y.Name == x.Name }); i >= 0 {
			out = append(out, unlikeArms(x, b.Arms[i])...)
		}
	}
	return out
}

// Apart says how the machines of one result differ from its first.
func Apart(r Result) []string {
	var out []string
	for i := 1; i < len(r.Machines); i++ {
		out = append(out, unlikeMachines(r.Machines[0], r.Machines[i])...)
	}
	return out
}

// pairMachines puts machines of one name together, and then what is left in order:
// another cluster's have other names.
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

// traits are what two things of a kind are compared by, in words.
type traits []Setting

func (t *traits) add(name string, value any) {
	if s, ok := value.(string); ok && s == "" {
		value = "none"
	}
	*t = append(*t, Setting{name, fmt.Sprint(value)})
}

// settings adds a list of them; one that is missing from the other is "none" there.
func (t *traits) settings(list []Setting) { *t = append(*t, list...) }

// unlike says what differs; where is put before.
func (t traits) unlike(other traits, where string) []string {
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
			out = append(out, changed(where+s.Name, was, is))
		}
	}
	return out
}

func changed(what, from, to string) string { return fmt.Sprintf("%s: %s against %s", what, from, to) }

func unlikeMachines(a, b Machine) []string {
	at := a.Name + ": "
	if a.Name != b.Name {
		at = a.Name + " and " + b.Name + ": "
	}
	out := a.traits().unlike(b.traits(), at)
	for _, x := range a.Interfaces {
		i := slices.IndexFunc(b.Interfaces, func(y Interface) bool { return y.Name == x.Name })
		if i < 0 {
			out = append(out, fmt.Sprintf("%sinterface %s is only in the first", at, x.Name))
			continue
		}
		out = append(out, x.traits().unlike(b.Interfaces[i].traits(), at+x.Name+" ")...)
	}
	for _, y := range b.Interfaces {
		if !slices.ContainsFunc(a.Interfaces, func(x Interface) bool { return y.Name == x.Name }) {
			out = append(out, fmt.Sprintf("%sinterface %s is only in the second", at, y.Name))
		}
	}
	return out
}

func (m Machine) traits() traits {
	var t traits
	t.add("kernel", m.Kernel)
	t.add("processor", m.CPU)
	t.add("processors", m.CPUs)
	t.add("NUMA nodes", m.NUMANodes)
	t.add("memory, MiB", m.MemoryMiB)
	t.add("governor", m.Governor)
	t.add("hypervisor", m.Hypervisor)
	t.add("mitigations", strings.Join(m.Mitigated, ", "))
	t.settings(m.Sysctls)
	t.settings(m.Tools)
	return t
}

// traits leaves out which interrupts an interface has and where it is plugged in:
// they change with each boot, and nothing runs slower for it.
func (i Interface) traits() traits {
	var t traits
	t.add("driver", i.Driver)
	t.add("firmware", i.Firmware)
	t.add("MTU", i.MTU)
	t.add("speed, Mb/s", i.SpeedMbps)
	t.add("receive queues", i.RxQueues)
	t.add("transmit queues", i.TxQueues)
	t.add("receive ring", i.RxRing)
	t.add("transmit ring", i.TxRing)
	t.add("NUMA node", i.NUMA)
	var cpus []string
	for _, irq := range i.IRQs {
		cpus = append(cpus, irq.CPUs)
	}
	t.add("interrupts on processors", strings.Join(cpus, " | "))
	t.settings(i.Offloads)
	return t
}

func unlikeArms(a, b Arm) []string {
	list := func(x Arm) traits {
		var t traits
		w := x.Workload
		t.add("ends", x.Path.Ends)
		t.add("network", x.Path.Network)
		t.add("place", x.Path.Place)
		t.add("in the middle", string(x.Path.Via.How))
		t.add("MTU", fmt.Sprintf("%d and %d", x.Path.From.MTU, x.Path.To.MTU))
		t.add("kind", string(w.Kind))
		t.add("engine", strings.TrimSpace(w.Engine+" "+w.Version))
		t.add("seconds", w.Seconds)
		t.add("seconds to warm up", w.Warmup)
		t.add("streams", w.Streams)
		t.add("size", w.Size)
		t.add("window", w.Window)
		t.add("rate", w.Rate)
		t.add("flows, sources, MACs", fmt.Sprintf("%d, %d, %d", w.Flows, w.Sources, w.MACs))
		t.add("frames in a burst", w.Burst)
		t.add("by AF_XDP", w.AFXDP)
		t.add("reverse", w.Reverse)
		t.add("over UDP", w.UDP)
		t.add("senders", w.Senders)
		t.add("rate limit of the VF", w.RateLimit)
		t.add("cable pulled", w.Pulled)
		return t
	}
	return list(a).unlike(list(b), "arm "+a.Name+": ")
}

// Remarks are what stands out in the fingerprint of a result: ends that one
// processor takes all packets of (report R4's P18 and M18), and ends whose NIC is on
// another NUMA node than the processors that did the work.
func Remarks(r Result) []string {
	out := r.aboveTheWire()
	for _, m := range r.Machines {
		if m.CPUs < 2 {
			continue
		}
		for _, i := range m.Interfaces {
			if s := r.remote(m, i); s != "" {
				out = append(out, s)
			}
		}
		for _, i := range m.Interfaces {
			if cpu, one := i.oneProcessor(); one && r.uses(m.Name, i.Name) {
				out = append(out, fmt.Sprintf("%s on %s: one processor takes all packets: it has %s, and its %s to processor %s of %d only. "+
					"More queues, and irqbalance or smp_affinity, spread them.", i.Name, m.Name, count(i.RxQueues, "receive queue", ""), count(len(i.IRQs), "interrupt", "come"), cpu, m.CPUs))
			}
		}
	}
	return out
}

// aboveTheWire tells of figures that no wire of the NIC's speed has carried.
func (r Result) aboveTheWire() []string {
	const rounding = 1.01
	var above []string
	for i, a := range r.Arms {
		if c, values := a.Ceiling(), r.Values(i, a.Main()); c > 0 && len(values) > 0 && Median(values) > rounding*c {
			above = append(above, a.Name)
		}
	}
	if len(above) == 0 {
		return nil
	}
	more := ""
	if n := len(above) - 1; n > 0 {
		more = fmt.Sprintf(" (and %s)", count(n, "other arm", ""))
	}
	return []string{above[0] + more + " is above what a wire of its speed can carry: that NIC does not keep to its speed, as emulated ones do not, and the ceiling is none"}
}

// count tells how many, with a verb if there is one.
func count(n int, what, verb string) string {
	switch {
	case n == 1 && verb != "":
		verb += "s"
	case n != 1:
		what += "s"
	}
	return strings.TrimSuffix(fmt.Sprintf("%d %s %s", n, what, verb), " ")
}

// oneProcessor returns the processor that all interrupts come to. One that may come to any
// still comes to one alone until irqbalance or somebody else moves it.
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

// uses reports whether an arm's path begins or ends at the interface of a machine or guest, leaves by
// it, or is handed on over it.
func (r Result) uses(machine, name string) bool {
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
		return slices.ContainsFunc(r.Arms[run.Arm].relays(run), func(e seenEnd) bool {
			return e.end.Machine == machine &&
				slices.ContainsFunc(e.seen.Interfaces, func(c Counters) bool { return c.Interface == name })
		})
	})
}
