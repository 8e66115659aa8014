package vf

import "testing"

// A VF whose reset is retried stays in quarantine, and its first release is none. Culvert leaves VFs
// alone whose phase it does not know.
func TestPhases(t *testing.T) {
	for _, tc := range []struct {
		phase          Phase
		attempts       int
		isKnown, aside bool
	}{
		{PhaseMaking, 0, true, false},
		{PhaseFree, 1, true, false},
		{PhaseConfiguring, 0, true, false},
		{PhaseAttached, 1, true, false},
		{PhaseReleasing, 0, true, false},
		{PhaseReleasing, 1, true, true},
		{PhaseQuarantined, 0, true, true},
		{PhaseDamaged, 1, false, false},
		{"parked", 1, false, false},
		{"", 0, false, false},
	} {
		if got := tc.phase.IsKnown(); got != tc.isKnown {
			t.Errorf("phase %q is known: %t", tc.phase, got)
		}
		if got := tc.phase.IsAside(tc.attempts); got != tc.aside {
			t.Errorf("phase %q after %d attempts is aside: %t", tc.phase, tc.attempts, got)
		}
	}
}
