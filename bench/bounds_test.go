package bench

import (
	"math"
	"slices"
	"testing"
)

// TestRatioBoundsLarge: above mostExact values the bounds come from the normal approximation. Their
// distance from either end is that of the exact bounds or up to 3 % less, so that they are never
// too narrow.
func TestRatioBoundsLarge(t *testing.T) {
	const n, m = mostExact / 2, mostExact/2 + 1
	var a, b []float64
	for i := range n {
		a = append(a, math.Exp2(float64(i)))
	}
	for j := range m {
		b = append(b, math.Exp2(float64(j)/(2*m))) // so that no two ratios are alike
	}
	all := ratiosOf(a, b)
	for _, chance := range []float64{0.05, 0.01, 0.001} {
		low, high := kthFromEnds(all, countsOfRankSum(n, m).rankBelow(chance))
		exact := rankCounts{ways: rankSumCounts(n, m)}.rankBelow(chance)
		fromStart, fromEnd := slices.Index(all, low)+1, len(all)-slices.Index(all, high)
		if fromStart != fromEnd || fromStart > exact || float64(fromStart) < 0.97*float64(exact) {
			t.Errorf("at a chance of %g: ratio %d from the start and %d from the end, want %d", chance, fromStart, fromEnd, exact)
		}
	}
}

// TestRankBelow has the critical values of U of printed tables (Mann and Whitney, two-sided): U at
// or below them is too unlikely.
func TestRankBelow(t *testing.T) {
	for _, c := range []struct {
		n, m   int
		chance float64
		want   int
	}{{5, 5, 0.05, 2}, {8, 8, 0.05, 13}, {10, 10, 0.05, 23}, {20, 20, 0.05, 127}, {10, 10, 0.01, 16}, {20, 20, 0.01, 105}, {3, 3, 0.05, -1}} {
		if got := countsOfRankSum(c.n, c.m).rankBelow(c.chance) - 1; got != c.want {
			t.Errorf("of %d and %d at %g: %d, want %d", c.n, c.m, c.chance, got, c.want)
		}
	}
}
