package blocks

import (
	"slices"
	"testing"
	"time"
)

// I4: a running controller calls the roll anew when a pool is older than it was. A
// controller that starts does so with its own ID.
func TestI4RollCallIsCalledAnew(t *testing.T) {
	now := time.Unix(1e9, 0)
	var r, other RollCall
	judge := func(r *RollCall, version int64, ids ...string) Verdict {
		return r.Judge(Look{Pool: Pool{Network: "n"}, Version: version, Answers: []Answer{{"a", ids}}}, now)
	}
	first := judge(&r, 7)
	if !slices.Equal(first.Missing, []string{"a"}) || first.ID == "" {
		t.Fatalf("%+v", first)
	}
	for _, version := range []int64{7, 8} {
		if v := judge(&r, version, "x", first.ID); len(v.Missing) > 0 {
			t.Errorf("version %d: %+v", version, v)
		}
	}
	if v := judge(&r, 7, first.ID); len(v.Missing) != 1 || v.ID == first.ID {
		t.Errorf("I4: the pool is older than it was: %+v", v)
	}
	if v := judge(&other, 8, first.ID); len(v.Missing) != 1 || v.ID == first.ID {
		t.Errorf("I4: another controller: %+v", v)
	}
}
