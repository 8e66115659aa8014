package patience

import (
	"testing"

	"github.com/culvert-net/culvert/bench"
)

// A busy machine is forgiven, and nothing else.
func TestOnlyBusyIsForgiven(t *testing.T) {
	const busy, broken = "woken late" + bench.Busy, "no route to the host"
	for _, tt := range []struct {
		void         []string
		missing, has bool
	}{
		{nil, false, false}, {[]string{"", ""}, false, true}, {[]string{"", busy}, true, true}, {[]string{busy, broken}, false, true},
		{[]string{broken}, false, false}, {[]string{busy}, true, true},
	} {
		r := bench.Result{Runs: []bench.Run{{Arm: 1, Discard: true}}}
		for _, why := range tt.void {
			r.Runs = append(r.Runs, bench.Run{Void: why})
		}
		if got := OnlyBusyIsMissing(r); got != tt.missing {
			t.Errorf("%q: %t, want %t", tt.void, got, tt.missing)
		}
		if got := HasRun(r, 0); got != tt.has {
			t.Errorf("%q: a run %t, want %t", tt.void, got, tt.has)
		}
	}
}
