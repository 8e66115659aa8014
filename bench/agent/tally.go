package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/culvert-net/culvert/bench"
)

// tally is what one process counted in the window. Only what its side knows is set.
type tally struct {
	sends       bool
	seconds     float64
	bytes       uint64
	packets     uint64 // that arrived, or were sent
	lost        uint64
	retransmits *uint64
	series      []point
}

// point is what an interval of the window carried.
type point struct{ at, seconds, bytes float64 }

// iperf3Sum is "sum" of one of iperf3's intervals.
type iperf3Sum struct {
	Start       float64 `json:"start"`
	End         float64 `json:"end"`
	Seconds     float64 `json:"seconds"`
	Bytes       float64 `json:"bytes"`
	Packets     float64 `json:"packets"` // UDP: sent, or those that should have come
	Lost        float64 `json:"lost_packets"`
	Retransmits *uint64 `json:"retransmits"`
	Sender      bool    `json:"sender"`
}

// iperf3Error is what iperf3 says was in its way.
type iperf3Error string

func (e iperf3Error) Error() string { return string(e) }

// parseIperf3 reads what iperf3 --json prints at either end (3.x), and cuts the window out of
// its intervals: those that lie in it but for half their length. What iperf3 reports as its
// error is returned as one, and so is a window that is not covered.
func parseIperf3(text []byte, w bench.Workload) (tally, error) {
	var out struct {
		Error     string `json:"error"`
		Intervals []struct {
			Sum iperf3Sum `json:"sum"`
		} `json:"intervals"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return tally{}, fmt.Errorf("read iperf3's result: %w: it wrote %s", err, brief(text))
	}
	if out.Error != "" {
		return tally{}, iperf3Error(out.Error)
	}
	var t tally
	var bytes, packets, lost float64
	for _, i := range out.Intervals {
		s := i.Sum
		middle := (s.Start + s.End) / 2
		if middle < w.Warmup || middle > w.Warmup+w.Seconds {
			continue
		}
		if !(s.Seconds > 0) || !(s.Bytes >= 0) || math.IsInf(s.Seconds+s.Bytes+s.Packets+s.Lost, 0) {
			return tally{}, fmt.Errorf("read iperf3's result: an interval of %g s with %g bytes", s.Seconds, s.Bytes)
		}
		t.sends = s.Sender
		t.seconds += s.Seconds
		bytes, packets, lost = bytes+s.Bytes, packets+s.Packets, lost+s.Lost
		t.series = append(t.series, point{s.Start - w.Warmup, s.Seconds, s.Bytes})
		if s.Retransmits != nil {
			t.retransmits = added(t.retransmits, s.Retransmits)
		}
	}
	const covered = 0.9
	if len(t.series) == 0 || t.seconds < w.Seconds*covered {
		return tally{}, fmt.Errorf("read iperf3's result: its intervals have %g s of the window of %g s", t.seconds, w.Seconds)
	}
	// In one interval more may come than the other end sent in it.
	lost = max(0, lost)
	if !t.sends {
		packets -= lost
	}
	t.bytes, t.packets, t.lost = whole(bytes), whole(packets), whole(lost)
	return t, nil
}

// whole is a count that came as a float64, which JSON's numbers are to iperf3.
func whole(v float64) uint64 {
	if !(v > 0) {
		return 0
	}
	return uint64(min(v, 1<<62))
}

// added is the sum of two counts that need not be known.
func added(a, b *uint64) *uint64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
}

// plus adds a process that ran beside this one.
func (t tally) plus(o tally) tally {
	if len(t.series) == 0 {
		return o
	}
	t.seconds = max(t.seconds, o.seconds)
	t.bytes, t.packets, t.lost = t.bytes+o.bytes, t.packets+o.packets, t.lost+o.lost
	t.retransmits = added(t.retransmits, o.retransmits)
	t.series = append(slices.Clone(t.series), o.series...)
	return t
}

// run is the part of a run that this end knows.
func (t tally) run(w bench.Workload) bench.Run {
	if t.sends {
		return bench.Run{Sent: t.packets, Retransmits: t.retransmits}
	}
	r := bench.Run{
		Seconds: t.seconds, Bytes: t.bytes, Packets: t.packets, Lost: t.lost,
		Gbps: float64(t.bytes) * 8 / t.seconds / 1e9, Series: series(t.series, w.Seconds),
	}
	if w.Kind == bench.Datagram {
		r.PPS = float64(t.packets) / t.seconds
	}
	return r
}

// series is in Gb/s, of each tenth of the window or each second, whichever is longer.
func series(points []point, window float64) []float64 {
	const most = 10
	step := max(1, window/most)
	n := int(math.Ceil(window/step - 1e-9))
	if n < 1 {
		return nil
	}
	bits := make([]float64, n)
	for _, p := range points {
		i := int((p.at + p.seconds/2) / step)
		bits[min(max(i, 0), n-1)] += p.bytes * 8
	}
	for i := range bits {
		bits[i] /= min(step, window-float64(i)*step) * 1e9
	}
	return bits
}
