package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A reset waits openBound for the processes that have the VF open, and looks every openLook. A
// QEMU that was killed frees its memory before it closes its files, which takes time.
const (
	openBound = 3 * time.Second
	openLook  = 100 * time.Millisecond
)

// InUse returns an error that names the process which has the VF of a record open through vfio
// (vf.ErrHeld), nil when there is none.
func (e *Engine) InUse(ctx context.Context, rec journal.Record) error {
	all, err := e.Kernel.Users(ctx, rec.PCI)
	users := all[rec.PCI]
	if len(users) == 0 {
		return err
	}
	text := users[0].String()
	if more := len(users) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("VF %s: %w open by %s", rec.PCI, vf.ErrHeld, text)
}

// resetQuiet makes sure that a VF which is bound to vfio-pci does nothing any more. It waits
// until no process has the VF open, and resets the function within the bound of a step. vfio
// resets it too when the VF is closed, and does not report whether that worked. A VF whose reset
// fails or hangs gets no owner (P12).
func (e *Engine) resetQuiet(ctx context.Context, rec journal.Record) error {
	if err := e.letGo(ctx, rec); err != nil {
		return err
	}
	if err := e.doStep(ctx, step.Reset{VF: rec.PCI}); err != nil && !errors.Is(err, vf.ErrUnable) && !errors.Is(err, vf.ErrNotFound) {
		return err
	}
	return nil
}

// letGo waits until no process has a VF open. A reset before that would break a running guest, or
// would hang until the guest ends.
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

// openGuests returns the VFs of guests that a process has open. If it cannot find that out it
// returns nil, and Tend ends no guest's lease.
func (e *Engine) openGuests(ctx context.Context, records []journal.Record) map[vf.PCIAddr]bool {
	var guests []vf.PCIAddr
	for _, r := range records {
		if r.Phase == vf.PhaseAttached && r.Lease.Owner.Kind == vf.OwnerGuest {
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

// libvirtBound is how long libvirt may need, after QEMU has ended, to write the settings back that
// the VF had before the guest's start. If culvertd reset the VF and gave it away earlier, its new
// owner would get the settings of the old lease.
const libvirtBound = 5 * time.Second

// guestTask remembers that a guest runs with its VF, or ends the lease of a guest that has
// stopped running without a report of its end, since culvertd was away or the hooks are
// missing. ended says that libvirt has let go of the VF; otherwise guestTask waits libvirtBound
// for that. It runs with the VF locked.
func (e *Engine) guestTask(ctx context.Context, seen journal.Record, ended bool) error {
	rec, same, err := e.currentRecord(seen)
	if err != nil || !same || rec.Phase != vf.PhaseAttached {
		return err // nil when the guest gave the VF back meanwhile
	}
	users, err := e.Kernel.Users(ctx, rec.PCI)
	open := len(users) > 0
	switch {
	case err != nil:
		return err
	case rec.Lease.Opened == open:
		e.closed.forgetValue(rec.ID)
		return nil
	case open:
		rec.Lease.Opened = true
		return e.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) })
	case !ended && !e.hasClosed(rec):
		return nil
	}
	return e.releaseLocked(ctx, rec, "GuestEnded", errors.New("the guest ran with it and does not any more, and libvirt did not say so"))
}

// hasClosed reports whether the VF of a guest that ran has been closed for libvirtBound. The first
// call for a lease begins the wait, which begins anew when culvertd restarts.
func (e *Engine) hasClosed(r journal.Record) bool {
	since, now := e.closed.loadValue(r), e.Now()
	if since.IsZero() || since.After(now) {
		e.closed.storeValue(r, now)
		return false
	}
	return now.Sub(since) >= libvirtBound
}

// Room describes, for messages, how full the pool of a VF is and who has its VFs. It returns ""
// if that is not known.
func (e *Engine) Room(ctx context.Context, pci vf.PCIAddr) string {
	records, err := e.readRecords()
	if err != nil {
		return ""
	}
	var given func(vf.PCIAddr) string
	if e.Given != nil {
		ctx, cancel := context.WithTimeout(ctx, givenBound)
		defer cancel()
		if given, err = e.Given(ctx); err != nil {
			given = nil // the ledger's part of the report is complete without it
		}
	}
	return alloc.Host{PFs: e.Hardware.PFs(), Records: records, Spec: e.Spec()}.Room(pci, given)
}
