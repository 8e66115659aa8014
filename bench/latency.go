package bench

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Percentiles are of durations, in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// slowest is the longest duration that Latency takes.
const slowest = 10 * time.Minute

// Latency returns the percentiles of durations, exact to three digits. An
// error says which of them is out of range.
func Latency(durations []time.Duration) (Percentiles, error) {
	h := hdrhistogram.New(1, slowest.Microseconds(), 3)
	for i, d := range durations {
		if err := h.RecordValue(d.Microseconds()); err != nil || d < 0 {
			return Percentiles{}, fmt.Errorf("duration %d of %d: %s is not between 0 and %s", i+1, len(durations), d, slowest)
		}
	}
	ms := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return Percentiles{P50: ms(50), P99: ms(99)}, nil
}
