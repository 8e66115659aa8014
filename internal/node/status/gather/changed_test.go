package gather

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A record has changed if it is new, or in another phase or lease.
func TestFindChanged(t *testing.T) {
	record := func(index int, phase vf.Phase, generation uint64) journal.Record {
		return journal.Record{ID: vf.ID{Index: index}, Phase: phase, Generation: generation}
	}
	before := []journal.Record{record(0, vf.PhaseFree, 1), record(1, vf.PhaseReleasing, 3), record(2, vf.PhaseFree, 5), record(4, vf.PhaseFree, 1)}
	after := []journal.Record{record(0, vf.PhaseFree, 1), record(1, vf.PhaseFree, 3), record(2, vf.PhaseFree, 7), record(3, vf.PhaseMaking, 1)}
	want := map[vf.ID]bool{{Index: 1}: true, {Index: 2}: true, {Index: 3}: true}
	if diff := cmp.Diff(want, findChanged(before, after)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
