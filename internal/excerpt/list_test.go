package excerpt

import "testing"

func TestJoin(t *testing.T) {
	long := make([]int, 12)
	for want, all := range map[string][]int{"": nil, "1": {1}, "1, 2": {1, 2}, "0, 0, 0, 0, 0, 0, 0, 0, 0, 0 and 2 more": long} {
		if got := Join(all); got != want {
			t.Errorf("%v: %q, want %q", all, got, want)
		}
	}
}

func TestList(t *testing.T) {
	for _, tt := range []struct {
		entries, more int
		want          string
	}{
		{0, 0, "[]"},
		{2, 0, "[0 1]"},
		{10, 0, "[0 1 2 3 4 5 6 7 8 9]"},
		{12, 119988, "[0 1 2 3 4 5 6 7 8 9 and 119,990 more]"},
		{1, 1234567, "[0 and 1,234,567 more]"},
	} {
		var all []int
		for i := range tt.entries {
			all = append(all, i)
		}
		if got := List(all, tt.more); got != tt.want {
			t.Errorf("%d entries and %d more: %s, want %s", tt.entries, tt.more, got, tt.want)
		}
	}
}
