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
