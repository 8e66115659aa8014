package engine

import (
	"fmt"
	"math"

	"github.com/culvert-net/culvert/bench"
)

// Bounds of a workload.
const (
	maxStreams = 1024
	maxSeconds = 24 * 60 * 60
	maxWrite   = 16 << 20

	maxDatagram = 65507 // 65535 less IPv4's and UDP's headers
	maxFrame    = 65536
	maxWindow   = 1 << 30
	maxFlows    = 60000   // of UDP's ports, those from firstPort up
	maxSpread   = 1 << 16 // sources and MACs
	maxRate     = 1e13
	maxBurst    = 64 // UDP_MAX_SEGMENTS of kernels before 6.9 (linux/udp.h)
	maxDSCP     = 63
)

// Check returns w with its zero values replaced by the engine's defaults, or an error that names
// the first field out of its bounds, its value and the bounds. A Size of zero stays if it depends
// on the path: see [Measure].
func Check(w bench.Workload) (bench.Workload, error) {
	switch w.Kind {
	case bench.Stream, bench.Datagram, bench.Request, bench.Connect, bench.Packets:
	case bench.Echo:
		return w, fmt.Errorf("workload kind %q: this engine sends no ICMP: use the engine ping", w.Kind)
	default:
		return w, fmt.Errorf("workload kind %q: want %s, %s, %s, %s or %s", w.Kind, bench.Stream, bench.Datagram, bench.Request, bench.Connect, bench.Packets)
	}
	low, high, usual := sizeBounds(w)
	if w.Size == 0 {
		w.Size = usual
	}
	if w.Size != 0 && (w.Size < low || w.Size > high) {
		return w, fmt.Errorf("size %d for %s: want %d to %d bytes", w.Size, w.Kind, low, high)
	}
	for _, n := range []*int{&w.Streams, &w.Flows, &w.Sources, &w.MACs, &w.Burst} {
		if *n == 0 {
			*n = 1
		}
	}
	spread, burst := 1, 1
	if w.Kind == bench.Packets {
		spread, burst = maxSpread, maxBurst
	}
	for _, f := range []struct {
		name       string
		value      float64
		least, top float64
	}{
		{"seconds", w.Seconds, 0.01, maxSeconds},
		{"warmup", w.Warmup, 0, maxSeconds},
		{"streams", float64(w.Streams), 1, maxStreams},
		{"window", float64(w.Window), 0, maxWindow},
		{"rate", w.Rate, 0, maxRate},
		{"flows", float64(w.Flows), 1, float64(min(spread, maxFlows))},
		{"sources", float64(w.Sources), 1, float64(spread)},
		{"MACs", float64(w.MACs), 1, float64(spread)},
		{"burst", float64(w.Burst), 1, float64(burst)},
		{"DSCP", float64(w.DSCP), 0, maxDSCP},
		{"load", w.Load, 0, 1},
	} {
		if !(f.value >= f.least && f.value <= f.top) || math.IsNaN(f.value) {
			return w, fmt.Errorf("%s %g: want %g to %g for %s", f.name, f.value, f.least, f.top, w.Kind)
		}
	}
	if w.Kind == bench.Packets && w.DSCP != 0 {
		return w, fmt.Errorf("DSCP %d with %s: its frames have none: leave it out, or send datagrams", w.DSCP, w.Kind)
	}
	if w.UDP && w.Kind != bench.Request {
		return w, fmt.Errorf("udp with %s: it is for %s: leave it out", w.Kind, bench.Request)
	}
	return w, nil
}

// checkOwn returns the workload that a client asks for, checked, or an error where it is not the
// server's own. The client may choose a Size that the server's task leaves open.
func checkOwn(own, asked bench.Workload) (bench.Workload, error) {
	asked, err := Check(asked)
	if err != nil {
		return asked, err
	}
	if own.Size == 0 {
		own.Size = asked.Size
	}
	if asked != own {
		return asked, fmt.Errorf("the client asks for %s, which is not the workload of this server's task: start both ends with the same workload", asked.Kind)
	}
	return asked, nil
}

// sizeBounds returns the bounds of w.Size, and the size that zero stands for.
func sizeBounds(w bench.Workload) (low, high, usual int) {
	switch {
	case w.Kind == bench.Stream:
		return 1, maxWrite, writeSize(w)
	case w.Kind == bench.Packets:
		return LeastFrame(false), maxFrame, 0
	case w.Kind == bench.Datagram:
		return headerSize, maxDatagram, 0
	case w.UDP:
		return headerSize, maxDatagram, 64
	}
	return headerSize, maxWrite, 64
}

// writeSize returns the size of a stream's writes where the workload has none. At a rate, a write is
// the part of a millisecond, but neither smaller than a segment nor larger than without a rate: larger
// ones would be bursts with pauses between them.
func writeSize(w bench.Workload) int {
	const least, most, writes = 1448, 128 << 10, 1000
	if w.Rate == 0 {
		return most
	}
	return min(most, max(least, int(w.Rate/8/writes)/max(1, w.Streams)))
}
