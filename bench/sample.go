package bench

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Quantile returns the q-quantile of values for 0 <= q <= 1, interpolated
// between neighbours (Hyndman and Fan's type 7, what R and NumPy give). Of no
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

// resamples is how often Ratio draws. The bounds are 2.5 % and 97.5 % of them.
const resamples = 2000

// Ratio returns how much the median of a is larger than that of b. The bounds
// come from a bootstrap with a fixed seed, so that one sample gives one
// answer; they are no better than the number of values allows. Without values,
// or with a median of b that is zero, the figures are NaN.
func Ratio(a, b []float64) Interval {
	nan := Interval{math.NaN(), math.NaN(), math.NaN()}
	if len(a) == 0 || len(b) == 0 || Median(b) == 0 {
		return nan
	}
	random := rand.New(rand.NewPCG(uint64(len(a)), uint64(len(b)))) //nolint:gosec // the same samples give the same interval
	drawn := make([]float64, 0, resamples)
	above, under := make([]float64, len(a)), make([]float64, len(b))
	for range resamples {
		if below := draw(random, b, under); below != 0 {
			drawn = append(drawn, draw(random, a, above)/below)
		}
	}
	return Interval{Value: Median(a) / Median(b), Low: Quantile(drawn, 0.025), High: Quantile(drawn, 0.975)}
}

// draw takes as many values as there are, with replacement, into a slice of that length,
// and returns their median.
func draw(random *rand.Rand, values, into []float64) float64 {
	for i := range into {
		into[i] = values[random.IntN(len(values))]
	}
	slices.Sort(into)
	n := len(into)
	return (into[(n-1)/2] + into[n/2]) / 2
}
