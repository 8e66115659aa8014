package bench

import "math"

// Cost is the processor time that a run took, at both ends and on the machines between them
// together. It is NaN if there is no evidence, or if nothing arrived.
type Cost struct {
	SecondsPerGB float64 // of 1e9 bytes of payload
	// PerGbps is the percent of a processor that one Gb/s keeps busy.
	PerGbps     float64
	NsPerPacket float64
}

// Cost returns the processor time of a run of the arm, without the background load of the machines
// where that is known. A machine with several ends counts once. If the window of its evidence
// differs from the run's, Cost scales the time.
func (a Arm) Cost(r Run) Cost {
	seconds := 0.0
	for _, e := range onceBy(a.listEnds(r), byMachine) {
		seconds += e.seen.scaledSeconds(r.Seconds)
	}
	per := func(n float64) float64 {
		if n == 0 {
			return math.NaN()
		}
		return seconds / n
	}
	perGB := per(float64(r.Bytes) / 1e9)
	return Cost{SecondsPerGB: perGB, PerGbps: perGB / 8 * 100, NsPerPacket: per(float64(r.Packets)) * 1e9}
}

// scaledSeconds returns the processors' net seconds, scaled to a window of the given length.
func (e Evidence) scaledSeconds(window float64) float64 {
	if e.CPU.Seconds <= 0 {
		return math.NaN()
	}
	return e.CPU.Net() * window / e.CPU.Seconds
}

// muchBefore is the part of a machine's processors from which on it was too busy before a round.
const muchBefore = 0.1

// WasBusy reports whether so much of the machine was busy before the round that no figure of the
// processors can be trusted: other tasks get less time while the path needs some.
func (c CPUUse) WasBusy() bool {
	processors := float64(len(c.Busy))
	if processors == 0 && c.Seconds > 0 {
		processors = (c.Total() + c.Idle + c.Steal) / c.Seconds
	}
	return c.Background != nil && *c.Background > 0 && *c.Background >= muchBefore*processors
}

// Net returns Total without the background load, where that is known. It is not less than the time
// of the tasks that took part and of interrupts. It is NaN where the machine was too busy before.
func (c CPUUse) Net() float64 {
	if c.Background == nil {
		return c.Total()
	}
	if c.WasBusy() {
		return math.NaN()
	}
	part := sumSeconds(c.Tasks)
	// Some kernels count interrupts also as time of the task that they interrupt.
	twice := max(0, part+sumSeconds(c.Others)-c.User-c.System)
	least := part + c.IRQ + c.SoftIRQ - twice
	return max(c.Total()-*c.Background*c.Seconds, min(least, c.Total()))
}
