package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// openGuests returns the VFs of guests that a process has open. If it cannot find that out it
// returns nil, and Tend ends no guest's lease.
func (k *Keeper) openGuests(ctx context.Context, records []journal.Record) map[vf.PCIAddr]bool {
	var guests []vf.PCIAddr
	for _, r := range records {
		if r.Phase == vf.PhaseAttached && r.Lease.Owner.Kind == vf.OwnerGuest {
			guests = append(guests, r.PCI)
		}
	}
	if len(guests) == 0 {
		return nil
	}
	users, err := k.vfs.Kernel.Users(ctx, guests...)
	if err != nil {
		k.vfs.Log.Warn("who runs is not known", "err", err)
		return nil
	}
	out := map[vf.PCIAddr]bool{}
	for pci := range users {
		out[pci] = true
	}
	return out
}

// libvirtBound is how long libvirt may need, after QEMU has ended, to write the settings back that
// the VF had before the guest's start. If culvertd reset the VF and gave it away earlier, its new
// owner would get the settings of the old lease.
const libvirtBound = 5 * time.Second

// guestTask remembers that a guest runs with its VF, or ends the lease of a guest that has
// stopped running without a report of its end, since culvertd was away or the hooks are
// missing. ended says that libvirt has let go of the VF; otherwise guestTask waits libvirtBound
// for that. It runs with the VF locked.
func (k *Keeper) guestTask(ctx context.Context, seen journal.Record, ended bool) error {
	rec, same, err := k.vfs.CurrentRecord(seen)
	if err != nil || !same || rec.Phase != vf.PhaseAttached {
		return err // nil when the guest gave the VF back meanwhile
	}
	users, err := k.vfs.Kernel.Users(ctx, rec.PCI)
	open := len(users) > 0
	switch {
	case err != nil:
		return err
	case rec.Lease.Opened == open:
		k.closed.Forget(rec.ID)
		return nil
	case open:
		rec.Lease.Opened = true
		return k.vfs.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) })
	case !ended && !k.hasClosed(rec):
		return nil
	}
	return k.resets.ReleaseLocked(ctx, rec, reasons.GuestEnded, errors.New("the guest ran with it and does not any more, and libvirt did not say so"))
}

// hasClosed reports whether the VF of a guest that ran has been closed for libvirtBound. The first
// call for a lease begins the wait, which begins anew when culvertd restarts.
func (k *Keeper) hasClosed(r journal.Record) bool {
	since, now := k.closed.Load(r), k.vfs.Now()
	if since.IsZero() || since.After(now) {
		k.closed.Store(r, now)
		return false
	}
	return now.Sub(since) >= libvirtBound
}

// Adopt records the VF of a guest whose start hook was missed, as attach.Engine.Adopt does, and mends
// the PF's settings for the VF like any drift. Tend repeats a setting that fails.
func (k *Keeper) Adopt(ctx context.Context, req attach.Request) error {
	rec, err := k.engine.Adopt(ctx, req)
	if err != nil || rec.Phase != vf.PhaseAttached {
		return err
	}
	unlock, err := k.vfs.Locks.Lock(ctx, rec.ID, "the adoption by "+req.Owner.String())
	if err != nil {
		return nil // Tend mends it
	}
	defer unlock()
	if err := k.handleDrift(ctx, rec); err != nil {
		k.vfs.Log.Error("adopt", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	}
	return nil
}

// Settle compares the lease of a guest with the processes that have its VF open, at once and in
// the way of Tend. It records in the lease that the guest runs with the VF, and ends the lease of
// a guest that ran and has stopped: at once if libvirt has let go of the VF (ended), and otherwise
// when the VF has been closed for a while, since libvirt still writes to it.
func (k *Keeper) Settle(ctx context.Context, seen journal.Record, ended bool) error {
	unlock, err := k.vfs.Locks.Lock(ctx, seen.ID, "the check of "+seen.Lease.Owner.String())
	if err != nil {
		return fmt.Errorf("check VF %s of %s: %w", seen.PCI, seen.Lease.Owner, err)
	}
	defer unlock()
	return k.guestTask(ctx, seen, ended)
}
