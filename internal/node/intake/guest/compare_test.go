package guest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A VF that is reserved for a guest which was here long ago stays reserved while the guest
// comes back: a slow migration lasts minutes.
func TestI1ReservedForAGuestThatComesBack(t *testing.T) {
	begin := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	now := begin
	c := NewComparer(Parts{}, nil, func() time.Time { return now })
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

// The hour of a reservation that no definition names begins when a definition last named its VF.
func TestReservationLastsAfterItsName(t *testing.T) {
	now := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	c := NewComparer(Parts{}, nil, func() time.Time { return now })
	r := journal.Record{ID: idOf(place(0)), PCI: place(0), Since: now, Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: uuid1}}}
	with := []Seen{{UUID: uuid1, Next: parseText(t, domain(hostdev(0, "net1")))}}
	without := []Seen{{UUID: uuid1, Next: parseText(t, domain())}}
	for _, step := range []struct {
		after  time.Duration
		guests []Seen
		want   bool
	}{
		{3 * unnamed, with, true}, {unnamed - time.Second, without, true}, {time.Second, without, false},
	} {
		now = now.Add(step.after)
		if got := c.isReserved(r, step.guests); got != step.want {
			t.Errorf("at %s: %v, want %v", now, got, step.want)
		}
	}
}

// watchingEngine remembers which leases were settled, too.
type watchingEngine struct{ *fakeEngine }

func (e watchingEngine) Adopt(context.Context, attach.Request) error { return nil }

func (e watchingEngine) Settle(_ context.Context, seen journal.Record, ended bool) error {
	e.asked = append(e.asked, fmt.Sprintf("settle %s, ended %v", short(seen.PCI), ended))
	return nil
}

func parseText(t *testing.T, text string) guest.Definition {
	t.Helper()
	d, err := guest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A reservation of a guest that runs ends an hour after it was made, unless a definition names its
// VF. So it is for a guest that is off.
func TestI1ReservedForAGuestThatRuns(t *testing.T) {
	begin := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	with, without := domain(hostdev(0, "net1")), domain()
	unread, trunk := domain(unreadHostdev), domain(ovsTrunk)
	for name, tc := range map[string]struct {
		age            time.Duration
		live, next     string // next is empty for a guest without a definition that is kept
		unread, opened bool
		inUse          vf.PCIAddr
		asked          []string
	}{
		"just reserved":            {age: unnamed - time.Second, live: without, next: without},
		"named by no definition":   {age: unnamed, live: without, next: without, asked: []string{"end v0"}},
		"and open nevertheless":    {age: unnamed, live: without, next: without, inUse: place(0)},
		"for its next start":       {age: unnamed, live: without, next: with},
		"it starts with it":        {age: unnamed, live: with, next: without, asked: []string{"settle v0, ended false"}},
		"its device is odd":        {age: unnamed, live: unread, next: without, asked: []string{"settle v0, ended false"}},
		"its next device is odd":   {age: unnamed, live: without, next: unread},
		"another device is odd":    {age: unnamed, live: trunk, next: trunk, asked: []string{"end v0"}},
		"its definition is odd":    {age: unnamed, live: without, next: without, unread: true, asked: []string{"settle v0, ended false"}},
		"it ran with it":           {age: unnamed, live: without, next: without, opened: true, asked: []string{"settle v0, ended true"}},
		"it comes from a host":     {age: 2 * unnamed, live: without, asked: []string{"settle v0, ended true"}},
		"it has no definition":     {age: arriving, live: without, asked: []string{"end v0"}},
		"it comes, and starts now": {age: unnamed, live: with, asked: []string{"settle v0, ended false"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := handler(t)
			e.inUse = tc.inUse
			c := NewComparer(Parts{Engine: e, Resets: e, VFs: e, Upkeep: watchingEngine{e}}, h.ledger, func() time.Time { return begin.Add(tc.age) })
			g := Seen{UUID: uuid1, Name: "db1", Running: true, Unread: tc.unread, Live: parseText(t, tc.live)}
			if tc.next != "" {
				g.Next = parseText(t, tc.next)
			}
			rec := recordOf(t, 0, []string{"v0 attached " + uuid1 + " net1"})
			rec.Since, rec.Lease.Opened = begin, tc.opened
			if err := c.settleLease(t.Context(), rec, []Seen{g}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.asked, e.asked); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
