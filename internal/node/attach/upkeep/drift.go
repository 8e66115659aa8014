package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// isNews reports whether the text about drift of a lease differs from the last one, and remembers
// it. So a drift causes one event and not one in each pass. An empty text forgets the last one.
func (k *Keeper) isNews(r journal.Record, text string) bool {
	if k.drifts.Load(r) == text {
		return false
	}
	k.drifts.Store(r, text)
	return text != ""
}

// driftTask mends or reports the drift of an attached VF; nil when there is none.
func (k *Keeper) driftTask(ctx context.Context, r journal.Record, st vf.State) func() error {
	if len(lease.HostDiff(r, st)) == 0 {
		if r.Lease.Wanted.Guard != "" {
			if !k.needsGuardLook(r) {
				return nil
			}
			return func() error { return k.tendGuard(ctx, r) }
		}
		k.isNews(r, "")
		return nil
	}
	return func() error { return k.handleDrift(ctx, r) }
}

// handleDrift runs with the VF locked.
func (k *Keeper) handleDrift(ctx context.Context, seen journal.Record) error {
	ctx, cancel := context.WithTimeout(ctx, hold.UndoBound)
	defer cancel()
	rec, same, err := k.vfs.CurrentRecord(seen)
	if err != nil || !same || rec.Phase != vf.PhaseAttached {
		return err // nil when the owner gave the VF back meanwhile
	}
	at, err := k.vfs.FindSite(rec)
	if err != nil {
		return err
	}
	before, unread, err := k.readDrift(ctx, rec)
	if err != nil || len(before) == 0 {
		return cmp.Or(err, unread) // nil when the listing showed a VF between two states
	}
	if k.shouldMend(rec, before) {
		err = k.mendDrift(ctx, at, rec)
	}
	left, _, lookErr := k.readDrift(ctx, rec)
	if lookErr == nil {
		lookErr = k.reportDrift(at, rec, before, left)
	}
	if err := errors.Join(err, lookErr); err != nil {
		return fmt.Errorf("VF %s of PF %s: mend what drifted (%s): %w", rec.PCI, at.Label, vf.Differences(before), err)
	}
	return nil
}

// reportDrift emits the events of the drift of a VF: one about the differences that were mended,
// and one about those that are left if they are news.
func (k *Keeper) reportDrift(at lease.Site, rec journal.Record, before, left []vf.Difference) error {
	var events []journal.Event
	if done := without(before, left); len(done) > 0 {
		if slices.ContainsFunc(done, isOfPF) {
			k.links.noteReset(rec)
		}
		events = append(events, driftEvent(at, rec, reasons.DriftMended, done))
	}
	if len(left) > 0 {
		if k.isNews(rec, vf.Differences(left)) {
			k.reports.reportUnmended(rec, left)
			events = append(events, driftEvent(at, rec, reasons.Drifted, left))
		}
	} else {
		k.isNews(rec, "")
	}
	if len(events) == 0 {
		return nil
	}
	return k.vfs.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, ev := range events {
			errs = append(errs, tx.Event(ev))
		}
		return errors.Join(errs...)
	})
}

// readDrift returns the differences of an attached VF from its lease. unread is the reason why those
// of the guard are missing: the owner decides whether its netns can be read.
func (k *Keeper) readDrift(ctx context.Context, rec journal.Record) (all []vf.Difference, unread, err error) {
	st, err := k.vfs.ReadFromHost(ctx, rec)
	if err != nil {
		return nil, nil, err
	}
	guard, unread := k.guardDrift(ctx, rec)
	return append(lease.HostDiff(rec, st), guard...), unread, nil
}

// shouldMend reports whether culvertd mends the drift of a VF, as its pool wants. It mends no VF
// whose netdevice is back on the host: the owner has lost that VF, and its release resets it.
func (k *Keeper) shouldMend(rec journal.Record, d []vf.Difference) bool {
	if slices.ContainsFunc(d, func(o vf.Difference) bool { return o.Attribute == "netns" }) {
		return false
	}
	return mendsDrift(k.vfs, rec)
}

// mendDrift restores the guard of an attached VF and the PF's settings for it. A MAC that the PF
// has forgotten is set again if the interface still has it. Another MAC needs the VF's driver bound
// anew, which takes the interface away from the owner.
//
// If the owner's netns cannot be read, mendDrift restores the PF's other settings all the same: they
// keep the owner in its VLAN.
func (k *Keeper) mendDrift(ctx context.Context, at lease.Site, rec journal.Record) error {
	st, unread := k.readForMending(ctx, rec)
	if unread != nil {
		var err error
		if st, err = k.vfs.ReadFromHost(ctx, rec); err != nil {
			return errors.Join(unread, err)
		}
	}
	want := lease.EffectiveSpec(rec.Lease.Wanted, rec).Over(st.Settle(rec.Baseline.Admin))
	steps := lease.AdminSteps(at.Place, st.Admin, want)
	if st.Admin.MAC != want.MAC && keepsMAC(rec, st) {
		steps = append(steps, step.SetVFMAC{PF: at.PF, Index: at.Index, MAC: want.MAC})
	}
	if st.Link != nil && len(rec.Lease.Wanted.GuardDiff(rec.Baseline, *st.Link)) > 0 {
		steps = append(lease.GuardSteps(at.Place, rec), steps...)
	}
	return errors.Join(unread, k.vfs.MendSteps(ctx, rec, steps))
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

func driftEvent(at lease.Site, rec journal.Record, reason string, d []vf.Difference) journal.Event {
	text := fmt.Sprintf("vf %d of %s, which %s has: %s", rec.ID.Index, at.Label, rec.Lease.Owner, vf.Differences(d))
	if reason == reasons.Drifted {
		text += ": start the owner anew, or mend it by hand"
	}
	return rec.MakeEvent(journal.Warning, reason, text)
}

// isOfPF reports whether a difference is in a setting that the PF holds for a VF.
func isOfPF(d vf.Difference) bool {
	return !slices.Contains([]string{"driver", "netns", "interface", "guard"}, d.Attribute)
}
