package reset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// TakeVFs calls take, which ends the leases of all VFs of a PF in the ledger, since the VFs are about
// to be destroyed. Until take returns, all VFs of the PF are locked. So no attach or release is under
// way that would write its record afterwards.
//
// TakeVFs removes the guards first: afterwards no record says where they are. It brings each
// interface down before, so that the owner does not send without the guard. If take fails, the VFs
// stay, and TakeVFs undoes this, for every drift policy of their pools.
func (b *Resetter) TakeVFs(ctx context.Context, pf vf.PFID, take func() error) error {
	unlock, err := b.lockVFs(ctx, pf)
	defer unlock()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.UndoBound) // once begun, it is finished
	defer cancel()
	records, err := b.recordsOf(pf)
	if err != nil {
		return err
	}
	withdrawn, err := b.withdrawGuards(ctx, records)
	if err == nil {
		err = take()
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), hold.UndoBound)
	defer cancel()
	if err == nil {
		b.removeEmptyBonds(ctx, records)
		return nil
	}
	errs := []error{err}
	for _, rec := range withdrawn {
		errs = append(errs, b.EndWithdrawal(ctx, rec))
	}
	return errors.Join(errs...)
}

// removeEmptyBonds removes the bonds that have lost their last member. The leases have ended, so a bond
// that cannot be removed stays in its pod, where it sends nothing.
func (b *Resetter) removeEmptyBonds(ctx context.Context, taken []journal.Record) {
	for _, rec := range taken {
		if err := b.RemoveEmptyBond(ctx, rec); err != nil {
			b.vfs.Log.Warn("remove a bond whose VFs are made anew", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
		}
	}
}

// lockPatience is how long lockVFs keeps the locks that it has while it waits for another VF.
const lockPatience = time.Second

// lockVFs locks all VFs of a PF that have a record. If the work on one of them lasts, it gives the
// locks of the others back until that work has ended, so that attaches and releases go on meanwhile.
// unlock is to be called after an error, too.
func (b *Resetter) lockVFs(ctx context.Context, pf vf.PFID) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, hold.UndoBound)
	defer cancel()
	for {
		records, err := b.recordsOf(pf)
		if err != nil {
			return func() {}, err
		}
		unlock, busy, err := b.tryLockVFs(ctx, records)
		if err == nil {
			return unlock, nil
		}
		unlock()
		if err := waitFor(ctx, b.vfs.Locks.Holder(busy.ID)); err != nil {
			return func() {}, fmt.Errorf("VF %s: %w: nothing was changed, repeat it", busy.PCI, err)
		}
	}
}

// waitFor waits for the end of work; nil has ended.
func waitFor(ctx context.Context, work *keylock.Work) error {
	if work == nil {
		return context.Cause(ctx)
	}
	select {
	case <-work.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", work, context.Cause(ctx))
	}
}

// tryLockVFs locks VFs one after the other. An error is about busy, on which other work goes on for
// longer than lockPatience.
func (b *Resetter) tryLockVFs(ctx context.Context, records []journal.Record) (unlock func(), busy journal.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	var locked []func()
	unlock = func() {
		for _, one := range locked {
			one()
		}
	}
	for _, r := range records {
		one, err := b.vfs.Locks.Lock(ctx, r.ID, "a change of the number of VFs")
		if err != nil {
			return unlock, r, err
		}
		locked = append(locked, one)
	}
	return unlock, busy, nil
}

// recordsOf returns the records of the VFs of a PF.
func (b *Resetter) recordsOf(pf vf.PFID) ([]journal.Record, error) {
	records, err := b.vfs.ReadRecords()
	return slices.DeleteFunc(records, func(r journal.Record) bool { return r.ID.PF != pf }), err
}

// withdrawGuards removes the guards of VFs. withdrawn are those whose guard EndWithdrawal is to set
// again if the VFs stay, also after an error. The ledger names them before the kernel is touched.
func (b *Resetter) withdrawGuards(ctx context.Context, records []journal.Record) (withdrawn []journal.Record, err error) {
	var away, with []journal.Record // from their owners
	for _, rec := range records {
		if rec.Lease.Wanted.Guard == "" || rec.Lease.Netns == "" {
			continue
		}
		st, err := b.vfs.ReadVF(ctx, rec)
		switch {
		case errors.Is(err, hold.ErrGone) || err == nil && (st.Link == nil || st.Link.Netns != rec.Lease.Netns):
			away = append(away, rec)
		case err != nil:
			return nil, err
		case rec.Lease.Withdrawn == nil: // else an earlier one did not end
			rec.Lease.Withdrawn = &journal.Withdrawn{WasUp: st.Link.Up}
			fallthrough
		default:
			with = append(with, rec)
		}
	}
	if len(with) > 0 {
		if err := b.putWithdrawn(with...); err != nil {
			return nil, err
		}
	}
	for _, rec := range with {
		err := b.vfs.DoStep(ctx, step.SetUp{VF: rec.PCI, Netns: rec.Lease.Netns, Up: false})
		if err == nil {
			err = b.RemoveGuard(ctx, rec)
		}
		if err != nil {
			return with, err
		}
	}
	for _, rec := range away {
		err = errors.Join(err, b.RemoveGuard(ctx, rec))
	}
	return with, err
}

// putWithdrawn writes whether the guards of VFs are withdrawn. Another member of the bond may have
// handed its addresses to one of them meanwhile, so it changes nothing else.
func (b *Resetter) putWithdrawn(records ...journal.Record) error {
	return b.vfs.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, rec := range records {
			now, err := tx.Record(rec.ID)
			if err == nil {
				now.Lease.Withdrawn = rec.Lease.Withdrawn
				err = tx.Put(now)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// EndWithdrawal sets the guard of a lease again, and then brings the interface up if it was up
// before. It adds the addresses and routes that went while the interface was down. Tend calls it if
// culvertd ended before it took the VF. The caller holds the lock of the VF.
func (b *Resetter) EndWithdrawal(ctx context.Context, seen journal.Record) error {
	ctx, cancel := context.WithTimeout(ctx, hold.UndoBound)
	defer cancel()
	rec, same, err := b.vfs.CurrentRecord(seen)
	if err != nil || !same || rec.Lease.Withdrawn == nil {
		return err // nil when the owner gave the VF back meanwhile
	}
	err = b.restoreGuard(ctx, rec, rec.Lease.Withdrawn.WasUp)
	if err != nil && !b.isHome(ctx, rec, err) { // else no guard is needed, and upkeep ends the lease if its DEL is lost
		return fmt.Errorf("set the guard of VF %s of %s again: %w", rec.PCI, rec.Lease.Owner, err)
	}
	rec.Lease.Withdrawn = nil
	return b.putWithdrawn(rec)
}

// isHome reports whether a step in the owner's netns failed because the netns is gone, or because the
// interface is not there any more.
func (b *Resetter) isHome(ctx context.Context, rec journal.Record, failed error) bool {
	if errors.Is(failed, vf.ErrNetnsGone) {
		return true
	}
	st, err := b.vfs.ReadVF(ctx, rec)
	return err == nil && st.Link != nil && st.Link.Netns != rec.Lease.Netns
}

// restoreGuard sets the guard of a lease, and the interface up if it was up before.
func (b *Resetter) restoreGuard(ctx context.Context, rec journal.Record, up bool) error {
	at, err := b.vfs.FindSite(rec)
	if err != nil {
		return err
	}
	steps := lease.GuardSteps(at.Place, rec)
	if up {
		steps = append(steps, step.SetUp{VF: rec.PCI, Netns: rec.Lease.Netns, Up: true})
	}
	for _, s := range steps {
		if err := b.vfs.DoStep(ctx, s); err != nil {
			return err
		}
	}
	st, err := b.vfs.ReadVF(ctx, rec)
	if err != nil || !up || st.Link == nil {
		return err
	}
	// The guard is set. If the owner prevents culvertd from adding addresses or routes, the record
	// must not stay withdrawn.
	missing := lease.MissingSteps(at.Place, rec, *st.Link, []vf.Difference{{Attribute: "up"}}, nil)
	if err := b.vfs.MendSteps(ctx, rec, missing); err != nil {
		b.vfs.Log.Warn("add the addresses and routes of an interface again", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	}
	return nil
}
