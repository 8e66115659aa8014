package text

import (
	"testing"

	"github.com/culvert-net/culvert/internal/api"
)

func TestBar(t *testing.T) {
	for _, tc := range []struct {
		c    api.Counts
		want string
	}{
		{api.Counts{}, "[]"},
		{api.Counts{Used: 3, Free: 4, Quarantined: 1}, "[###....q]"},
		{api.Counts{Used: 1, Free: 1, Making: 1, Unmanaged: 1}, "[#.+?]"},
		{api.Counts{Used: 16}, "[################]"},
		{api.Counts{Used: 1, Free: 125, Quarantined: 1}, "[#..............q]"},
		{api.Counts{Used: 63, Free: 1}, "[###############.]"},
	} {
		if got := drawBar(tc.c, plainText).Text; got != tc.want {
			t.Errorf("%+v is %s, want %s", tc.c, got, tc.want)
		}
	}
}

// FuzzShare: a scaled bar has all its cells, and each part that is not zero has one.
func FuzzShare(f *testing.F) {
	f.Add(uint16(1), uint16(2), uint16(3), uint16(4), uint16(5))
	f.Fuzz(func(t *testing.T, a, b, c, d, e uint16) {
		parts := [5]int{int(a), int(b), int(c), int(d), int(e)}
		got := scaleParts(parts, barCells)
		total, sum := 0, 0
		for i, n := range got {
			total += parts[i]
			sum += n
			if (n > 0) != (parts[i] > 0) || n < 0 {
				t.Errorf("%v is drawn as %v", parts, got)
			}
		}
		if sum != min(total, barCells) {
			t.Errorf("%v is drawn as %v: %d cells", parts, got, sum)
		}
	})
}
