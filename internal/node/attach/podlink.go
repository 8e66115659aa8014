package attach

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Each pass reads the interface of an attached VF in its owner's netns, unless it was read within
// the last linkLook. After a reset of the PF, the next pass reads it as soon as the PF has a link
// again. A reset of the PF can continue in the VF's driver for up to resetBound. Passes read the
// guard of a VF at most every linkLook, too.
const (
	linkLook   = 20 * time.Second
	resetBound = time.Minute
)

// Upkeep reads at most mostLooks interfaces and guards at the same time, since each read needs its
// own thread. A look at an interface waits at most lookPatience for its turn, and the mending of
// drift at most mendPatience, since the VF is locked while they wait.
const (
	mostLooks    = 8
	lookPatience = time.Second
	mendPatience = 30 * time.Second
)

// waitForTurn waits until upkeep may read in an owner's netns. The caller calls done after its read.
// The error is vf.ErrTimeout if the turn does not come in time.
func (e *Engine) waitForTurn(ctx context.Context, patience time.Duration) (done func(), err error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case e.looking <- struct{}{}:
		return func() { <-e.looking }, nil
	case <-late.C:
		return nil, fmt.Errorf("other reads take too long: %w", vf.ErrTimeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// darkBound is how long a VF may be without carrier while its PF has a link. A VF driver needs some
// seconds until it has carrier, after its interface is set up and after a reset of the PF.
const darkBound = 10 * time.Second

// podLink has the last reading of the interface of one lease. It is in memory only: after culvertd
// has started, the first look at an interface only records its state.
type podLink struct {
	looked time.Time // zero: not yet
	known  bool      // a look was successful
	failed bool      // the last look was not
	losses uint32    // of carrier, of the PF, at the last look
	// reset is the time of the last look that found that the PF had been reset.
	reset time.Time
	// own has the differences from the lease that the interface had while there was no reset. The
	// owner made them.
	own []vf.Difference
	// left is the text of the last event about differences that could not be repaired.
	left string
}

// darkness is about a VF whose interface is up without carrier although its PF has a link.
type darkness struct {
	since    time.Time // zero: it has carrier, or its PF was reset after the last look
	reported bool      // an event has reported it
}

// noteReset records that the PF of a lease was reset, as the loss of its settings for the VF shows.
// The next pass then reads the interface.
func (e *Engine) noteReset(r journal.Record) {
	last := e.podLinks.loadValue(r)
	if last.known {
		last.reset, last.looked = e.Now(), time.Unix(0, 0)
		e.podLinks.storeValue(r, last)
	}
}

// wasDark reports whether the VF of a lease was without carrier at the last look although its PF
// had a link, and has been so for darkBound.
func (e *Engine) wasDark(r journal.Record) bool {
	since := e.dark.loadValue(r).since
	return !since.IsZero() && e.Now().Sub(since) >= darkBound
}

// IsDark reports whether the interface of an attached VF has been up without carrier for darkBound
// or longer, although its PF has a link.
func (e *Engine) IsDark(r journal.Record) bool {
	last := e.dark.loadValue(r)
	return r.Phase == journal.Attached && last.reported && !last.since.IsZero()
}

// IsDoubtful reports whether Culvert gives out VFs of a PF only if no VF of another PF is free.
func (e *Engine) IsDoubtful(pf vf.PF, records []journal.Record) bool {
	return alloc.IsDoubtful(pf, records, e.IsDark)
}

// needsLook reports whether tendLink must read the interface of an attached VF in its owner's
// netns. It returns false while the PF has no steady link, since the VF then has none either.
func (e *Engine) needsLook(r journal.Record, pf vf.PF) bool {
	if r.Lease.Netns == "" || r.Lease.Wanted.Driver == vf.DriverVFIO || pf.Err != "" || pf.LinkProblem() != "" {
		return false
	}
	last := e.podLinks.loadValue(r)
	since := e.Now().Sub(last.looked)
	return last.losses != pf.CarrierLosses || since < 0 || since >= linkLook
}

// tendLink reads the interface of an attached VF in its owner's netns. It repairs the changes that
// a reset of the PF has made there, and reports a VF that stays without carrier. It leaves the
// owner's own changes alone. The caller holds the lock of the VF.
func (e *Engine) tendLink(ctx context.Context, seen journal.Record, pf vf.PF) error {
	done, err := e.waitForTurn(ctx, lookPatience)
	if err != nil {
		return nil // the next pass looks
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, undoBound)
	defer cancel()
	rec, same, err := e.currentRecord(seen)
	if err != nil || !same || rec.Phase != journal.Attached {
		return err // nil when the owner gave the VF back meanwhile
	}
	last, now := e.podLinks.loadValue(rec), e.Now()
	if last.known && last.losses != pf.CarrierLosses {
		last.reset = now
		dark := e.dark.loadValue(rec)
		dark.since = time.Time{}
		e.dark.storeValue(rec, dark)
	}
	wasReset := !last.reset.IsZero() && now.Sub(last.reset) < resetBound && !last.reset.After(now)
	last.looked, last.losses = now, pf.CarrierLosses
	st, err := e.readVF(ctx, rec)
	if err != nil && !last.failed { // it is no problem of the host (I7)
		e.Log.Warn("read the interface of a pod", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	}
	last.failed = err != nil
	if err != nil || st.Link == nil || st.Link.Netns == "" { // the latter: it is not with its owner, which is drift
		e.podLinks.storeValue(rec, last)
		return nil
	}
	last.known = true
	switch {
	case !wasReset:
		last.own = linkDrift(rec, st)
	case e.mendsDrift(rec):
		if st, err = e.mendLink(ctx, siteOf(pf, rec), rec, st, &last); err != nil {
			last.looked = time.Time{}.Add(1) // the next pass tries again
		}
	}
	e.podLinks.storeValue(rec, last)
	if err != nil {
		return err
	}
	return e.followCarrier(rec, pf, st, last)
}

// linkDrift lists the differences of the interface of a VF from its lease that a driver can cause.
// The interface is in the owner's netns. Addresses and routes do not count for a member of a bond: the
// bond has them, and keeps them when a member goes down.
func linkDrift(rec journal.Record, st vf.State) []vf.Difference {
	own := []string{"up", "mtu", "link mac"}
	if rec.Lease.Bond == nil {
		own = append(own, "address", "route")
	}
	return slices.DeleteFunc(LeaseDiff(rec, withoutGuard(st)), func(d vf.Difference) bool {
		return !slices.Contains(own, d.Attribute)
	})
}

// without returns the differences that are not in others. Two differences are equal if they have
// the same attribute and the same wanted value. Both lists are of one lease, on which Want depends.
func without(all, others []vf.Difference) []vf.Difference {
	return slices.DeleteFunc(slices.Clone(all), func(d vf.Difference) bool {
		return slices.ContainsFunc(others, func(o vf.Difference) bool { return o.Attribute == d.Attribute && o.Want == d.Want })
	})
}

// followCarrier emits an event when a VF has been without carrier for darkBound while its PF has a
// link, and another one when the VF has carrier again.
func (e *Engine) followCarrier(rec journal.Record, pf vf.PF, st vf.State, last podLink) error {
	isDark := st.Link != nil && st.Link.Up && !st.Link.Carrier && st.Admin.LinkState != vf.LinkDisable
	dark, object := e.dark.loadValue(rec), "VF "+rec.PCI.String()
	var event journal.Event
	switch {
	case isDark && dark.since.IsZero():
		dark.since = last.looked
	case isDark && !dark.reported && last.looked.Sub(dark.since) >= darkBound:
		dark.reported = true
		text := describeDark(pf)
		event = journal.Event{Type: journal.Warning, Reason: "VFNoCarrier", Object: object, Text: fmt.Sprintf("vf %d of %s, which %s has: %s", rec.ID.Index, pf.Label(), rec.Lease.Owner, text)}
		e.emitPodEvent(rec.Lease, "VFNoCarrier", fmt.Sprintf("its VF %s (interface %s%s): %s: restart the pod: culvertd binds the VF's driver anew before the VF has another owner",
			rec.PCI, rec.Lease.Wanted.Interface, onNetwork(rec), text))
	case !isDark && dark.reported:
		event = journal.Event{Type: journal.Normal, Reason: "VFCarrier", Object: object, Text: fmt.Sprintf("vf %d of %s, which %s has: its interface has carrier again", rec.ID.Index, pf.Label(), rec.Lease.Owner)}
	}
	if !isDark {
		dark = darkness{}
	}
	e.dark.storeValue(rec, dark)
	if event.Reason == "" {
		return nil
	}
	return e.Ledger.Update(func(tx *journal.Tx) error { return tx.Event(event) })
}

// describeDark returns the problem of a VF without carrier and its possible causes.
func describeDark(pf vf.PF) string {
	return fmt.Sprintf("its interface is up and has no carrier, although PF %s has a link: the PF does not answer the VF, or the NIC has the VF's port off", pf.Label())
}
