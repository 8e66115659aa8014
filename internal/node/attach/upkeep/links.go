package upkeep

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
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

// links looks at the interfaces of attached VFs in their owners' netns, and mends what a reset of
// the PF has changed there.
type links struct {
	vfs     *hold.VFs
	reports reporter
	last    *hold.Memory[podLink]
	looking chan struct{} // has a value for each read of waitForTurn that is under way
}

// waitForTurn waits until upkeep may read in an owner's netns. The caller calls done after its read.
// The error is vf.ErrTimeout if the turn does not come in time.
func (l *links) waitForTurn(ctx context.Context, patience time.Duration) (done func(), err error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case l.looking <- struct{}{}:
		return func() { <-l.looking }, nil
	case <-late.C:
		return nil, fmt.Errorf("other reads take too long: %w", vf.ErrTimeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

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

// noteReset records that the PF of a lease was reset, as the loss of its settings for the VF shows.
// The next pass then reads the interface.
func (l *links) noteReset(r journal.Record) {
	last := l.last.Load(r)
	if last.known {
		last.reset, last.looked = l.vfs.Now(), time.Unix(0, 0)
		l.last.Store(r, last)
	}
}

// needsLook reports whether tendLink must read the interface of an attached VF in its owner's
// netns. It returns false while the PF has no steady link, since the VF then has none either.
func (l *links) needsLook(r journal.Record, pf vf.PF) bool {
	if r.Lease.Netns == "" || r.Lease.Wanted.Driver == vf.DriverVFIO || pf.Err != "" || pf.LinkProblem() != "" {
		return false
	}
	last := l.last.Load(r)
	since := l.vfs.Now().Sub(last.looked)
	return last.losses != pf.CarrierLosses || since < 0 || since >= linkLook
}

// tendLink reads the interface of an attached VF in its owner's netns. It repairs the changes that
// a reset of the PF has made there, and reports a VF that stays without carrier. It leaves the
// owner's own changes alone. The caller holds the lock of the VF.
func (l *links) tendLink(ctx context.Context, seen journal.Record, pf vf.PF) error {
	done, err := l.waitForTurn(ctx, lookPatience)
	if err != nil {
		return nil // the next pass looks
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, hold.UndoBound)
	defer cancel()
	rec, same, err := l.vfs.CurrentRecord(seen)
	if err != nil || !same || rec.Phase != vf.PhaseAttached {
		return err // nil when the owner gave the VF back meanwhile
	}
	last, now := l.last.Load(rec), l.vfs.Now()
	if last.known && last.losses != pf.CarrierLosses {
		last.reset = now
		dark := l.vfs.Dark.Load(rec)
		dark.Since = time.Time{}
		l.vfs.Dark.Store(rec, dark)
	}
	wasReset := !last.reset.IsZero() && now.Sub(last.reset) < resetBound && !last.reset.After(now)
	last.looked, last.losses = now, pf.CarrierLosses
	st, err := l.vfs.ReadVF(ctx, rec)
	if err != nil && !last.failed { // it is no problem of the host (I7)
		l.vfs.Log.Warn("read the interface of a pod", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	}
	last.failed = err != nil
	if err != nil || st.Link == nil || st.Link.Netns == "" { // the latter: it is not with its owner, which is drift
		l.last.Store(rec, last)
		return nil
	}
	last.known = true
	switch {
	case !wasReset:
		last.own = linkDrift(rec, st)
	case mendsDrift(l.vfs, rec):
		if st, err = l.mendLink(ctx, lease.SiteOf(pf, rec), rec, st, &last); err != nil {
			last.looked = time.Time{}.Add(1) // the next pass tries again
		}
	}
	l.last.Store(rec, last)
	if err != nil {
		return err
	}
	return l.followCarrier(rec, pf, st, last)
}

// linkDrift lists the differences of the interface of a VF from its lease that a driver can cause.
// The interface is in the owner's netns. Addresses and routes do not count for a member of a bond: the
// bond has them, and keeps them when a member goes down.
func linkDrift(rec journal.Record, st vf.State) []vf.Difference {
	own := []string{"up", "mtu", "link mac"}
	if rec.Lease.Bond == nil {
		own = append(own, "address", "route")
	}
	return slices.DeleteFunc(lease.Diff(rec, lease.WithoutGuard(st)), func(d vf.Difference) bool {
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

// followCarrier emits an event when a VF has been without carrier for hold.DarkBound while its PF has a
// link, and another one when the VF has carrier again.
func (l *links) followCarrier(rec journal.Record, pf vf.PF, st vf.State, last podLink) error {
	isDark := st.Link != nil && st.Link.Up && !st.Link.Carrier && st.Admin.LinkState != vf.LinkDisable
	dark := l.vfs.Dark.Load(rec)
	var event journal.Event
	switch {
	case isDark && dark.Since.IsZero():
		dark.Since = last.looked
	case isDark && !dark.Reported && last.looked.Sub(dark.Since) >= hold.DarkBound:
		dark.Reported = true
		text := describeDark(pf)
		event = rec.MakeEvent(journal.Warning, reasons.VFNoCarrier, fmt.Sprintf("vf %d of %s, which %s has: %s", rec.ID.Index, pf.Label(), rec.Lease.Owner, text))
		l.reports.emitPodEvent(rec.Lease, reasons.VFNoCarrier, fmt.Sprintf("its VF %s (interface %s%s): %s: restart the pod: culvertd binds the VF's driver anew before the VF has another owner",
			rec.PCI, rec.Lease.Wanted.Interface, lease.OnNetwork(rec), text))
	case !isDark && dark.Reported:
		event = rec.MakeEvent(journal.Normal, reasons.VFCarrier, fmt.Sprintf("vf %d of %s, which %s has: its interface has carrier again", rec.ID.Index, pf.Label(), rec.Lease.Owner))
	}
	if !isDark {
		dark = hold.Darkness{}
	}
	l.vfs.Dark.Store(rec, dark)
	if event.Reason == "" {
		return nil
	}
	return l.vfs.Ledger.Update(func(tx *journal.Tx) error { return tx.Event(event) })
}

// describeDark returns the problem of a VF without carrier and its possible causes.
func describeDark(pf vf.PF) string {
	return fmt.Sprintf("its interface is up and has no carrier, although PF %s has a link: the PF does not answer the VF, or the NIC has the VF's port off", pf.Label())
}

// mendsDrift reports whether culvertd repairs the drift of a VF, which the pool's key drift
// decides. After a call for the VF hung, culvertd only reports drift for hangPause. It also only
// reports drift while the VF may be in a pool that it does not know yet.
func mendsDrift(vfs *hold.VFs, rec journal.Record) bool {
	if vfs.HungOfLate(rec) {
		return false
	}
	spec := vfs.Spec()
	pool, err := spec.Pool(rec.Lease.Pool)
	if err != nil {
		return !spec.Partial
	}
	return pool.Drift != desired.ReportDrift
}

// mendLink repairs the interface of an attached VF in its owner's netns, after a reset of its PF.
// The owner's own changes stay. It emits an event with the differences that it has repaired. If the
// remaining differences are news, it emits another event with these, which only a restart of the
// pod removes. It returns the state that it has read last.
func (l *links) mendLink(ctx context.Context, at lease.Site, rec journal.Record, st vf.State, last *podLink) (vf.State, error) {
	broken := without(linkDrift(rec, st), last.own)
	if len(broken) == 0 {
		last.left = ""
		return st, nil
	}
	failed := l.vfs.MendSteps(ctx, rec, interfaceSteps(at.Place, rec, broken))
	now, err := l.vfs.ReadVF(ctx, rec)
	if err != nil || now.Link == nil {
		return st, errors.Join(failed, err)
	}
	if !errors.Is(failed, vf.ErrTimeout) {
		failed = errors.Join(failed, l.vfs.MendSteps(ctx, rec, lease.MissingSteps(at.Place, rec, *now.Link, broken, last.own)))
		if now, err = l.vfs.ReadVF(ctx, rec); err != nil {
			return st, errors.Join(failed, err)
		}
	}
	left := slices.DeleteFunc(linkDrift(rec, now), func(d vf.Difference) bool { return len(without([]vf.Difference{d}, broken)) > 0 })
	var events []journal.Event
	if done := without(broken, left); len(done) > 0 {
		events = append(events, driftEvent(at, rec, reasons.DriftMended, done))
		if now.Link != nil {
			l.vfs.AnnounceAddresses(ctx, at, withAddresses(rec, now.Link.Addrs))
		}
	}
	before := last.left
	if last.left = vf.Differences(left); len(left) > 0 && last.left != before {
		events = append(events, driftEvent(at, rec, reasons.Drifted, left))
		l.reports.reportUnmended(rec, left)
		l.vfs.Log.Warn("mend the interface of a pod", "vf", rec.ID, "owner", rec.Lease.Owner, "left", last.left, "err", failed)
	}
	return now, l.vfs.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, ev := range events {
			errs = append(errs, tx.Event(ev))
		}
		return errors.Join(errs...)
	})
}

// interfaceSteps returns the steps that repair the MAC address, MTU and admin state of an
// interface. They do not set the interface down before they set its MAC address: VF drivers accept
// the change on an interface that is up.
func interfaceSteps(p lease.Place, rec journal.Record, broken []vf.Difference) (out []step.Step) {
	w, ns := rec.Lease.Wanted, rec.Lease.Netns
	for _, d := range broken {
		switch d.Attribute {
		case "link mac":
			out = append(out, step.SetLinkMAC{VF: p.VF, Netns: ns, MAC: rec.Lease.LinkMAC})
		case "mtu":
			mtu := rec.Baseline.MTU
			if w.MTU != nil {
				mtu = *w.MTU
			}
			out = append(out, step.SetMTU{VF: p.VF, Netns: ns, MTU: mtu})
		case "up":
			out = append(out, step.SetUp{VF: p.VF, Netns: ns, Up: true})
		}
	}
	return out
}

// withAddresses returns a record without the addresses of its lease that are not in addrs.
func withAddresses(rec journal.Record, addrs []netip.Prefix) journal.Record {
	rec.Lease.Wanted.Addresses = slices.DeleteFunc(slices.Clone(rec.Lease.Wanted.Addresses), func(a vf.Address) bool {
		return !slices.Contains(addrs, a.Prefix)
	})
	return rec
}
