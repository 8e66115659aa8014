package attach

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/alloc"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// The interface of an attached VF is read in its owner's netns every linkLook, and as soon as its
// PF has been reset and has a link again. A reset of the PF can go on in the VF's driver for up to
// resetBound.
const (
	linkLook   = 20 * time.Second
	resetBound = time.Minute
)

// At most mostLooks interfaces are read at a time, since each read needs a thread of its own. A look
// waits lookPatience for its turn: meanwhile the VF is locked.
const (
	mostLooks    = 8
	lookPatience = time.Second
)

// darkBound is how long a VF may be without carrier while its PF has a link. After its interface
// was set up and after a reset of the PF, a VF driver needs some seconds.
const darkBound = 10 * time.Second

// podLink is what was read of the interface of one lease. It is in memory only: after a start of
// culvertd, the first look at an interface only records how it is.
type podLink struct {
	looked time.Time // zero: not yet
	known  bool      // a look was successful
	failed bool      // the last look was not
	losses uint32    // of carrier, of the PF, at the last look
	// reset is when the PF was last found to have been reset since the look before.
	reset time.Time
	// own are the differences from the lease that the interface had apart from resets: the owner's
	// doing.
	own []vf.Difference
	// left is the text of the last event about differences that could not be mended.
	left string
	// dark is since when the interface is up without carrier although the PF has a link.
	dark     time.Time
	reported bool // of dark
}

// noteReset records that the PF of a lease was reset, since it lost its settings for the VF. The
// interface is then read at once.
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
	since := e.podLinks.loadValue(r).dark
	return !since.IsZero() && e.Now().Sub(since) >= darkBound
}

// IsDark reports whether the interface of an attached VF has been up without carrier for long,
// although its PF has a link.
func (e *Engine) IsDark(r journal.Record) bool {
	last := e.podLinks.loadValue(r)
	return r.Phase == journal.Attached && last.reported && !last.dark.IsZero()
}

// IsDoubtful reports whether VFs of a PF are given out only if there are no others.
func (e *Engine) IsDoubtful(pf vf.PF, records []journal.Record) bool {
	return alloc.IsDoubtful(pf, records, e.IsDark)
}

// needsLook reports whether the interface of an attached VF is to be read in its owner's netns. It
// is not while its PF has no steady link: then it has none either.
func (e *Engine) needsLook(r journal.Record, pf vf.PF) bool {
	if r.Lease.Netns == "" || r.Lease.Wanted.Driver == vf.DriverVFIO || pf.Err != "" || pf.LinkProblem() != "" {
		return false
	}
	last := e.podLinks.loadValue(r)
	since := e.Now().Sub(last.looked)
	return last.losses != pf.CarrierLosses || since < 0 || since >= linkLook
}

// tendLink reads the interface of an attached VF in its owner's netns. It mends what a reset of the
// PF has changed there, and reports a VF that stays without carrier. What the owner changed itself
// stays as it is. It runs with the VF locked.
func (e *Engine) tendLink(ctx context.Context, seen journal.Record, pf vf.PF) error {
	late := time.NewTimer(lookPatience)
	defer late.Stop()
	select {
	case e.looking <- struct{}{}:
		defer func() { <-e.looking }()
	case <-late.C:
		return nil // the next pass looks
	}
	ctx, cancel := context.WithTimeout(ctx, undoBound)
	defer cancel()
	rec, same, err := e.currentRecord(seen)
	if err != nil || !same || rec.Phase != journal.Attached {
		return err // nil when the owner gave the VF back meanwhile
	}
	last, now := e.podLinks.loadValue(rec), e.Now()
	if last.known && last.losses != pf.CarrierLosses {
		last.reset, last.dark = now, time.Time{}
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
// The interface is in the owner's netns. A member of a bond has none: the bond has the addresses.
func linkDrift(rec journal.Record, st vf.State) []vf.Difference {
	if rec.Lease.Bond != nil {
		return nil
	}
	return slices.DeleteFunc(LeaseDiff(rec, withoutGuard(st)), func(d vf.Difference) bool {
		return !slices.Contains([]string{"up", "mtu", "link mac", "address", "route"}, d.Attribute)
	})
}

// without returns the differences that are not in others. Those in an attribute with one value are
// alike if the attribute is.
func without(all, others []vf.Difference) []vf.Difference {
	return slices.DeleteFunc(slices.Clone(all), func(d vf.Difference) bool {
		return slices.ContainsFunc(others, func(o vf.Difference) bool { return o.Attribute == d.Attribute && o.Want == d.Want })
	})
}

// followCarrier reports a VF that has been without carrier for darkBound while its PF has a link,
// and the end of that.
func (e *Engine) followCarrier(rec journal.Record, pf vf.PF, st vf.State, last podLink) error {
	isDark := st.Link != nil && st.Link.Up && !st.Link.Carrier && st.Admin.LinkState != vf.LinkDisable
	object := "VF " + rec.PCI.String()
	var event journal.Event
	switch {
	case isDark && last.dark.IsZero():
		last.dark = last.looked
	case isDark && !last.reported && last.looked.Sub(last.dark) >= darkBound:
		last.reported = true
		text := describeDark(pf)
		event = journal.Event{Type: journal.Warning, Reason: "VFNoCarrier", Object: object, Text: fmt.Sprintf("vf %d of %s, which %s has: %s", rec.ID.Index, pf.Label(), rec.Lease.Owner, text)}
		e.emitPodEvent(rec.Lease, "VFNoCarrier", fmt.Sprintf("its VF %s (interface %s%s): %s: restart the pod: culvertd binds the VF's driver anew before the VF has another owner",
			rec.PCI, rec.Lease.Wanted.Interface, onNetwork(rec), text))
	case !isDark && last.reported:
		event = journal.Event{Type: journal.Normal, Reason: "VFCarrier", Object: object, Text: fmt.Sprintf("vf %d of %s, which %s has: its interface has carrier again", rec.ID.Index, pf.Label(), rec.Lease.Owner)}
	}
	if !isDark {
		last.dark, last.reported = time.Time{}, false
	}
	e.podLinks.storeValue(rec, last)
	if event.Reason == "" {
		return nil
	}
	return e.Ledger.Update(func(tx *journal.Tx) error { return tx.Event(event) })
}

// describeDark says what a VF without carrier is.
func describeDark(pf vf.PF) string {
	return fmt.Sprintf("its interface is up and has no carrier, although PF %s has a link: the PF does not answer the VF, or the NIC has the VF's port off", pf.Label())
}
