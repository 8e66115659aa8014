package bench

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEstimate has the ranks of the sign test's table (two-sided, 5 %).
func TestEstimate(t *testing.T) {
	for n, k := range map[int]int{6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 15: 4, 20: 6, 25: 8, 50: 18} {
		var values []float64
		for i := range n {
			values = append(values, float64(n-i)) // from above
		}
		want := Interval{float64(n+1) / 2, float64(k), float64(n + 1 - k)}
		if got := Estimate(values); got != want {
			t.Errorf("of 1 to %d: %+v, want %+v", n, got, want)
		}
		if values[0] != float64(n) {
			t.Error("the values were moved")
		}
	}
	for n := 1; n < 6; n++ {
		if got := Estimate(make([]float64, n)); got.Value != 0 || !math.IsInf(got.Low, -1) || !math.IsInf(got.High, 1) {
			t.Errorf("of %d values: %+v", n, got)
		}
	}
	if got := Estimate(nil); !math.IsNaN(got.Value) || !math.IsNaN(got.Low) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		i    Interval
		part float64
		want bool
	}{
		{Interval{100, 99, 101}, 0.01, true},
		{Interval{100, 99, 102}, 0.01, false},
		{Interval{100, 97, 101}, 0.02, false},
		{Estimate([]float64{1, 1, 1, 1, 1}), 0.5, false},
		{Estimate([]float64{1, 1, 1, 1, 1, 1}), 0.01, true},
		{Estimate(nil), 1, false},
	} {
		if got := c.i.Within(c.part); got != c.want {
			t.Errorf("%+v within %g: %v", c.i, c.part, got)
		}
	}
}

// TestDifferenceWithin: a difference is small only if both of its bounds are. Without bounds it is
// not known to be small.
func TestDifferenceWithin(t *testing.T) {
	for _, c := range []struct {
		ratio Interval
		want  bool
	}{
		{Interval{1, 0.96, 1.04}, true},
		{Interval{1, 0.94, 1.04}, false},
		{Interval{1, 0.96, 1.06}, false},
		{Interval{1.2, 1.19, 1.21}, false},
		{Interval{0.8, 0.79, 0.81}, false},
		{Interval{1, math.Inf(-1), math.Inf(1)}, false},
		{Differ(nil, []float64{1}).Ratio, false},
	} {
		if got := (Difference{Ratio: c.ratio}).Within(0.05); got != c.want {
			t.Errorf("%+v within 5 %%: %t", c.ratio, got)
		}
	}
}

// TestDiffer has values that R's wilcox.test prints, and sums by hand.
func TestDiffer(t *testing.T) {
	for _, c := range []struct {
		name      string
		a, b      []float64
		p, effect float64
		canTell   bool
	}{
		{"apart, 6 and 6", []float64{9, 10, 11, 12, 13, 14}, []float64{1, 2, 3, 4, 5, 6}, 2.0 / 924, 1, true},
		{"apart, 4 and 4", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70, -1, true},
		{"apart, 3 and 3", []float64{1, 2, 3}, []float64{5, 6, 7}, 0.1, -1, false},
		// Hollander and Wolfe 1973, p. 69: permeability of membranes at term and at 12 to
		// 26 weeks; wilcox.test(x, y) gives W = 35, p-value = 0.2544.
		{"Hollander and Wolfe", []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}, []float64{1.15, 0.88, 0.90, 0.74, 1.21}, 0.2544, 0.4, true},
		// By hand: ranks 1, 2.5, 2.5, 4.5, 4.5, 6: of the 20 ways, sums
		// as far from 10.5 as 6 are 6, 8, 8, 13, 13 and 15 without 8 and 13: two.
		{"ties", []float64{1, 2, 2}, []float64{3, 3, 4}, 2.0 / 20, -1, false},
		{"all the same", []float64{1, 1, 1, 1}, []float64{1, 1, 1, 1}, 1, 0, true},
		{"one and many", []float64{1}, []float64{2, 3, 4, 5, 6, 7}, 2.0 / 7, -1, false},
	} {
		d := Differ(c.a, c.b)
		if math.Abs(d.P-c.p) > 5e-5 || math.Abs(d.Effect-c.effect) > 1e-9 || d.CanTell() != c.canTell {
			t.Errorf("%s: p %.5f, effect %g, can tell: %v; want %.5f, %g, %v", c.name, d.P, d.Effect, d.CanTell(), c.p, c.effect, c.canTell)
		}
		if d.Significant() != (c.p < 0.05) {
			t.Errorf("%s: significant: %v at p %g", c.name, d.Significant(), d.P)
		}
	}
	d := Differ(nil, []float64{1})
	if !math.IsNaN(d.P) || d.Significant() || d.CanTell() {
		t.Errorf("against nothing: %+v", d)
	}
}

// TestDifferTurned: a comparison has the same outcome if the samples are exchanged.
func TestDifferTurned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(1, 5), 1, 9)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		d, turned := Differ(a, b), Differ(b, a)
		if math.Abs(d.P-turned.P) > 1e-9 || d.Effect != -turned.Effect || d.CanTell() != turned.CanTell() || !(d.P > 0 && d.P <= 1+1e-9) {
			t.Errorf("%+v, turned round %+v", d, turned)
		}
	})
}

// TestMannWhitneyLarge: near the largest size that is counted exactly, the normal approximation
// agrees with the count.
func TestMannWhitneyLarge(t *testing.T) {
	for _, shift := range []float64{0, 2, 5, 8, 12} {
		var a, b []float64
		for i := range 25 {
			a = append(a, float64(i))
			b = append(b, float64(i)+shift)
		}
		ranks, sum := doubleRanks(a, b)
		exact, near := mannWhitney(a, b), normalTail(ranks, 25, math.Abs(float64(sum-25*51)))
		if math.Abs(exact-near) > 0.005 {
			t.Errorf("shifted by %g: exact %.5f, approximation %.5f", shift, exact, near)
		}
	}
	same := make([]float64, 40)
	if p := mannWhitney(same, same); p != 1 {
		t.Errorf("80 values that are the same: p %g", p)
	}
	more := slices.Concat(same, []float64{1, 2, 3, 4, 5, 6, 7, 8})
	if p := mannWhitney(more, same); p > 0.01 || p < 0.001 {
		t.Errorf("8 of 48 larger than all: p %g", p)
	}
}
