package agent

import (
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
	retransmits uint64
	series      []point
}

// point is what an interval of the window carried.
type point struct{ at, seconds, bytes float64 }

// iperf3Sum is "sum" of one of iperf3's intervals.
type iperf3Sum struct {
	Start       float64 `json:"start"`
	End         float64 `json:"end"`
	Bytes       float64 `json:"bytes"`
	Packets     float64 `json:"packets"` // UDP: sent, or those that should have come
	Lost        float64 `json:"lost_packets"`
	Retransmits float64 `json:"retransmits"`
	Sender      bool    `json:"sender"`
}

// iperf3Error is what iperf3 says was in its way.
type iperf3Error string

func (e iperf3Error) Error() string { return string(e) }

// parseIperf3 reads what iperf3 --json prints at either end (3.x), and cuts the window out of
// its intervals. Of one that crosses an edge of the window it takes the part that lies
// within, as if it had gone evenly. What iperf3 reports as its error is an iperf3Error, and a
// window that the intervals do not cover is an error too.
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
	var bytes, packets, lost, again float64
	for _, i := range out.Intervals {
		s := i.Sum
		from, to := max(s.Start, w.Warmup), min(s.End, w.Warmup+w.Seconds)
		if !(to > from) {
			continue
		}
		part := (to - from) / (s.End - s.Start)
		if !(part <= 1) || !(s.Bytes >= 0) || math.IsInf(s.Bytes+s.Packets+s.Lost+s.Retransmits, 0) {
			return tally{}, fmt.Errorf("read iperf3's result: from %g s to %g s %g bytes", s.Start, s.End, s.Bytes)
		}
		t.sends = s.Sender
		t.seconds += to - from
		bytes, packets, lost, again = bytes+s.Bytes*part, packets+s.Packets*part, lost+s.Lost*part, again+s.Retransmits*part
		t.series = append(t.series, point{from - w.Warmup, to - from, s.Bytes * part})
	}
	const covered = 0.99
	if len(t.series) == 0 || t.seconds < w.Seconds*covered {
		return tally{}, fmt.Errorf("read iperf3's result: its intervals have %.3g s of the window of %g s", t.seconds, w.Seconds)
	}
	lost = max(0, lost) // late ones, lost in an interval before, count as -1
	if !t.sends {
		packets -= lost
	}
	t.bytes, t.packets, t.lost, t.retransmits = whole(bytes), whole(packets), whole(lost), whole(again)
	return t, nil
}

// whole is a count that came as a float64, which JSON's numbers are to iperf3.
func whole(v float64) uint64 {
	if !(v > 0) {
		return 0
	}
	return uint64(math.Round(min(v, 1<<62)))
}

// plus adds a process that ran beside this one.
func (t tally) plus(o tally) tally {
	if len(t.series) == 0 {
		return o
	}
	t.seconds = max(t.seconds, o.seconds)
	t.bytes, t.packets, t.lost = t.bytes+o.bytes, t.packets+o.packets, t.lost+o.lost
	t.retransmits += o.retransmits
	t.series = append(slices.Clone(t.series), o.series...)
	return t
}

// run is the part of a run that this end knows.
func (t tally) run(w bench.Workload) bench.Run {
	if t.sends {
		r := bench.Run{Sent: t.packets}
		if w.Kind == bench.Stream {
			r.Retransmits = &t.retransmits
		}
		return r
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
