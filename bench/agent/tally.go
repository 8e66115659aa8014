package agent

import (
	"fmt"
	"math"
	"slices"

	"github.com/culvert-net/culvert/bench"
)

// iperfError is an error that an iperf reported.
type iperfError string

func (e iperfError) Error() string { return string(e) }

// interval has the counts of an iperf between two moments, in seconds since its start: bytes and
// retransmitted segments.
type interval struct {
	start, end, bytes, again float64
	resent                   bool    // again is known
	cwnd                     float64 // the congestion window at its end, bytes; 0 is not known
}

// tally has the counts of one end in the window.
type tally struct {
	seconds, bytes, again float64
	bits                  []float64 // of each step of the series
	cwnd                  []float64 // at the end of each step
	resent                bool      // again is known
	allBytes, allAgain    float64   // of all intervals, the window's and others
	endBytes, endAgain    float64   // that an iperf counted when it ended, if the end sends
	segment               int       // payload of a full TCP segment; 0 is not known
}

// cutWindow takes the window out of the intervals, of which there is one for each of streams at
// any moment. For an interval that crosses an edge of the window it takes the part that lies
// within, as if it had gone evenly.
func cutWindow(all []interval, streams int, w bench.Workload) (tally, error) {
	t := tally{bits: make([]float64, countSteps(w)), resent: true}
	for _, i := range all {
		if i.bytes >= 0 && i.again >= 0 && i.bytes+i.again < math.MaxUint32<<30 { // a bad one in the window is an error below
			t.allBytes, t.allAgain = t.allBytes+i.bytes, t.allAgain+i.again
		}
		from, to := max(i.start, w.Warmup), min(i.end, w.Warmup+w.Seconds)
		if !(to > from) {
			continue
		}
		part := (to - from) / (i.end - i.start)
		total := i.bytes + i.again + i.cwnd
		if !(part <= 1) || !(i.cwnd >= 0) || !(i.bytes >= 0) || !(i.again >= 0) || math.IsInf(total, 0) || math.IsNaN(total) {
			return tally{}, fmt.Errorf("from %g s to %g s it counted %g bytes, %g sent again: this cannot be",
				i.start, i.end, i.bytes, i.again)
		}
		t.seconds += (to - from) / float64(streams)
		t.bytes, t.again = t.bytes+i.bytes*part, t.again+i.again*part
		at := int(((from+to)/2 - w.Warmup) / stepSeconds(w))
		at = min(max(at, 0), len(t.bits)-1)
		t.bits[at] += i.bytes * part * 8
		if t.resent = t.resent && i.resent; i.cwnd > 0 {
			if t.cwnd == nil {
				t.cwnd = make([]float64, len(t.bits))
			}
			t.cwnd[at] = i.cwnd
		}
	}
	const covered = 0.95
	if t.seconds < w.Seconds*covered || t.seconds > w.Seconds/covered {
		return tally{}, fmt.Errorf("its intervals have %.3g s of the window of %g s: it ended too early", t.seconds, w.Seconds)
	}
	return t, nil
}

// stepSeconds returns the length of one step of the series in seconds: a tenth of the window or a
// second, whichever is longer.
func stepSeconds(w bench.Workload) float64 { return max(1, w.Seconds/10) }

func countSteps(w bench.Workload) int { return max(1, int(math.Ceil(w.Seconds/stepSeconds(w)-1e-9))) }

// addTally adds the tally of a process that ran beside this one.
func (t tally) addTally(o tally) tally {
	if t.bits == nil {
		return o
	}
	sum := tally{
		seconds: max(t.seconds, o.seconds), bytes: t.bytes + o.bytes, again: t.again + o.again,
		resent: t.resent && o.resent, allBytes: t.allBytes + o.allBytes, allAgain: t.allAgain + o.allAgain,
		endBytes: t.endBytes + o.endBytes, endAgain: t.endAgain + o.endAgain, segment: min(t.segment, o.segment),
	}
	for i, b := range t.bits {
		sum.bits = append(sum.bits, b+o.bits[i])
	}
	for i := range min(len(t.cwnd), len(o.cwnd)) {
		sum.cwnd = append(sum.cwnd, t.cwnd[i]+o.cwnd[i])
	}
	return sum
}

// makeRun returns the part of a run that this end knows.
func (t tally) makeRun(w bench.Workload, sent bool) bench.Run {
	if sent {
		r := bench.Run{Totals: bench.Totals{
			Sent: wholeNumber(max(t.allBytes, t.endBytes)), Retransmits: wholeNumber(max(t.allAgain, t.endAgain)), Segment: max(0, t.segment),
		}}
		if t.cwnd != nil && !slices.Contains(t.cwnd, 0) {
			r.Cwnd = t.cwnd
		}
		return r
	}
	r := bench.Run{
		Seconds: t.seconds, Bytes: wholeNumber(t.bytes), Gbps: t.bytes * 8 / t.seconds / 1e9,
		Totals: bench.Totals{Arrived: wholeNumber(t.allBytes)},
	}
	for i, bits := range t.bits {
		r.Series = append(r.Series, bits/min(stepSeconds(w), w.Seconds-float64(i)*stepSeconds(w))/1e9)
	}
	return r
}

// wholeNumber converts a count from float64, which iperf3 uses for numbers in JSON.
func wholeNumber(v float64) uint64 { return uint64(math.Round(min(max(v, 0), 1<<62))) }
