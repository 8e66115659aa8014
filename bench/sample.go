package bench

import (
	"math"
	"slices"
)

// Quantile returns the q-quantile of values for 0 <= q <= 1, interpolated
// between neighbours (Hyndman and Fan's type 7, what R and NumPy give). Without
// values it is NaN.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// Median returns the middle of values, NaN of none.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Interval is an estimate with the bounds of its 95 % confidence interval.
type Interval struct {
	Value, Low, High float64
}
