package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// Replay finishes what a culvertd that died left behind: an attach that did
// not get to its end is undone, a release is finished. Attached VFs stay as
// they are, with their own rates. It runs before anything is attached.
func (e *Engine) Replay(ctx context.Context) error {
	records, err := e.records()
	var g errgroup.Group
	g.SetLimit(8)
	for _, r := range records {
		if r.Phase == journal.Attached && r.Lease.Lent != nil {
			g.Go(func() error {
				if err := e.GiveBack(ctx, r); err != nil { // Tend goes on
					e.Log.Warn("replay", "vf", r.ID, "err", err)
				}
				return nil
			})
		}
		if !begun(r) {
			continue
		}
		g.Go(func() error {
			e.Log.Info("replay", "vf", r.ID, "phase", r.Phase, "owner", r.Lease.Owner)
			return e.detach(ctx, r, "Undone", fmt.Errorf("culvertd ended while it was %s", r.Phase))
		})
	}
	return errors.Join(err, g.Wait())
}

// begun reports whether somebody works on the VF, or did when he died.
func begun(r journal.Record) bool {
	return r.Held() && r.Phase != journal.Attached && r.Phase != journal.Damaged
}

// patience is how long Tend waits for VFs that are being mended. One that takes
// longer is mended behind its back and does not delay the others (I7).
const patience = 5 * time.Second

// Tend looks after the VFs: those in quarantine whose retry is due are reset
// again, free ones that somebody changed behind our back are taken back to
// their baseline, work that stopped half-way (the disk was full) is finished,
// what drifted of attached ones is mended or told, rates that were lent are given back, and leases on VFs that are
// gone from the bus end, as those of guests and pods that have ended without anybody's telling. seen is the hardware as just listed.
func (e *Engine) Tend(ctx context.Context, seen []vf.PF) error {
	records, err := e.records()
	errs := make(chan error, len(records)) // room for all: nobody may be left to read them
	wait, open := 0, e.openGuests(ctx, records)
	for _, r := range records {
		task := e.task(ctx, r, seen, open)
		if task == nil {
			continue
		}
		unlock, busy := e.vfs.TryLock(r.ID, "culvertd's upkeep of a VF that is "+string(r.Phase))
		if busy != nil {
			continue // the next pass looks again
		}
		wait++
		e.background.Add(1)
		go func() {
			defer e.background.Done()
			err := task()
			unlock() // before Tend hears of it: the next pass may follow at once
			if err != nil {
				e.Log.Error("tend", "vf", r.ID, "phase", r.Phase, "owner", r.Lease.Owner, "err", err)
			}
			errs <- err
		}()
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for range wait {
		select {
		case one := <-errs:
			err = errors.Join(err, one)
		case <-late.C:
			return err
		}
	}
	return err
}

// task is what a VF needs, nil when nothing. It runs with the VF locked. open are the
// VFs of guests that somebody has open; nil when nobody knows.
func (e *Engine) task(ctx context.Context, r journal.Record, seen []vf.PF, open map[vf.PCIAddr]bool) func() error {
	if vanished(r, seen) {
		return func() error { return e.bury(ctx, r) }
	}
	switch r.Phase {
	case journal.Quarantined:
		if e.due(r) {
			return func() error { return e.tend(ctx, r, "Recovered", nil) }
		}
	case journal.Free:
		if st, ok := listed(r, seen); ok {
			if d := r.Baseline.Diff(st); len(d) > 0 {
				return func() error { return e.tend(ctx, r, "DriftMended", errors.New(vf.Differences(d))) }
			}
		}
	case journal.Attached:
		if e.loanOver(r) {
			return func() error { return e.endLoan(ctx, r) }
		}
		if r.Lease.Owner.Kind == vf.OwnerGuest && open != nil && r.Lease.Opened != open[r.PCI] {
			return func() error { return e.guestTask(ctx, r) }
		}
		if st, ok := listed(r, seen); ok {
			return e.attachedTask(ctx, r, st)
		}
	case journal.Configuring, journal.Releasing:
		return func() error { return e.unstick(ctx, r) }
	}
	return nil
}

// due reports whether a quarantined VF is to be tried again. A retry that is
// further away than any was ever set means that the clock was set back.
func (e *Engine) due(r journal.Record) bool {
	wait := r.NextRetry.Sub(e.Now())
	return wait <= 0 || wait > lastRetry
}

// listed finds a VF in a listing.
func listed(r journal.Record, seen []vf.PF) (vf.State, bool) {
	for _, pf := range seen {
		if pf.ID == r.ID.PF {
			return pf.VF(r.ID.Index)
		}
	}
	return vf.State{}, false
}

// vanished reports whether a listing lacks a VF that it would have. A PF that
// could not be read whole lacks all of its own, so it proves nothing: bury
// looks at the bus.
func vanished(r journal.Record, seen []vf.PF) bool {
	_, there := listed(r, seen)
	return !there && !r.PCI.IsZero() // zero: not made yet
}

// bury ends the lease on a VF that a listing lacked, if the VF is really gone.
func (e *Engine) bury(ctx context.Context, seen journal.Record) error {
	now, same, err := e.current(seen)
	if err != nil || !same {
		return err
	}
	if _, err := e.look(ctx, now); errors.Is(err, errGone) {
		return e.forget(now, err)
	}
	return nil
}

// unstick finishes work that nobody does any more.
func (e *Engine) unstick(ctx context.Context, seen journal.Record) error {
	now, same, err := e.current(seen)
	if err != nil || !same || now.Phase != seen.Phase {
		return err // it was not stuck
	}
	return e.finish(ctx, seen, "Undone", fmt.Errorf("it had stopped while %s", seen.Phase))
}

// tend resets one VF, if it is still in the phase and generation that the
// caller saw, and still differs.
func (e *Engine) tend(ctx context.Context, seen journal.Record, reason string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	st, err := e.look(ctx, seen)
	if err == nil && seen.Phase == journal.Free && len(seen.Baseline.Diff(st)) == 0 {
		return nil // in between two states when it was listed
	}
	rec, mine := seen, false
	err = e.Ledger.Update(func(tx *journal.Tx) error {
		now, err := tx.Record(seen.ID)
		if errors.Is(err, vf.ErrNotFound) || err == nil && (now.Generation != seen.Generation || now.Phase != seen.Phase) {
			return nil // forgotten or taken since: not ours to touch
		}
		if err != nil {
			return err
		}
		now.Generation++
		now.Phase = journal.Releasing
		rec, mine = now, true
		return tx.Put(now)
	})
	if err != nil || !mine {
		return err
	}
	at, err := e.site(rec)
	if err != nil {
		at.label = fmt.Sprintf("%s (not to be found)", rec.ID.PF)
	}
	return e.release(ctx, at, rec, reason, cause)
}

// WithIdle runs f while no request can get the VF, and reports whether it ran: not when
// the VF is held, is being worked on, or is used outside the ledger, and not while the
// engine cannot know that.
func (e *Engine) WithIdle(ctx context.Context, id vf.ID, f func(journal.Record) error) (ran bool, err error) {
	unlock, busy := e.vfs.TryLock(id, "culvertd's work on a VF that is free")
	if busy != nil {
		return false, nil
	}
	defer unlock()
	rec, err := e.record(id)
	if errors.Is(err, vf.ErrNotFound) || err == nil && rec.Phase != journal.Free {
		return false, nil // not ours to touch
	}
	if err != nil {
		return false, err
	}
	outside, err := e.Outside(ctx, rec.PCI)
	if err != nil || len(outside) > 0 {
		e.Log.Debug("leave a free VF alone", "vf", id, "user", outside[rec.PCI], "err", err)
		return false, nil
	}
	return true, f(rec)
}

// Outside returns the uses of VFs for which there is no lease: a pod without a network for
// the VF that the kubelet gave it, or a process that has the VF open, such as a guest's
// QEMU whose start hook was missed. It leaves out VFs that are not used. An error says
// that the engine cannot know.
func (e *Engine) Outside(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	ctx, cancel := context.WithTimeout(ctx, givenBound)
	defer cancel()
	out := map[vf.PCIAddr]vf.Use{}
	open, err := e.Kernel.Users(ctx, vfs...)
	if err != nil {
		return nil, err
	}
	for pci, users := range open {
		if len(users) > 0 {
			out[pci] = vf.Use{By: users[0]}
		}
	}
	if e.Given == nil {
		return out, nil
	}
	given, err := e.Given(ctx)
	if err != nil || given == nil {
		return out, err
	}
	for _, pci := range vfs {
		if pod := given(pci); pod != "" {
			out[pci] = vf.Use{Pod: pod}
		}
	}
	return out, nil
}

// current returns the record of a VF as it is now; same is false when the VF was
// forgotten since it was seen, or is in another lease.
func (e *Engine) current(seen journal.Record) (now journal.Record, same bool, err error) {
	now, err = e.record(seen.ID)
	if errors.Is(err, vf.ErrNotFound) {
		return now, false, nil
	}
	return now, err == nil && now.Generation == seen.Generation, err
}

func (e *Engine) records() ([]journal.Record, error) { return journal.ReadRecords(e.Ledger) }
