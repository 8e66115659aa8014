package bench

import (
	"fmt"
	"slices"
)

// Bounds of what counts as reached or used up.
const (
	atCeiling  = 0.95 // of a bound
	fullCore   = 0.95 // of the window
	muchSteal  = 0.05 // of the processors' time
	muchLoss   = 1e-4 // of the packets
	muchOfWind = 0.80 // of window/RTT: acknowledgements and queues take the rest
)

// Limits says what held the figure of an arm's run down, from what was seen of it, the
// strongest evidence first: bounds that the figure is at, then processors that had
// no more to give, then queues that ran over. Where nothing of these is
// seen, that is the one answer.
func Limits(r Run, a Arm) []Limit {
	var found []Limit
	add := func(what, where, format string, args ...any) {
		found = append(found, Limit{What: what, Where: where, Evidence: fmt.Sprintf(format, args...)})
	}
	a.bounds(r, add)
	ends := a.ends(r)
	machines := once(ends, byMachine) // its processors and backlogs are counted once
	for _, e := range once(ends, byName) {
		e.guest(add)
	}
	for _, e := range machines {
		e.processors(add)
	}
	for _, e := range once(ends, byInterface) {
		e.rings(add)
	}
	for _, e := range machines {
		if n := e.seen.Softnet.Dropped; n > 0 {
			add("softnet", e.end.Machine, "%d packets dropped because a processor's backlog was full (net.core.netdev_max_backlog)", n)
		}
	}
	if found == nil {
		add("unknown", "", "no bound was reached, no processor was full and nothing was dropped")
	}
	return found
}

// aboveRate is of a VF's rate what it cannot carry if something keeps it to that rate:
// an emulated NIC does not.
const aboveRate = 1.1

// bounds finds those that can be worked out, tightest to explain first. Of several paths
// the wires carry the total, and all else bounds each.
func (a Arm) bounds(total Run, add func(what, where, format string, args ...any)) {
	each := a.bounded(total)
	for _, b := range each {
		b.rated(add)
	}
	if i := slices.IndexFunc(each, bounded.didAsWanted); i >= 0 {
		wanted, _ := a.Workload.wanted(each[i].run)
		add("rate limit", "workload", "no more than %s a second was asked for", Number(wanted))
	}
	if reaches(total.Gbps, a.CeilingGbps) {
		add("wire", where(a.sender(a.Path)), "%s Gb/s, %.0f %% of what the wire can carry of this", Number(total.Gbps), 100*total.Gbps/a.CeilingGbps)
	} else if reaches(total.PPS, a.CeilingPPS) {
		add("wire", where(a.sender(a.Path)), "%s packets a second, %.0f %% of what the wire can carry of this size", Number(total.PPS), 100*total.PPS/a.CeilingPPS)
	}
	for _, b := range each {
		b.generated(add)
	}
	for _, b := range each {
		b.windowed(add)
	}
}

func reaches(v, bound float64) bool { return bound > 0 && v >= atCeiling*bound }

// sender is the end of a path that does.
func (a Arm) sender(p Path) End {
	if a.Workload.Reverse {
		return p.To
	}
	return p.From
}

// bounded is what one path carried, and its bounds.
type bounded struct {
	Bounds
	sender End
	load   Workload
	run    Run
}

// bounded are an arm's; a void run may lack some.
func (a Arm) bounded(total Run) (all []bounded) {
	paths, bounds := a.Paths(), a.EachBounds()
	for i, r := range total.Each() {
		if i < len(paths) {
			all = append(all, bounded{bounds[i], a.sender(paths[i]), a.Workload, r})
		}
	}
	return all
}

func (b bounded) rated(add func(what, where, format string, args ...any)) {
	if rate := float64(b.RateMbps) / 1e3; reaches(b.run.Gbps, rate) && b.run.Gbps < aboveRate*rate {
		add("rate limit", where(b.sender), "%s Gb/s of the %s Gb/s that the VF may send", Number(b.run.Gbps), Number(rate))
	}
}

func (b bounded) didAsWanted() bool {
	wanted, did := b.load.wanted(b.run)
	return reaches(did, wanted)
}

func (b bounded) generated(add func(what, where, format string, args ...any)) {
	if r := b.run; reaches(r.Gbps, b.GeneratorGbps) {
		add("generator", b.sender.Machine, "%s Gb/s, and %s makes %s Gb/s there without a network, over loopback", Number(r.Gbps), b.load.Engine, Number(b.GeneratorGbps))
	} else if sent := max(r.PPS, sentRate(r)); reaches(sent, b.GeneratorPPS) {
		add("generator", b.sender.Machine, "%s packets a second sent, and %s makes %s there without a network, over loopback", Number(sent), b.load.Engine, Number(b.GeneratorPPS))
	}
}

func (b bounded) windowed(add func(what, where, format string, args ...any)) {
	if b.load.Kind != Stream || b.load.Window == 0 || b.RTT == 0 {
		return
	}
	flying := b.load.Window * max(1, b.load.Streams)
	if most := float64(flying) * 8 / b.RTT / 1e3; b.run.Gbps >= muchOfWind*most {
		add("window", where(b.sender), "%s Gb/s; %d bytes in flight and a round trip of %s us allow %s Gb/s", Number(b.run.Gbps), flying, Number(b.RTT), Number(most))
	}
}

// wanted is the rate that was asked for, and what the sender did of it.
func (w Workload) wanted(r Run) (wanted, did float64) {
	switch w.Kind {
	case Datagram:
		return w.Rate, r.Gbps * 1e9
	case Packets:
		return w.Rate, sentRate(r)
	case Stream, Request, Echo: // a rate of questions is not what holds their delays
	}
	return 0, 0
}

func sentRate(r Run) float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return float64(r.Sent) / r.Seconds
}

// where names an end's interface.
func where(e End) string {
	if e.VF != nil && e.PF != "" {
		return fmt.Sprintf("%s (VF %d of %s) on %s", e.Interface, *e.VF, e.PF, e.Machine)
	}
	return e.Interface + " on " + e.Machine
}

func (e seenEnd) processors(add func(what, where, format string, args ...any)) {
	e.seen.CPU.full(e.end.Machine, add)
}

// guest is the same of a virtual machine, by its own kernel.
func (e seenEnd) guest(add func(what, where, format string, args ...any)) {
	if e.seen.Guest != nil {
		e.seen.Guest.full(e.end.Name+" on "+e.end.Machine, add)
	}
}

// full finds processors that had no more to give.
func (c CPUUse) full(of string, add func(what, where, format string, args ...any)) {
	if c.Seconds <= 0 {
		return
	}
	if c.Busiest >= fullCore {
		which := "the busiest processor"
		for i, busy := range c.Busy {
			if busy == c.Busiest {
				which = fmt.Sprintf("processor %d", i)
			}
		}
		task := ""
		if name, most := c.hungriest(); most > 0 {
			task = fmt.Sprintf("; most by %s, %s s of %s s", name, Number(most), Number(c.Seconds))
		}
		add("core", of, "%s was busy %.0f %% of the time%s", which, 100*c.Busiest, task)
	}
	if all := c.Total() + c.Idle + c.Steal; c.Steal > muchSteal*all {
		add("steal", of, "the hypervisor gave %.0f %% of the processors' time to others", 100*c.Steal/all)
	}
}

// hungriest is the task that took most; of several the first by name.
func (c CPUUse) hungriest() (name string, seconds float64) {
	for task, s := range c.Tasks {
		if s > seconds || s == seconds && task < name {
			name, seconds = task, s
		}
	}
	return name, seconds
}

// rings finds interfaces on the path that dropped.
func (e seenEnd) rings(add func(what, where, format string, args ...any)) {
	for _, c := range e.seen.Interfaces {
		if c.Role != "path" {
			continue
		}
		at := c.Interface + " on " + e.end.Machine
		if lossy(c.RxDropped, c.RxPackets) {
			add("ring", at, "%d packets dropped on receiving, %s %% of them", c.RxDropped, Number(share(c.RxDropped, c.RxPackets)))
		}
		if lossy(c.TxDropped, c.TxPackets) {
			add("ring", at, "%d packets dropped on sending, %s %% of them", c.TxDropped, Number(share(c.TxDropped, c.TxPackets)))
		}
	}
}

func lossy(dropped, passed uint64) bool {
	return dropped > 0 && float64(dropped) > muchLoss*float64(passed)
}

func share(dropped, passed uint64) float64 {
	return 100 * float64(dropped) / (float64(dropped) + float64(passed))
}
