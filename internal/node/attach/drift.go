package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// isNews reports whether the text about drift of a lease differs from the last one, and remembers
// it. So a drift causes one event and not one in each pass. An empty text forgets the last one.
func (e *Engine) isNews(r journal.Record, text string) bool {
	if e.drifts.loadValue(r) == text {
		return false
	}
	e.drifts.storeValue(r, text)
	return text != ""
}

// driftOf lists the differences between an attached VF and its lease, as far as a listing of the
// host shows. It compares the PF's settings for the VF and its driver, and reports a netdevice that
// is back on the host. In the owner's netns, which the owner may change, culvertd compares only the
// guard (guardDrift). CHECK compares all of it.
func driftOf(rec journal.Record, st vf.State) []vf.Difference {
	d := LeaseDiff(rec, st)
	if st.Link == nil {
		d = slices.DeleteFunc(d, func(o vf.Difference) bool { return o.Attribute == "interface" })
	}
	return d
}

// driftTask mends or reports the drift of an attached VF; nil when there is none.
func (e *Engine) driftTask(ctx context.Context, r journal.Record, st vf.State) func() error {
	if len(driftOf(r, st)) == 0 {
		if r.Lease.Wanted.Guard != "" {
			if !e.needsGuardLook(r) {
				return nil
			}
			return func() error { return e.tendGuard(ctx, r) }
		}
		e.isNews(r, "")
		return nil
	}
	return func() error { return e.handleDrift(ctx, r) }
}

// handleDrift runs with the VF locked.
func (e *Engine) handleDrift(ctx context.Context, seen journal.Record) error {
	ctx, cancel := context.WithTimeout(ctx, undoBound)
	defer cancel()
	rec, same, err := e.currentRecord(seen)
	if err != nil || !same || rec.Phase != vf.PhaseAttached {
		return err // nil when the owner gave the VF back meanwhile
	}
	at, err := e.findSite(rec)
	if err != nil {
		return err
	}
	before, unread, err := e.readDrift(ctx, rec)
	if err != nil || len(before) == 0 {
		return cmp.Or(err, unread) // nil when the listing showed a VF between two states
	}
	if e.shouldMend(rec, before) {
		err = e.mendDrift(ctx, at, rec)
	}
	left, _, lookErr := e.readDrift(ctx, rec)
	if lookErr == nil {
		lookErr = e.reportDrift(at, rec, before, left)
	}
	if err := errors.Join(err, lookErr); err != nil {
		return fmt.Errorf("VF %s of PF %s: mend what drifted (%s): %w", rec.PCI, at.label, vf.Differences(before), err)
	}
	return nil
}

// reportDrift emits the events of the drift of a VF: one about the differences that were mended,
// and one about those that are left if they are news.
func (e *Engine) reportDrift(at site, rec journal.Record, before, left []vf.Difference) error {
	var events []journal.Event
	if done := without(before, left); len(done) > 0 {
		if slices.ContainsFunc(done, isOfPF) {
			e.noteReset(rec)
		}
		events = append(events, e.driftEvent(at, rec, "DriftMended", done))
	}
	if len(left) > 0 {
		if e.isNews(rec, vf.Differences(left)) {
			e.reportUnmended(rec, left)
			events = append(events, e.driftEvent(at, rec, "Drifted", left))
		}
	} else {
		e.isNews(rec, "")
	}
	if len(events) == 0 {
		return nil
	}
	return e.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, ev := range events {
			errs = append(errs, tx.Event(ev))
		}
		return errors.Join(errs...)
	})
}

// readDrift returns the differences of an attached VF from its lease. unread is the reason why those
// of the guard are missing: the owner decides whether its netns can be read.
func (e *Engine) readDrift(ctx context.Context, rec journal.Record) (all []vf.Difference, unread, err error) {
	st, err := e.readFromHost(ctx, rec)
	if err != nil {
		return nil, nil, err
	}
	guard, unread := e.guardDrift(ctx, rec)
	return append(driftOf(rec, st), guard...), unread, nil
}

// shouldMend reports whether culvertd mends the drift of a VF, as its pool wants. It mends no VF
// whose netdevice is back on the host: the owner has lost that VF, and its release resets it.
func (e *Engine) shouldMend(rec journal.Record, d []vf.Difference) bool {
	if slices.ContainsFunc(d, func(o vf.Difference) bool { return o.Attribute == "netns" }) {
		return false
	}
	return e.mendsDrift(rec)
}

// mendDrift restores the guard of an attached VF and the PF's settings for it. A MAC that the PF
// has forgotten is set again if the interface still has it. Another MAC needs the VF's driver bound
// anew, which takes the interface away from the owner.
//
// If the owner's netns cannot be read, mendDrift restores the PF's other settings all the same: they
// keep the owner in its VLAN.
func (e *Engine) mendDrift(ctx context.Context, at site, rec journal.Record) error {
	st, unread := e.readForMending(ctx, rec)
	if unread != nil {
		var err error
		if st, err = e.readFromHost(ctx, rec); err != nil {
			return errors.Join(unread, err)
		}
	}
	want := effectiveSpec(rec.Lease.Wanted, rec).Over(rec.Baseline.Admin)
	steps := adminSteps(at.place, st.Admin, want)
	if st.Admin.MAC != want.MAC && keepsMAC(rec, st) {
		steps = append(steps, step.SetVFMAC{PF: at.pf, Index: at.index, MAC: want.MAC})
	}
	if st.Link != nil && len(rec.Lease.Wanted.GuardDiff(rec.Baseline, *st.Link)) > 0 {
		steps = append(guardSteps(at.place, rec), steps...)
	}
	return errors.Join(unread, e.mendSteps(ctx, rec, steps))
}

// keepsMAC reports whether a VF still uses the MAC of its lease, although the PF has another one
// for it. A trusted VF may have set its own MAC, which the PF then reports: that one stays. The MAC
// that a guest uses cannot be read, so it counts as the lease's if the PF has none.
func keepsMAC(rec journal.Record, st vf.State) bool {
	if rec.Lease.Wanted.Driver == vf.DriverVFIO {
		return st.Admin.MAC.IsZero()
	}
	return st.Link != nil && st.Link.Netns == rec.Lease.Netns && st.Link.MAC == rec.Lease.LinkMAC
}

func (e *Engine) driftEvent(at site, rec journal.Record, reason string, d []vf.Difference) journal.Event {
	text := fmt.Sprintf("vf %d of %s, which %s has: %s", rec.ID.Index, at.label, rec.Lease.Owner, vf.Differences(d))
	if reason == "Drifted" {
		text += ": start the owner anew, or mend it by hand"
	}
	return journal.Event{Type: journal.Warning, Reason: reason, Object: "VF " + rec.PCI.String(), Text: text}
}

// isOfPF reports whether a difference is in a setting that the PF holds for a VF.
func isOfPF(d vf.Difference) bool {
	return !slices.Contains([]string{"driver", "netns", "interface", "guard"}, d.Attribute)
}
