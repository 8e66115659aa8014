package bench

import (
	"math"
	"testing"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 15580: "15580", 0.212: "0.212", 4.59: "4.59", 0.0123456: "0.0123", 31.27: "31.3", 312.4: "312", -2.5: "-2.50", 1e-9: "0.000000",
		math.NaN(): "-", math.Inf(1): "-", math.Inf(-1): "-",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%g) = %s, want %s", v, got, want)
		}
	}
}
