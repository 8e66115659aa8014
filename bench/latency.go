package bench

import (
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Percentiles has percentiles of durations, in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"` // of fewer than 1,000 it is close to the largest: String leaves it out
	Max float64 `json:"max"`
	N   int     `json:"n"`
}

// String prints the median, and the 99th percentile where there are enough for one
// (HasPercentile), else the largest.
func (p Percentiles) String() string {
	if HasPercentile(uint64(max(p.N, 0)), 0.99) {
		return fmt.Sprintf("p50 %.0f ms, p99 %.0f ms of %d", p.P50, p.P99, p.N)
	}
	return fmt.Sprintf("p50 %.0f ms, largest %.0f ms of %d", p.P50, p.Max, p.N)
}

// HasPercentile reports whether n values have a q-quantile. From 0.9 on it takes ten values above
// the quantile; with fewer it is little more than the largest value.
func HasPercentile(n uint64, q float64) bool {
	return n > 0 && (q < 0.9 || float64(n)*(1-q) >= 10-1e-6)
}

// Percentile returns a run's q-quantile of round trips, in microseconds: of 0 the least, of 1 the largest.
// It is NaN if the run has too few round trips for it. From 0.9 on it is also NaN if the run leaves
// out lost questions, which would be among the longest.
func (r Run) Percentile(q float64) float64 {
	d := r.Delays
	if d == nil {
		return math.NaN()
	}
	leftOut := r.Lost > 0 && d.Count+r.Lost <= r.Sent
	if q < 1 && (!HasPercentile(d.Count, q) || q >= 0.9 && leftOut) {
		return math.NaN()
	}
	switch q {
	case 0:
		return d.Min
	case 0.5:
		return d.P50
	case 0.9:
		return d.P90
	case 0.99:
		return d.P99
	case 0.999:
		return d.P999
	case 1:
		return d.Max
	}
	return math.NaN()
}

// mostBins is the number of bins of Delays.Bins up to a hundred minutes, which no question takes.
const mostBins = 100

// BinOf returns the bin of Delays.Bins that counts a round trip of the given microseconds.
func BinOf(us float64) int {
	if us <= 1 {
		return 0
	}
	return min(mostBins-1, int(10*math.Log10(us)))
}

// BinFrom returns the least microseconds of a bin.
func BinFrom(bin int) float64 { return math.Pow(10, float64(bin)/10) }

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
	return Percentiles{P50: ms(50), P99: ms(99), Max: ms(100), N: len(durations)}, nil
}
