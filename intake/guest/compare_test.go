package guest

import (
	"testing"
	"time"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// A VF that is reserved for a guest which was here long ago stays reserved while the guest
// comes back: a slow migration lasts minutes.
func TestI1ReservedForAGuestThatComesBack(t *testing.T) {
	begin := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	now := begin
	c := NewComparer(nil, nil, func() time.Time { return now })
	lease := func() journal.Record {
		return journal.Record{Since: now, Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "u"}}}
	}
	earlier := lease()
	c.rememberGuests([]Seen{{UUID: "u"}})
	now = begin.Add(time.Minute)
	c.rememberGuests(nil)
	now = now.Add(undefined - time.Second)
	if !c.isReserved(earlier, nil) {
		t.Error("its VF is taken back although it may be defined anew")
	}
	now = now.Add(time.Second)
	if c.isReserved(earlier, nil) {
		t.Error("a guest that has gone keeps its VF")
	}
	now = now.Add(10 * time.Minute)
	later := lease()
	now = now.Add(5 * time.Minute)
	c.rememberGuests(nil)
	if !c.isReserved(later, nil) {
		t.Error("the VF of a guest that comes back is taken from it on its way")
	}
	now = now.Add(unnamed)
	if c.isReserved(later, nil) {
		t.Error("a VF stays reserved for ever")
	}
}
