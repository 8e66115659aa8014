package bench

import (
	"math"
	"slices"
)

// Confidence is that of every interval, and 1 minus it the chance below which a
// difference counts as one.
const Confidence = 0.95

// Estimate returns the median of values between two of them that hold it in at
// least 95 of 100 cases, whatever the distribution: the k-th from each end, for the
// largest k at which a fair coin thrown n times shows fewer than k heads
// in at most 2.5 of 100 cases (Conover 1999, section 3.2). Fewer than six values cannot
// bound it: the bounds are infinite then. All is NaN without values.
func Estimate(values []float64) Interval {
	i := Interval{Value: Median(values), Low: math.Inf(-1), High: math.Inf(1)}
	n := len(values)
	if n == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	k, fewer := 0, 0.0
	for chance := math.Pow(0.5, float64(n)); fewer+chance <= (1-Confidence)/2; k++ {
		fewer += chance
		chance *= float64(n-k) / float64(k+1)
	}
	if k > 0 {
		sorted := slices.Sorted(slices.Values(values))
		i.Low, i.High = sorted[k-1], sorted[n-k]
	}
	return i
}

// Within reports whether the interval reaches at most part of its value to either
// side: 0.02 is 2 %. It is what a run of repeats may stop at.
func (i Interval) Within(part float64) bool {
	half := math.Max(i.High-i.Value, i.Value-i.Low)
	return half <= part*math.Abs(i.Value) // false for NaN and infinity
}

// Difference is how one sample stands to another.
type Difference struct {
	Ratio Interval // of the medians
	// P is how likely a difference as large as this one is when there is none, by
	// Mann and Whitney's U, two-sided.
	P float64
	// Effect is Cliff's delta, -1 to 1: how many more of all pairs of a value of each
	// sample have the first larger than have it smaller. It needs no unit and no shape
	// of the distribution, rests on the same counts as P, and says what neither P nor
	// Ratio does: whether the samples overlap. At 1 and -1 they do not. From 0.147 on an
	// effect is called small, from 0.33 medium, from 0.474 large (Romano and others, 2006).
	Effect float64
	N      [2]int // values in each
}

// Differ compares two samples. Where one is empty, its figures are NaN.
func Differ(a, b []float64) Difference {
	d := Difference{Ratio: Ratio(a, b), P: math.NaN(), Effect: math.NaN(), N: [2]int{len(a), len(b)}}
	if len(a) == 0 || len(b) == 0 {
		return d
	}
	d.P = mannWhitney(a, b)
	more := 0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				more++
			case x < y:
				more--
			}
		}
	}
	d.Effect = float64(more) / float64(len(a)*len(b))
	return d
}

// Significant reports whether the difference is one.
func (d Difference) Significant() bool { return d.P < 1-Confidence }

// CanTell reports whether samples of this size could ever show a difference: when
// no value of one is among the other's, P is 2 in the number of ways to
// choose one sample out of both.
func (d Difference) CanTell() bool {
	ways := 1.0
	for i := range d.N[0] {
		ways = ways * float64(d.N[1]+i+1) / float64(i+1)
	}
	return d.N[0] > 0 && d.N[1] > 0 && 2/ways < 1-Confidence
}
