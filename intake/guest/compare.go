package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/attach"
	"github.com/culvert-net/culvert/guest"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// watcher is the part of attach.Engine that puts the ledger right.
type watcher interface {
	Adopt(context.Context, attach.Request) error
	Settle(context.Context, journal.Record) error
	End(context.Context, journal.Record) error
	InUse(context.Context, journal.Record) error
}

// How long a reservation lasts that nothing in libvirt's list speaks for.
const (
	// unnamed: no definition names the VF. Who asked for the XML has to put it there.
	unnamed = time.Hour
	// undefined: the guest was in the list after the VF was reserved and is there no more. Who
	// moves it to another host, or defines it anew, does so within this. A VF that was reserved
	// later is for a guest that comes back, which may take long.
	undefined = time.Minute
)

// Seen is a guest as libvirt lists it.
type Seen struct {
	UUID, Name string
	Running    bool
	// Live is what a guest that runs has now, Next what the next start of a persistent one has.
	Live, Next guest.Definition
	// Unread says that a definition could not be read: which VFs the guest has is not known.
	Unread bool
}

// Comparer compares libvirt's list of guests with the ledger. Who has a VF open is
// asked of the kernel all the same: the list says which guest that is, and when to
// look. It is for one goroutine.
type Comparer struct {
	engine watcher
	ledger ledger
	now    func() time.Time
	gone   map[string]time.Time // guests that were listed: zero, or when they were first missed
}

// NewComparer makes a Comparer over an engine, its ledger and a clock.
func NewComparer(e watcher, l ledger, now func() time.Time) *Comparer {
	return &Comparer{engine: e, ledger: l, now: now, gone: map[string]time.Time{}}
}

// Compare makes the ledger say what libvirt's list and the kernel do, and returns
// what it can not: a VF that a guest runs with and somebody else holds is taken from neither.
// The list is asked for after the ledger was read, so it is never older: what it
// ends was there before, and a lease that was made since has another generation (I8).
// Without VFs in the ledger it is not asked for.
func (c *Comparer) Compare(ctx context.Context, list func(context.Context) ([]Seen, error)) ([]api.Problem, error) {
	before, err := journal.ReadRecords(c.ledger)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	guests, err := list(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(guests, func(a, b Seen) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID)) })
	c.remember(guests)
	var errs []error
	for _, r := range before {
		if r.Phase == journal.Attached && r.Lease.Owner.Kind == vf.OwnerGuest {
			errs = append(errs, c.settle(ctx, r, guests))
		}
	}
	var out []api.Problem
	for _, g := range guests {
		if g.Running && !g.Unread {
			out = append(out, c.adopt(ctx, g, before)...)
		}
	}
	now, err := journal.ReadRecords(c.ledger)
	return append(out, contradictions(guests, now)...), errors.Join(append(errs, err)...)
}

// remember notes which guests there are, and when one that was there was missed.
func (c *Comparer) remember(guests []Seen) {
	for uuid, since := range c.gone {
		switch {
		case since.IsZero():
			c.gone[uuid] = c.now()
		case c.now().Sub(since) > unnamed:
			delete(c.gone, uuid)
		}
	}
	for _, g := range guests {
		c.gone[g.UUID] = time.Time{}
	}
}

// settle ends the lease of a guest that has ended, or that no start will need.
func (c *Comparer) settle(ctx context.Context, r journal.Record, guests []Seen) error {
	i := slices.IndexFunc(guests, func(g Seen) bool { return g.UUID == r.Lease.Owner.UID })
	if r.Lease.Opened || i >= 0 && guests[i].Running {
		return c.engine.Settle(ctx, r)
	}
	if c.reserved(r, guests) {
		return nil
	}
	if err := c.engine.InUse(ctx, r); err != nil {
		return nil //nolint:nilerr // it runs, whatever libvirt knows of it
	}
	return c.engine.End(ctx, r)
}

// reserved reports whether a lease that no guest has used yet is for a next start. When the guest
// starts this very moment and its VF is taken back, it is adopted at the next look.
func (c *Comparer) reserved(r journal.Record, guests []Seen) bool {
	i := slices.IndexFunc(guests, func(g Seen) bool { return g.UUID == r.Lease.Owner.UID })
	missed, listed := c.gone[r.Lease.Owner.UID]
	switch {
	case i >= 0 && (guests[i].Unread || names(guests[i].Next, r.PCI)):
		return true
	case i < 0 && listed && !r.Since.After(missed):
		return c.now().Sub(missed) < undefined
	}
	return c.now().Sub(r.Since) < unnamed
}

func names(d guest.Definition, pci vf.PCIAddr) bool {
	return slices.ContainsFunc(d.Uses, func(u guest.Use) bool { return u.VF() == pci })
}

// adopt leases what a guest runs with and nobody holds. What somebody else held
// before the list was made, and holds still, is said.
func (c *Comparer) adopt(ctx context.Context, g Seen, before []journal.Record) (out []api.Problem) {
	who := vf.Owner{Kind: vf.OwnerGuest, UID: g.UUID, Name: g.Name}
	says := func(next, format string, args ...any) {
		out = append(out, api.Problem{Object: "guest " + g.Name, Reason: fmt.Sprintf(format, args...), Next: next})
	}
	known := func(u guest.Use) bool { _, is := at(before, u.VF()); return is }
	if !slices.ContainsFunc(g.Live.Uses, known) {
		return nil
	}
	wants, err := g.Live.Wants()
	if err != nil {
		says("mend it (virsh edit "+g.Name+") and start the guest anew", "it runs, and %v", err)
	}
	for _, w := range wants {
		rec, known := at(before, w.VF)
		switch {
		case !known || rec.Lease.Owner.UID == who.UID && rec.Held():
		case rec.Held():
			if now, err := c.record(rec.ID); err == nil && now.Generation == rec.Generation && now.Held() {
				says(fmt.Sprintf("nothing was taken from either: shut guest %s down, or virsh detach-device %s", g.Name, g.Name),
					"it runs with VF %s, which is %s: %s by %s", rec.PCI, rec.Phase, vf.ErrHeld, rec.Holder())
			}
		default:
			if err := c.engine.Adopt(ctx, wanted(rec, who, w)); err != nil {
				says("culvertd tries again on its own", "it runs with a VF that is not its own: %v", err)
			}
		}
	}
	return out
}

func (c *Comparer) record(id vf.ID) (rec journal.Record, err error) {
	err = c.ledger.View(func(tx *journal.Tx) error {
		rec, err = tx.Record(id)
		return err
	})
	return rec, err
}

// contradictions are VFs that two definitions name, and those in a definition
// that somebody else has: of guests that would be refused when they start.
func contradictions(guests []Seen, records []journal.Record) (out []api.Problem) {
	for _, rec := range records {
		var named []Seen
		for _, g := range guests {
			if names(g.Next, rec.PCI) {
				named = append(named, g)
			}
		}
		for i, g := range named {
			mine := rec.Lease.Owner.UID == g.UUID || !rec.Held() || names(g.Live, rec.PCI)
			next := fmt.Sprintf("take it out of one definition (virsh edit %s), or culvert vm xml another one", g.Name)
			switch {
			case i > 0:
				out = append(out, api.Problem{Object: "guest " + g.Name, Next: next,
					Reason: fmt.Sprintf("its definition names VF %s, and that of guest %s does too: only one of them can run", rec.PCI, named[0].Name)})
			case !mine && !slices.ContainsFunc(named, func(o Seen) bool { return o.UUID == rec.Lease.Owner.UID }):
				out = append(out, api.Problem{Object: "guest " + g.Name, Next: next,
					Reason: fmt.Sprintf("its definition names VF %s, which %s has: it cannot start", rec.PCI, rec.Holder())})
			}
		}
	}
	return out
}
