package agent

import (
	"fmt"
	"math"

	"github.com/culvert-net/culvert/bench"
)

// iperfError is what an iperf says was in its way.
type iperfError string

func (e iperfError) Error() string { return string(e) }

// interval is what an iperf counted from one moment to another, in seconds since it
// began: bytes, datagrams that were sent or should have come, those that did not, and segments that
// were sent again.
type interval struct{ start, end, bytes, packets, lost, again float64 }

// tally is what one end counted in the window.
type tally struct {
	seconds, bytes, packets, lost, again float64
	bits                                 []float64 // of each step of the series
}

// cut takes the window out of the intervals, of which there is one for each of streams at
// any moment. Of one that crosses an edge of the window it takes the part that lies
// within, as if it had gone evenly.
func cut(all []interval, streams int, w bench.Workload) (tally, error) {
	t := tally{bits: make([]float64, steps(w))}
	for _, i := range all {
		from, to := max(i.start, w.Warmup), min(i.end, w.Warmup+w.Seconds)
		if !(to > from) {
			continue
		}
		part := (to - from) / (i.end - i.start)
		total := i.bytes + i.packets + i.lost + i.again
		if !(part <= 1) || !(i.bytes >= 0) || !(i.packets >= 0) || !(i.again >= 0) || math.IsInf(total, 0) || math.IsNaN(total) {
			return tally{}, fmt.Errorf("from %g s to %g s it counted %g bytes, %g packets, %g lost, %g sent again: this cannot be",
				i.start, i.end, i.bytes, i.packets, i.lost, i.again)
		}
		t.seconds += (to - from) / float64(streams)
		t.bytes, t.packets, t.lost, t.again = t.bytes+i.bytes*part, t.packets+i.packets*part, t.lost+i.lost*part, t.again+i.again*part
		at := int(((from+to)/2 - w.Warmup) / step(w))
		t.bits[min(max(at, 0), len(t.bits)-1)] += i.bytes * part * 8
	}
	const covered = 0.95
	if t.seconds < w.Seconds*covered || t.seconds > w.Seconds/covered {
		return tally{}, fmt.Errorf("its intervals have %.3g s of the window of %g s: it ended too early", t.seconds, w.Seconds)
	}
	t.lost = min(max(0, t.lost), t.packets) // one that is late counts as -1 where it comes
	return t, nil
}

// step is the length of what the series has a value for, in seconds: a tenth of the window or a second,
// whichever is longer.
func step(w bench.Workload) float64 { return max(1, w.Seconds/10) }

func steps(w bench.Workload) int { return max(1, int(math.Ceil(w.Seconds/step(w)-1e-9))) }

// plus adds a process that ran beside this one.
func (t tally) plus(o tally) tally {
	if t.bits == nil {
		return o
	}
	sum := tally{
		seconds: max(t.seconds, o.seconds), bytes: t.bytes + o.bytes, packets: t.packets + o.packets, lost: t.lost + o.lost, again: t.again + o.again,
	}
	for i, b := range t.bits {
		sum.bits = append(sum.bits, b+o.bits[i])
	}
	return sum
}

// run is the part of a run that this end knows.
func (t tally) run(w bench.Workload, sent bool) bench.Run {
	if sent {
		return bench.Run{Sent: whole(t.packets)}
	}
	r := bench.Run{
		Seconds: t.seconds, Bytes: whole(t.bytes), Packets: whole(t.packets - t.lost), Lost: whole(t.lost), Gbps: t.bytes * 8 / t.seconds / 1e9,
	}
	if w.Kind == bench.Datagram {
		r.PPS = (t.packets - t.lost) / t.seconds
	}
	for i, bits := range t.bits {
		r.Series = append(r.Series, bits/min(step(w), w.Seconds-float64(i)*step(w))/1e9)
	}
	return r
}

// whole is a count that came as a float64, which JSON's numbers are to iperf3.
func whole(v float64) uint64 { return uint64(math.Round(min(max(v, 0), 1<<62))) }
