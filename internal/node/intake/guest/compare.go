package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// How long a reservation lasts that nothing in libvirt's list supports.
const (
	// unnamed: no definition names the VF. Its requester still has to put the XML there.
	unnamed = time.Hour
	// undefined: the guest was in the list after the VF was reserved, and is no longer there. A
	// move to another host, or a new definition, takes less than this. If the VF was reserved
	// after the guest had left the list, it is for a guest that returns, which may take long.
	undefined = time.Minute
	// arriving: a running guest has no inactive definition. It may be arriving from another host,
	// where a culvert of an earlier version migrates it, and that can take long. A guest that has
	// none at all gives the VF back after this time.
	arriving = 24 * time.Hour
)

// Seen is a guest as libvirt lists it.
type Seen struct {
	UUID, Name string
	Running    bool
	// Live is the present definition of a running guest, Next the definition for the next start of
	// a persistent guest.
	Live, Next guest.Definition
	// Unread says that a definition as a whole could not be read, so the guest's VFs are not known.
	Unread bool
}

// Comparer compares libvirt's list of guests with the ledger. The kernel, and not the list, shows
// which VFs are open. The list names the guests, and its changes show when to look. A Comparer is
// for one goroutine.
type Comparer struct {
	node   Parts
	ledger ledger
	now    func() time.Time
	gone   map[string]time.Time // guests that were listed: zero, or when they were first missed
	named  map[vf.ID]time.Time  // reserved VFs: when a definition of the guest last named them
}

// NewComparer makes a Comparer over the parts of a node, its ledger and a clock.
func NewComparer(p Parts, l ledger, now func() time.Time) *Comparer {
	return &Comparer{node: p, ledger: l, now: now, gone: map[string]time.Time{}, named: map[vf.ID]time.Time{}}
}

// Compare brings the ledger in line with libvirt's list and the kernel, and returns the
// problems that it cannot mend: a VF that a guest runs with and another owner holds is taken
// from neither. It asks for the list after it read the ledger, so the list is never older: a
// lease that it ends existed before, and a lease that was made since has another generation
// (I8). It does not ask while the ledger has no VF and no guest can have a PF.
func (c *Comparer) Compare(ctx context.Context, list func(context.Context) ([]Seen, error)) ([]api.Problem, error) {
	before, err := journal.ReadRecords(c.ledger)
	if err != nil {
		return nil, err
	}
	leases, mayPass, err := c.readPFLeases()
	if err != nil || len(before) == 0 && !mayPass {
		return nil, err
	}
	guests, err := list(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(guests, func(a, b Seen) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID)) })
	c.rememberGuests(guests)
	errs := []error{c.settlePFs(guests, leases)}
	for _, r := range before {
		if r.Phase == vf.PhaseAttached && r.Lease.Owner.Kind == vf.OwnerGuest {
			errs = append(errs, c.settleLease(ctx, r, guests))
		}
	}
	var out []api.Problem
	for _, g := range guests {
		if g.Running && !g.Unread {
			out = append(out, c.adoptVFs(ctx, g, before)...)
		}
	}
	now, err := journal.ReadRecords(c.ledger)
	out = append(out, findContradictions(guests, now)...)
	out = append(out, c.findPassedPFs(guests, now)...)
	return append(out, findUnread(guests, now)...), errors.Join(append(errs, err)...)
}

// rememberGuests records which guests exist, and when a guest was first missing.
func (c *Comparer) rememberGuests(guests []Seen) {
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

// settleLease ends the lease of a guest that has ended, or a lease that no start will need. A guest
// that runs without the VF has it reserved, as a guest that is off has.
func (c *Comparer) settleLease(ctx context.Context, r journal.Record, guests []Seen) error {
	i := slices.IndexFunc(guests, func(g Seen) bool { return g.UUID == r.Lease.Owner.UID })
	runs := i >= 0 && guests[i].Running
	runsWith := runs && (guests[i].Unread || mayUse(guests[i].Live.Uses, r.PCI))
	arrives := runs && guests[i].Next.UUID == "" && c.now().Sub(r.Since) < arriving
	if r.Lease.Opened || runsWith || arrives {
		return c.node.Upkeep.Settle(ctx, r, !runsWith)
	}
	if c.isReserved(r, guests) {
		return nil
	}
	if err := c.node.VFs.InUse(ctx, r); err != nil {
		return nil //nolint:nilerr // it runs, whatever libvirt knows of it
	}
	return c.node.Resets.End(ctx, r)
}

// isReserved reports whether a lease that no guest has used yet is for a next start. If the guest
// starts at this moment and its VF is taken back, the next comparison adopts it.
func (c *Comparer) isReserved(r journal.Record, guests []Seen) bool {
	i := slices.IndexFunc(guests, func(g Seen) bool { return g.UUID == r.Lease.Owner.UID })
	missed, listed := c.gone[r.Lease.Owner.UID]
	switch {
	case i >= 0 && (guests[i].Unread || mayUse(guests[i].Next.Uses, r.PCI)):
		c.named[r.ID] = c.now()
		return true
	case i < 0 && listed && !r.Since.After(missed):
		return c.now().Sub(missed) < undefined
	}
	since := r.Since
	if last := c.named[r.ID]; last.After(since) {
		since = last
	}
	return c.now().Sub(since) < unnamed
}

func namesVF(d guest.Definition, pci vf.PCIAddr) bool {
	return slices.ContainsFunc(d.Uses, func(u guest.Use) bool { return u.VF() == pci })
}

// mayUse reports whether one of the devices passes the VF at an address, or may pass it.
func mayUse(uses []guest.Use, pci vf.PCIAddr) bool {
	return slices.ContainsFunc(uses, func(u guest.Use) bool { return u.MayBe(pci) })
}

// adoptVFs leases the VFs that a guest runs with and that have no owner. It reports a VF that
// another owner held before the list was made, and holds still. It leaves a VF alone whose settings
// it cannot read from the definition: findUnread reports it.
func (c *Comparer) adoptVFs(ctx context.Context, g Seen, before []journal.Record) (out []api.Problem) {
	who := vf.Owner{Kind: vf.OwnerGuest, UID: g.UUID, Name: g.Name}
	says := func(next, format string, args ...any) {
		out = append(out, api.Problem{Object: "guest " + g.Name, Reason: excerpt.Fit(fmt.Sprintf(format, args...), longestList), Next: next})
	}
	known := func(u guest.Use) bool { _, is := recordAt(before, u.VF()); return is }
	if !slices.ContainsFunc(g.Live.Uses, known) {
		return nil
	}
	wants, err := g.Live.Wants()
	if err != nil {
		says("mend it (virsh edit "+g.Name+") and start the guest anew", "it runs, and %v", err)
	}
	for _, w := range wants {
		rec, known := recordAt(before, w.VF)
		switch {
		case !known || rec.Lease.Owner.UID == who.UID && rec.Held():
		case rec.Held():
			if now, err := c.readRecord(rec.ID); err == nil && now.Generation == rec.Generation && now.Held() {
				says(fmt.Sprintf("nothing was taken from either: shut guest %s down, or virsh detach-device %s", g.Name, g.Name),
					"it runs with VF %s, which is %s: %s by %s", rec.PCI, rec.Phase, vf.ErrHeld, rec.Holder())
			}
		case w.Err == nil:
			if err := c.node.Upkeep.Adopt(ctx, requestFor(rec, who, w)); err != nil {
				says("culvertd tries again on its own", "it runs with a VF that is not its own: %v", err)
			}
		}
	}
	return out
}

func (c *Comparer) readRecord(id vf.ID) (rec journal.Record, err error) {
	err = c.ledger.View(func(tx *journal.Tx) error {
		rec, err = tx.Record(id)
		return err
	})
	return rec, err
}

// findContradictions returns the VFs that two definitions name, and the VFs of a definition that
// have another owner: the start of those guests would be refused.
func findContradictions(guests []Seen, records []journal.Record) (out []api.Problem) {
	for _, rec := range records {
		var named []Seen
		for _, g := range guests {
			if namesVF(g.Next, rec.PCI) {
				named = append(named, g)
			}
		}
		for i, g := range named {
			mine := rec.Lease.Owner.UID == g.UUID || !rec.Held() || namesVF(g.Live, rec.PCI)
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
