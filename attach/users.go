package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// A reset waits so long for who has the VF open, and looks so often: a QEMU that was
// killed gives its memory back before its files.
const (
	openBound = 3 * time.Second
	openLook  = 100 * time.Millisecond
)

// InUse is an error that names who has the VF of a record open through vfio
// (vf.ErrHeld), nil when nobody has.
func (e *Engine) InUse(ctx context.Context, rec journal.Record) error {
	all, err := e.Kernel.Users(ctx, rec.PCI)
	users := all[rec.PCI]
	if err != nil || len(users) == 0 {
		return err
	}
	text := users[0].String()
	if more := len(users) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("VF %s: %w open by %s", rec.PCI, vf.ErrHeld, text)
}

// letGo waits until nobody has a VF open that is bound to vfio-pci. To reset it
// before would take it out of a guest that runs, or hang until that ends.
func (e *Engine) letGo(ctx context.Context, rec journal.Record, st vf.State) error {
	if st.Driver != vf.DriverVFIO {
		return nil
	}
	late := time.NewTimer(openBound)
	defer late.Stop()
	for {
		err := e.InUse(ctx, rec)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(openLook):
		case <-late.C:
			return fmt.Errorf("%w: it is reset when that lets go", err)
		case <-ctx.Done():
			return err
		}
	}
}

// openGuests are the VFs of guests that somebody has open; nil when that cannot be
// read, since nobody's is then not known to have ended.
func (e *Engine) openGuests(ctx context.Context, records []journal.Record) map[vf.PCIAddr]bool {
	var guests []vf.PCIAddr
	for _, r := range records {
		if r.Phase == journal.Attached && r.Lease.Owner.Kind == vf.OwnerVM {
			guests = append(guests, r.PCI)
		}
	}
	if len(guests) == 0 {
		return nil
	}
	users, err := e.Kernel.Users(ctx, guests...)
	if err != nil {
		e.Log.Warn("who runs is not known", "err", err)
		return nil
	}
	out := map[vf.PCIAddr]bool{}
	for pci := range users {
		out[pci] = true
	}
	return out
}

// guestTask remembers that a guest runs with its VF, or ends the lease of one that did
// and does not any more: its end was not told, since culvertd was away or the hooks
// are missing. It runs with the VF locked.
func (e *Engine) guestTask(ctx context.Context, seen journal.Record) error {
	rec, err := e.record(seen.ID)
	if err != nil || rec.Generation != seen.Generation || rec.Phase != journal.Attached {
		return nil //nolint:nilerr // given back since
	}
	users, err := e.Kernel.Users(ctx, rec.PCI)
	open := len(users) > 0
	switch {
	case err != nil || rec.Lease.Opened == open:
		return err
	case open:
		rec.Lease.Opened = true
		return e.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) })
	}
	return e.finish(ctx, rec, "GuestEnded", errors.New("the guest ran with it and does not any more, and libvirt did not say so"))
}
