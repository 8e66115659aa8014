package bench

import (
	"cmp"
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

// Limits returns the causes that kept the figure of an arm's run low, the strongest evidence first:
// bounds that the figure reaches, then processors that were fully busy, then queues that
// overflowed. If there is none, it returns one Limit that is "unknown".
func Limits(r Run, a Arm) []Limit {
	var found []Limit
	add := func(what, where, format string, args ...any) {
		found = append(found, Limit{What: what, Where: where, Evidence: fmt.Sprintf(format, args...)})
	}
	ends := a.listEnds(r)
	for _, e := range onceBy(ends, byName) {
		if t := e.seen.Throttled; t.Times > 0 {
			add("quota", e.end.Name+" on "+e.end.Machine, "its cgroup used up its CPU quota (cpu.max) %d times and stood still for %s s of %s s", t.Times, Number(t.Seconds), Number(e.seen.CPU.Seconds))
		}
	}
	a.findBounds(r, add)
	machines := onceBy(ends, byMachine) // the processors and backlogs of a machine count once
	for _, e := range onceBy(ends, byName) {
		e.findGuestLimit(add)
	}
	for _, e := range machines {
		e.findFullProcessors(a.Path.isPolled(), add)
	}
	for _, e := range onceBy(ends, byInterface) {
		e.findDrops(add)
	}
	for _, e := range machines {
		if n := e.seen.Softnet.Dropped; n > 0 {
			add("softnet", e.end.Machine, "%d packets dropped because a processor's backlog was full (net.core.netdev_max_backlog)", n)
		}
	}
	if found == nil && a.Path.isPolled() {
		add("unknown", "", "no bound was reached and nothing was dropped; a processor that polls is always full")
	}
	if found == nil {
		add("unknown", "", "no bound was reached, no processor was full and nothing was dropped")
	}
	return found
}

// aboveRate is a multiple of a VF's rate limit. A VF that carries more is not held to the limit, as
// on an emulated NIC.
const aboveRate = 1.1

// findBounds finds the computed bounds that the figures reach, the most specific first. With
// several paths the wires bound the total, and the other bounds are of each path.
func (a Arm) findBounds(total Run, add func(what, where, format string, args ...any)) {
	each := a.boundedPaths(total)
	for _, b := range each {
		b.findRateLimit(add)
		b.findQdisc(add)
	}
	if i := slices.IndexFunc(each, bounded.didAsWanted); i >= 0 {
		wanted, _ := a.Workload.wantedRate(each[i].run)
		add("rate limit", "workload", "no more than %s a second was asked for", Number(wanted))
	}
	if reachesBound(total.Gbps, a.CeilingGbps) && total.Gbps <= AboveWire*a.CeilingGbps {
		add("wire", nameInterface(a.senderOf(a.Path)), "%s Gb/s, %.0f %% of what the wire can carry of this", Number(total.Gbps), 100*total.Gbps/a.CeilingGbps)
	} else if reachesBound(total.PPS, a.CeilingPPS) && total.PPS <= AboveWire*a.CeilingPPS {
		add("wire", nameInterface(a.senderOf(a.Path)), "%s packets a second, %.0f %% of what the wire can carry of this size", Number(total.PPS), 100*total.PPS/a.CeilingPPS)
	}
	for _, b := range each {
		b.findGenerator(add)
	}
	for _, b := range each {
		b.findWindow(add)
	}
}

// AboveWire is the multiple of a wire's ceiling that no figure exceeds if the NIC keeps to the
// wire's speed.
const AboveWire = 1.01

func reachesBound(v, bound float64) bool { return bound > 0 && v >= atCeiling*bound }

// senderOf returns the end of a path that sends.
func (a Arm) senderOf(p Path) End {
	if a.Workload.Reverse {
		return p.To
	}
	return p.From
}

// bounded has the traffic that one path carried, and the path's bounds.
type bounded struct {
	Bounds
	sender End
	sent   Evidence // of the sender
	load   Workload
	run    Run
}

// boundedPaths returns the traffic and bounds of an arm's paths. A void run may lack some.
func (a Arm) boundedPaths(total Run) (all []bounded) {
	paths, bounds := a.Paths(), a.EachBounds()
	for i, r := range total.Each() {
		if i < len(paths) {
			sent := r.From
			if a.Workload.Reverse {
				sent = r.To
			}
			all = append(all, bounded{bounds[i], a.senderOf(paths[i]), sent, a.Workload, r})
		}
	}
	return all
}

func (b bounded) findRateLimit(add func(what, where, format string, args ...any)) {
	gbps, pps := b.allowed(b.sender, b.load)
	if b.load.Kind != Packets && reachesBound(b.run.Gbps, gbps) && b.run.Gbps < aboveRate*gbps {
		add("rate limit", nameInterface(b.sender), "%s Gb/s of the %s Gb/s of payload that fit into the %d Mb/s that the VF may send", Number(b.run.Gbps), Number(gbps), b.RateMbps)
	} else if sent := sentRate(b.run); b.load.Kind == Packets && reachesBound(sent, pps) && sent < aboveRate*pps {
		add("rate limit", nameInterface(b.sender), "%s packets a second of the %s that fit into the %d Mb/s that the VF may send", Number(sent), Number(pps), b.RateMbps)
	}
}

// findQdisc finds a queueing discipline of the sender at its rate.
func (b bounded) findQdisc(add func(what, where, format string, args ...any)) {
	gbps, pps := b.passes(b.sender, b.load)
	if b.load.Kind != Packets && reachesBound(b.run.Gbps, gbps) && b.run.Gbps < aboveRate*gbps {
		add("qdisc", nameInterface(b.sender), "%s Gb/s of the %s Gb/s of payload that fit into the %s Mb/s that a queueing discipline passes (tc qdisc)", Number(b.run.Gbps), Number(gbps), Number(b.QdiscMbps))
	} else if sent := sentRate(b.run); b.load.Kind == Packets && reachesBound(sent, pps) && sent < aboveRate*pps {
		add("qdisc", nameInterface(b.sender), "%s packets a second of the %s that fit into the %s Mb/s that a queueing discipline passes (tc qdisc)", Number(sent), Number(pps), Number(b.QdiscMbps))
	}
}

// passes returns the payload and the packets that a queueing discipline passes. It counts frames
// with their header, without checksum, preamble and gap.
func (b Bounds) passes(sender End, load Workload) (gbps, pps float64) {
	const mbps = 1000
	wire := Wire{SpeedMbps: mbps, MTU: cmp.Or(sender.MTU, 1500), Encapsulation: -frameCheck - preambleGap, IPv6: sender.Address.Is6()}
	gbps, pps = wire.Ceiling(load)
	return gbps * b.QdiscMbps / mbps, pps * b.QdiscMbps / mbps
}

// allowed returns the payload and the packets that fit into the rate limit of a VF that sends. The
// limit counts all bytes on the wire, and not only payload.
func (b Bounds) allowed(sender End, load Workload) (gbps, pps float64) {
	wire := Wire{SpeedMbps: b.RateMbps, MTU: cmp.Or(sender.MTU, 1500), VLANs: b.VLANs, IPv6: sender.Address.Is6()}
	return wire.Ceiling(load)
}

// RateCeiling returns the payload, in Gb/s, that fits into the rate limit of the VF that sends, or 0 if there is none.
func (a Arm) RateCeiling() float64 {
	gbps, _ := a.allowed(a.senderOf(a.Path), a.Workload)
	return gbps
}

// IsRateExceeded reports whether a throughput in Gb/s shows that the NIC does not enforce the rate limit
// of the VF that sends, as emulated ones do not.
func (a Arm) IsRateExceeded(gbps float64) bool {
	fit := a.RateCeiling()
	return fit > 0 && gbps > aboveRate*fit
}

func (b bounded) didAsWanted() bool {
	wanted, did := b.load.wantedRate(b.run)
	return reachesBound(did, wanted)
}

// findGenerator finds a generator at its limit. Such a generator reaches its rate without a
// network, and kept a processor busy in the run itself. The rate alone shows nothing: over loopback
// both ends share the processors, so that a path may carry more.
func (b bounded) findGenerator(add func(what, where, format string, args ...any)) {
	if b.sent.CPU.Seconds <= 0 || b.sent.EngineSeconds < fullGenerator*b.sent.CPU.Seconds {
		return
	}
	busy := b.sent.EngineSeconds / b.sent.CPU.Seconds
	if r := b.run; reachesBound(r.Gbps, b.GeneratorGbps) {
		add("generator", b.sender.Machine, "%s Gb/s with %s processors busy, and %s makes %s Gb/s there without a network, over loopback", Number(r.Gbps), Number(busy), b.load.Engine, Number(b.GeneratorGbps))
	} else if sent := max(r.PPS, sentRate(r)); reachesBound(sent, b.GeneratorPPS) {
		add("generator", b.sender.Machine, "%s packets a second sent with %s processors busy, and %s makes %s there without a network, over loopback", Number(sent), Number(busy), b.load.Engine, Number(b.GeneratorPPS))
	}
}

// fullGenerator is the least number of busy processors of a generator at its limit.
const fullGenerator = 0.9

func (b bounded) findWindow(add func(what, where, format string, args ...any)) {
	if b.load.Kind != Stream || b.load.Window == 0 || b.RTT == 0 {
		return
	}
	flying := b.load.Window * max(1, b.load.Streams)
	if most := float64(flying) * 8 / b.RTT / 1e3; b.run.Gbps >= muchOfWind*most {
		add("window", nameInterface(b.sender), "%s Gb/s; %d bytes in flight and a round trip of %s us allow %s Gb/s", Number(b.run.Gbps), flying, Number(b.RTT), Number(most))
	}
}

// wantedRate returns the rate that the workload asks for, and the rate that the sender reached.
func (w Workload) wantedRate(r Run) (wanted, did float64) {
	switch w.Kind {
	case Stream, Datagram:
		return w.Rate, r.Gbps * 1e9
	case Connect:
		return w.Rate, r.PPS
	case Packets:
		return w.Rate, sentRate(r)
	case Request, Echo: // the rate of questions does not limit their delays
	}
	return 0, 0
}

func sentRate(r Run) float64 {
	seconds := cmp.Or(r.SentSeconds, r.Seconds)
	if seconds <= 0 {
		return 0
	}
	return float64(r.Sent) / seconds
}

// nameInterface names an end's interface.
func nameInterface(e End) string {
	if e.VF != nil && e.PF != "" {
		return fmt.Sprintf("%s (VF %d of %s) on %s", e.Interface, *e.VF, e.PF, e.Machine)
	}
	return e.Interface + " on " + e.Machine
}

// findFullProcessors finds full processors of the end's machine. A thread that polls fills its own
// also while no frame comes, so that it is no cause.
func (e seenEnd) findFullProcessors(polled bool, add func(what, where, format string, args ...any)) {
	use := e.seen.CPU
	if polled {
		use.Busiest = 0
	}
	use.findFull(e.end.Machine, add)
}

// isPolled reports whether programs poll the NICs of the path, as DPDK does.
func (p Path) isPolled() bool { return p.Network == "DPDK" }

// findGuestLimit does the same for a virtual machine, by the counts of its own kernel.
func (e seenEnd) findGuestLimit(add func(what, where, format string, args ...any)) {
	if e.seen.Guest != nil {
		e.seen.Guest.findFull(e.end.Name+" on "+e.end.Machine, add)
	}
}

// findFull finds processors that were fully busy.
func (c CPUUse) findFull(of string, add func(what, where, format string, args ...any)) {
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
		if name, most := c.hungriestTask(); most > 0 {
			task = fmt.Sprintf("; most by %s, %s s of %s s", name, Number(most), Number(c.Seconds))
		}
		add("core", of, "%s was busy %.0f %% of the time%s", which, 100*c.Busiest, task)
	}
	if all := c.Total() + c.Idle + c.Steal; c.Steal > muchSteal*all {
		add("steal", of, "the hypervisor gave %.0f %% of the processors' time to others", 100*c.Steal/all)
	}
}

// hungriestTask returns the task that took the most time; of several it returns the first by
// name.
func (c CPUUse) hungriestTask() (name string, seconds float64) {
	for task, s := range c.Tasks {
		if s > seconds || s == seconds && task < name {
			name, seconds = task, s
		}
	}
	return name, seconds
}

// findDrops finds interfaces on the path that dropped packets.
func (e seenEnd) findDrops(add func(what, where, format string, args ...any)) {
	for _, c := range e.seen.Interfaces {
		if c.Role != "path" {
			continue
		}
		at := c.Interface + " on " + e.end.Machine
		if isLossy(c.RxDropped, c.RxPackets) {
			add("ring", at, "%d packets dropped on receiving, %s %% of them", c.RxDropped, Number(percentLost(c.RxDropped, c.RxPackets)))
		}
		if isLossy(c.TxDropped, c.TxPackets) {
			add("ring", at, "%d packets dropped on sending, %s %% of them", c.TxDropped, Number(percentLost(c.TxDropped, c.TxPackets)))
		}
	}
}

func isLossy(dropped, passed uint64) bool {
	return dropped > 0 && float64(dropped) > muchLoss*float64(passed)
}

func percentLost(dropped, passed uint64) float64 {
	return 100 * float64(dropped) / (float64(dropped) + float64(passed))
}
