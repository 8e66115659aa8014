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
	maxWindow   = 1 << 30
	maxRate     = 1e13
)

// Check returns w with its zero values made what the engine does, or an error that
// names the first field that cannot be, its value and what can be. A Size of zero
// stays where it follows from the path: see [Measure].
func Check(w bench.Workload) (bench.Workload, error) {
	switch w.Kind {
	case bench.Stream, bench.Datagram, bench.Request:
	case bench.Echo:
		return w, fmt.Errorf("workload kind %q: this engine sends no ICMP: use the engine ping", w.Kind)
	default:
		return w, fmt.Errorf("workload kind %q: want %s, %s or %s", w.Kind, bench.Stream, bench.Datagram, bench.Request)
	}
	low, high, usual := sizes(w)
	if w.Size == 0 {
		w.Size = usual
	}
	if w.Size != 0 && (w.Size < low || w.Size > high) {
		return w, fmt.Errorf("size %d of a %s: want %d to %d bytes", w.Size, w.Kind, low, high)
	}
	w.Streams = max(w.Streams, 1)
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
	} {
		if !(f.value >= f.least && f.value <= f.top) || math.IsNaN(f.value) {
			return w, fmt.Errorf("%s %g: want %g to %g", f.name, f.value, f.least, f.top)
		}
	}
	if w.Kind == bench.Stream && w.Rate != 0 {
		return w, fmt.Errorf("rate %g: a stream goes as fast as it can: leave the rate out, or send datagrams", w.Rate)
	}
	return w, nil
}

// sizes are the bounds of w.Size and what zero means.
func sizes(w bench.Workload) (low, high, usual int) {
	switch {
	case w.Kind == bench.Stream:
		return 1, maxWrite, 128 << 10
	case w.Kind == bench.Datagram:
		return headerSize, maxDatagram, 0
	case w.UDP:
		return headerSize, maxDatagram, 64
	}
	return headerSize, maxWrite, 64
}
