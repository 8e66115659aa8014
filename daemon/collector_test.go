package daemon

import (
	"runtime/debug"
	"testing"
)

// TestSetCollector: GOGC of the environment wins over the setting of culvertd.
func TestSetCollector(t *testing.T) {
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	SetCollector("77")
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("GOGC is overruled: %d", got)
	}
	SetCollector("")
	if got := debug.SetGCPercent(77); got != gcPercent {
		t.Errorf("%d, want %d", got, gcPercent)
	}
}
