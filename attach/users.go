package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/alloc"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
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

// quiet makes sure that a VF which is bound to vfio-pci does nothing any more:
// nobody has it open, and the function has been reset, within the bound of a step.
// vfio does that too when the VF is closed, and tells nobody whether it worked. One
// whose reset fails or hangs is nobody's (P12).
func (e *Engine) quiet(ctx context.Context, rec journal.Record) error {
	if err := e.letGo(ctx, rec); err != nil {
		return err
	}
	if err := e.do(ctx, step.Reset{VF: rec.PCI}); err != nil && !errors.Is(err, vf.ErrUnable) && !errors.Is(err, vf.ErrNotFound) {
		return err
	}
	return nil
}

// letGo waits until nobody has a VF open. To reset it before would take it out of a
// guest that runs, or hang until that ends.
func (e *Engine) letGo(ctx context.Context, rec journal.Record) error {
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
		if r.Phase == journal.Attached && r.Lease.Owner.Kind == vf.OwnerGuest {
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
	rec, same, err := e.current(seen)
	if err != nil || !same || rec.Phase != journal.Attached {
		return err // nil when it was given back since
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

// givenBound is how long a refusal waits for the kubelet's part of its words.
const givenBound = 2 * time.Second

// Room says how full the pool of a VF is and who has its VFs; empty when that is not
// known. It is for messages.
func (e *Engine) Room(ctx context.Context, pci vf.PCIAddr) string {
	records, err := e.records()
	if err != nil {
		return ""
	}
	var given func(vf.PCIAddr) string
	if e.Given != nil {
		ctx, cancel := context.WithTimeout(ctx, givenBound)
		defer cancel()
		if given, err = e.Given(ctx); err != nil {
			given = nil // the ledger's part is told all the same
		}
	}
	return alloc.Host{PFs: e.Hardware.PFs(), Records: records, Spec: e.Spec()}.Room(pci, given)
}
