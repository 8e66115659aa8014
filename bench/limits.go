package bench

import "fmt"

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
// the wires carry the total; all else bounds each, and is known of the first.
func (a Arm) bounds(total Run, add func(what, where, format string, args ...any)) {
	r := total.Each()[0]
	at := func(v, bound float64) bool { return bound > 0 && v >= atCeiling*bound }
	path, load := a.Path, a.Workload
	sender := path.From
	if load.Reverse {
		sender = path.To
	}
	if rate := float64(a.RateMbps) / 1e3; at(r.Gbps, rate) && r.Gbps < aboveRate*rate {
		add("rate limit", where(sender), "%s Gb/s of the %s Gb/s that the VF may send", Number(r.Gbps), Number(float64(a.RateMbps)/1e3))
	}
	if wanted, did := load.wanted(r); at(did, wanted) {
		add("rate limit", "workload", "no more than %s a second was asked for", Number(wanted))
	}
	if at(total.Gbps, a.CeilingGbps) {
		add("wire", where(sender), "%s Gb/s, %.0f %% of what the wire can carry of this", Number(total.Gbps), 100*total.Gbps/a.CeilingGbps)
	} else if at(total.PPS, a.CeilingPPS) {
		add("wire", where(sender), "%s packets a second, %.0f %% of what the wire can carry of this size", Number(total.PPS), 100*total.PPS/a.CeilingPPS)
	}
	if at(r.Gbps, a.GeneratorGbps) {
		add("generator", sender.Machine, "%s Gb/s, and %s makes %s Gb/s there without a network, over loopback", Number(r.Gbps), load.Engine, Number(a.GeneratorGbps))
	} else if at(max(r.PPS, sentRate(r)), a.GeneratorPPS) {
		add("generator", sender.Machine, "%s packets a second sent, and %s makes %s there without a network, over loopback", Number(max(r.PPS, sentRate(r))), load.Engine, Number(a.GeneratorPPS))
	}
	if load.Kind == Stream && load.Window > 0 && a.RTT > 0 {
		most := float64(load.Window) * 8 * float64(max(1, load.Streams)) / a.RTT / 1e3
		if r.Gbps >= muchOfWind*most {
			add("window", where(sender), "%s Gb/s; %d bytes in flight and a round trip of %s us allow %s Gb/s", Number(r.Gbps), load.Window*max(1, load.Streams), Number(a.RTT), Number(most))
		}
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
	use := e.seen.CPU
	if use.Seconds <= 0 {
		return
	}
	if use.Busiest >= fullCore {
		which := "the busiest processor"
		for i, busy := range use.Busy {
			if busy == use.Busiest {
				which = fmt.Sprintf("processor %d", i)
			}
		}
		task := ""
		if name, most := use.hungriest(); most > 0 {
			task = fmt.Sprintf("; most by %s, %s s of %s s", name, Number(most), Number(use.Seconds))
		}
		add("core", e.end.Machine, "%s was busy %.0f %% of the time%s", which, 100*use.Busiest, task)
	}
	if all := use.Total() + use.Idle + use.Steal; use.Steal > muchSteal*all {
		add("steal", e.end.Machine, "the hypervisor gave %.0f %% of the processors' time to others", 100*use.Steal/all)
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
