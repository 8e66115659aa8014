package bench

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{7}, 0.5, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{4, 1, 3, 2}, 0, 1},
		{[]float64{4, 1, 3, 2}, 1, 4},
		{[]float64{10, 20, 30, 40, 50}, 0.9, 46},
	} {
		if got := Quantile(c.values, c.q); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("Quantile(%v, %g) = %g, want %g", c.values, c.q, got, c.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %g", got)
	}
}

func TestQuantileProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 40).Draw(t, "values")
		before := append([]float64(nil), values...)
		a := rapid.Float64Range(0, 1).Draw(t, "a")
		b := rapid.Float64Range(a, 1).Draw(t, "b")
		least, most := Quantile(values, 0), Quantile(values, 1)
		low, high := Quantile(values, a), Quantile(values, b)
		if least > low || low > high+1e-6 || high > most+1e-6 {
			t.Errorf("%v: min %g, quantile(%g) %g, quantile(%g) %g, max %g are out of order", values, least, a, low, b, high, most)
		}
		for i := range values {
			if values[i] != before[i] {
				t.Fatal("the values were moved")
			}
		}
	})
}
