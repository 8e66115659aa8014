package bench

import "math"

// Cost is what processors spent on a run, those of both ends and of what is between them together,
// with all else that the machines did. NaN where there is no evidence, or nothing arrived.
type Cost struct {
	SecondsPerGB float64 // of 1e9 bytes of payload
	// PerGbps is the percent of a processor that one Gb/s keeps busy.
	PerGbps     float64
	NsPerPacket float64
}

// Cost returns what a run of the arm cost. A machine counts once, also when
// several ends are on it; a window of its evidence that was not quite the run's
// is scaled.
func (a Arm) Cost(r Run) Cost {
	seconds := 0.0
	for _, e := range once(a.ends(r), byMachine) {
		seconds += e.seen.seconds(r.Seconds)
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

// seconds are those of processors in a window of that many seconds.
func (e Evidence) seconds(window float64) float64 {
	if e.CPU.Seconds <= 0 {
		return math.NaN()
	}
	return e.CPU.Total() * window / e.CPU.Seconds
}
