package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Replay settles the work that a culvertd left when it died: it undoes each unfinished attach and
// finishes each release. Attached VFs stay as they are, and get their own rates back if a rate
// was lent. Replay runs before the first attach.
func (e *Engine) Replay(ctx context.Context) error {
	records, err := e.readRecords()
	var g errgroup.Group
	g.SetLimit(8)
	for _, r := range records {
		if r.Phase == vf.PhaseAttached && r.Lease.Lent != nil {
			g.Go(func() error {
				if err := e.GiveBack(ctx, r); err != nil { // Tend goes on
					e.Log.Warn("replay", "vf", r.ID, "err", err)
				}
				return nil
			})
		}
		if !isBegun(r) {
			continue
		}
		g.Go(func() error {
			e.Log.Info("replay", "vf", r.ID, "phase", r.Phase, "owner", r.Lease.Owner)
			return e.detachLease(ctx, r, "Undone", fmt.Errorf("culvertd ended while it was %s", r.Phase))
		})
	}
	return errors.Join(err, g.Wait())
}

// isBegun reports whether work on the VF is under way, or was when culvertd died.
func isBegun(r journal.Record) bool {
	return r.Held() && r.Phase != vf.PhaseAttached && r.Phase != vf.PhaseDamaged
}

// tendPatience is the usual Patience of an Engine.
const tendPatience = 5 * time.Second

// Tend looks after the VFs. It retries quarantined ones that are due, and takes free ones that
// changed outside Culvert back to their baseline unless they are used. It finishes work that stopped
// half-way (the disk was full), mends or reports drift of attached ones, and gives lent rates back.
// It ends leases on VFs that are gone from the bus, and those of guests and pods whose end was not
// reported. seen is the hardware as just listed.
func (e *Engine) Tend(ctx context.Context, seen []vf.PF) error {
	records, err := e.readRecords()
	errs := make(chan error, len(records)) // room for all: Tend may have returned before they are sent
	wait, open := 0, e.openGuests(ctx, records)
	for _, r := range records {
		task := e.nextTask(ctx, r, seen, open)
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
			unlock() // before Tend receives the result: the next pass may follow at once
			if err != nil {
				e.Log.Error("tend", "vf", r.ID, "phase", r.Phase, "owner", r.Lease.Owner, "err", err)
			}
			errs <- err
		}()
	}
	late := time.NewTimer(e.Patience)
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

// nextTask returns the work that a VF needs, nil when there is none. It runs with the VF
// locked. open has the VFs of guests that a process has open; nil when that is unknown.
func (e *Engine) nextTask(ctx context.Context, r journal.Record, seen []vf.PF, open map[vf.PCIAddr]bool) func() error {
	if hasVanished(r, seen) {
		return func() error { return e.endLost(ctx, r) }
	}
	switch r.Phase {
	case vf.PhaseQuarantined:
		if e.isDue(r) {
			return func() error { return e.tendVF(ctx, r, "Recovered", nil) }
		}
	case vf.PhaseFree:
		if _, st, ok := findListed(r, seen); ok {
			if d := r.Baseline.Diff(st); len(d) > 0 {
				return func() error { return e.tendVF(ctx, r, "DriftMended", errors.New(vf.Differences(d))) }
			}
			if e.lastUse(r) != (vf.Use{}) {
				return func() error { e.isLeftToUser(ctx, r); return nil } // which notices its end
			}
		}
	case vf.PhaseAttached:
		if r.Lease.Withdrawn != nil { // culvertd ended before it took the VF
			return func() error { return e.endWithdrawal(ctx, r) }
		}
		if e.loanOver(r) {
			return func() error { return e.endLoan(ctx, r) }
		}
		if r.Lease.Owner.Kind == vf.OwnerGuest && open != nil {
			if r.Lease.Opened != open[r.PCI] {
				return func() error { return e.guestTask(ctx, r, false) }
			}
			e.closed.forgetValue(r.ID)
		}
		if pf, st, ok := findListed(r, seen); ok {
			return e.attachedTask(ctx, r, pf, st)
		}
	case vf.PhaseConfiguring, vf.PhaseReleasing:
		return func() error { return e.finishStuck(ctx, r) }
	}
	return nil
}

// isDue reports whether a quarantined VF is to be tried again. If the retry is further away than
// culvertd ever sets one, the clock was set back.
func (e *Engine) isDue(r journal.Record) bool {
	wait := r.NextRetry.Sub(e.Now())
	return wait <= 0 || wait > lastRetry
}

// findListed finds a VF and its PF in a listing.
func findListed(r journal.Record, seen []vf.PF) (vf.PF, vf.State, bool) {
	for _, pf := range seen {
		if pf.ID == r.ID.PF {
			st, ok := pf.VF(r.ID.Index)
			return pf, st, ok
		}
	}
	return vf.PF{}, vf.State{}, false
}

// hasVanished reports whether a listing lacks a recorded VF. The listing of a PF that could not
// be read whole lacks all its VFs and proves nothing, so endLost looks at the bus.
func hasVanished(r journal.Record, seen []vf.PF) bool {
	_, _, there := findListed(r, seen)
	return !there && !r.PCI.IsZero() // zero: not made yet
}

// endLost ends the lease on a VF that a listing lacked, if the VF is really gone.
func (e *Engine) endLost(ctx context.Context, seen journal.Record) error {
	now, same, err := e.currentRecord(seen)
	if err != nil || !same {
		return err
	}
	if _, err := e.readVF(ctx, now); errors.Is(err, errGone) {
		if err := e.removeEmptyBond(ctx, now); err != nil {
			return err // the next pass tries again
		}
		if left := e.RemoveGuard(ctx, now); left != nil {
			return left // the next pass tries again
		}
		if failed := e.forgetVF(now, err); failed != nil {
			return failed // the next pass tries again
		}
		e.reportLost(now, "it was taken off the PCI bus, as a new start of its PF's driver does")
	}
	return nil
}

// finishStuck releases a VF on which work stopped half-way.
func (e *Engine) finishStuck(ctx context.Context, seen journal.Record) error {
	now, same, err := e.currentRecord(seen)
	if err != nil || !same || now.Phase != seen.Phase {
		return err // it was not stuck
	}
	return e.releaseLocked(ctx, seen, "Undone", fmt.Errorf("it had stopped while %s", seen.Phase))
}

// tendVF resets one VF if it is still in the phase and generation that the caller saw, still
// differs from its baseline, and is not used outside Culvert.
func (e *Engine) tendVF(ctx context.Context, seen journal.Record, reason string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	st, err := e.readVF(ctx, seen)
	if err == nil && seen.Phase == vf.PhaseFree && len(seen.Baseline.Diff(st)) == 0 {
		return nil // the listing showed the VF between two states
	}
	if err != nil && seen.Phase == vf.PhaseFree && !errors.Is(err, errGone) {
		return err // it has no owner, and each attach reads it before
	}
	if err == nil && e.isLeftToUser(ctx, seen) {
		return nil
	}
	rec, mine := seen, false
	err = e.Ledger.Update(func(tx *journal.Tx) error {
		now, err := tx.Record(seen.ID)
		if errors.Is(err, vf.ErrNotFound) || err == nil && (now.Generation != seen.Generation || now.Phase != seen.Phase) {
			return nil // the VF was forgotten, or is in another phase by now
		}
		if err != nil {
			return err
		}
		now.Generation++
		now.Phase = vf.PhaseReleasing
		rec, mine = now, true
		return tx.Put(now)
	})
	if err != nil || !mine {
		return err
	}
	at, err := e.findSite(rec)
	if err != nil {
		at.label = fmt.Sprintf("%s (not to be found)", rec.ID.PF)
	}
	return e.releaseVF(ctx, at, rec, reason, cause)
}

// WithIdle runs f while no request can get the VF, and reports whether f ran. f does not run if
// the VF is held, other work has it locked, or it is used outside the ledger, nor if the engine
// cannot find that out.
func (e *Engine) WithIdle(ctx context.Context, id vf.ID, f func(journal.Record) error) (ran bool, err error) {
	unlock, busy := e.vfs.TryLock(id, "culvertd's work on a VF that is free")
	if busy != nil {
		return false, nil
	}
	defer unlock()
	rec, err := e.readRecord(id)
	if errors.Is(err, vf.ErrNotFound) || err == nil && rec.Phase != vf.PhaseFree {
		return false, nil // the VF was forgotten, or is in another phase by now
	}
	if err != nil {
		return false, err
	}
	if e.isLeftToUser(ctx, rec) {
		return false, nil
	}
	return true, f(rec)
}

// currentRecord returns the record of a VF as it is now; same is false when the VF was
// forgotten since it was seen, or is in another lease.
func (e *Engine) currentRecord(seen journal.Record) (now journal.Record, same bool, err error) {
	now, err = e.readRecord(seen.ID)
	if errors.Is(err, vf.ErrNotFound) {
		return now, false, nil
	}
	return now, err == nil && now.Generation == seen.Generation, err
}

func (e *Engine) readRecords() ([]journal.Record, error) { return journal.ReadRecords(e.Ledger) }
