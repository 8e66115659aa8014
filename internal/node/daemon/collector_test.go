package daemon

import (
	"runtime/debug"
	"testing"
)

// TestSetCollector: GOGC and GOMEMLIMIT of the environment win over the settings of culvertd.
func TestSetCollector(t *testing.T) {
	percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(1<<40)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	SetCollector("77", "1TiB")
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("GOGC is overruled: %d", got)
	}
	if got := debug.SetMemoryLimit(-1); got != 1<<40 {
		t.Errorf("GOMEMLIMIT is overruled: %d", got)
	}
	SetCollector("", "")
	if got := debug.SetGCPercent(77); got != gcPercent {
		t.Errorf("%d, want %d", got, gcPercent)
	}
	if got := debug.SetMemoryLimit(-1); got != softLimit {
		t.Errorf("%d bytes, want %d", got, softLimit)
	}
}
