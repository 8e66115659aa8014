package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// rounds is how often resetVF compares, mends and reads back: once for the differences at first,
// once with the driver bound anew, and once for differences that appear only after that bind (a
// name, an MTU).
const rounds = 3

// Detach takes the VF of an attachment back. It needs only the ledger (I8). It returns nil if the
// attachment has no VF (any more), so callers may repeat it. The detach of a VF that cannot be
// reset succeeds too: the VF is quarantined, and the ledger, the events and the status report
// that.
func (e *Engine) Detach(ctx context.Context, owner vf.Owner) error {
	rec, ok, err := e.findHeld(owner)
	if err != nil || !ok {
		return err
	}
	if rec.Lease.Bond != nil {
		return e.detachBond(ctx, rec)
	}
	return e.detachLease(ctx, rec, "Detached", nil)
}

// End takes back the VF of the lease that rec describes, and of no later lease of the same
// attachment (I8). In all else it is like Detach.
func (e *Engine) End(ctx context.Context, rec journal.Record) error {
	return e.detachLease(ctx, rec, "Detached", nil)
}

// detachLease releases the lease that rec describes, and no later one. If ctx ends while other
// work has the VF locked, the lease stays as it was.
func (e *Engine) detachLease(ctx context.Context, rec journal.Record, reason string, cause error) (err error) {
	defer e.observeDuration(OperationDetach, e.Now(), &err)
	unlock, err := e.vfs.Lock(ctx, rec.ID, "the detach from "+rec.Lease.Owner.String())
	if err != nil {
		return fmt.Errorf("detach VF %s from %s: %w: nothing was changed, repeat it", rec.PCI, rec.Lease.Owner, err)
	}
	defer unlock()
	return e.releaseLocked(ctx, rec, reason, cause)
}

// releaseLocked is detachLease for a VF that the caller has locked.
func (e *Engine) releaseLocked(ctx context.Context, rec journal.Record, reason string, cause error) error {
	now, same, err := e.currentRecord(rec)
	if err != nil || !same || !now.Held() || !sameAttachment(now.Lease.Owner, rec.Lease.Owner) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound) // once begun, it is finished
	defer cancel()
	at, _ := e.findSite(now)
	return e.releaseVF(ctx, at, now, reason, cause)
}

// findHeld finds the VF that an attachment has. A VF that is being released counts only when
// there is no other: the attachment may have had it once, and culvertd brings it out of
// quarantine only now.
func (e *Engine) findHeld(owner vf.Owner) (rec journal.Record, ok bool, err error) {
	records, err := e.readRecords()
	for _, r := range records {
		if !r.Held() || !sameAttachment(r.Lease.Owner, owner) {
			continue
		}
		if !ok || rec.Phase == vf.PhaseReleasing {
			rec, ok = r, true
		}
	}
	return rec, ok, err
}

// releaseVF writes that the VF is being released, resets it, reads back and writes that it is
// free. It quarantines a VF that it cannot reset, and forgets a VF that is gone from the bus. The
// caller has locked the VF. The error is the ledger's: a failed reset leads to quarantine and is
// no error. cause is the reason of the release; it is nil if the owner gave the VF back.
func (e *Engine) releaseVF(ctx context.Context, at site, rec journal.Record, reason string, cause error) error {
	begun := rec.Phase == vf.PhaseConfiguring
	rec.Phase = vf.PhaseReleasing
	err := e.Ledger.Update(func(tx *journal.Tx) error {
		rec = withHandedOver(tx, rec)
		return tx.Put(rec)
	})
	if err != nil && !begun {
		return err // nothing was touched: the caller retries
	}
	// A call that hangs may take effect after the VF was read back. So the VF is not freed, and a
	// retry makes no further calls.
	stuck := e.findCall(at, rec)
	if stuck != nil && rec.Attempts > 0 {
		if _, err := e.readVF(ctx, rec); errors.Is(err, errGone) {
			return e.forgetVF(rec, err)
		}
		return e.quarantineVF(rec, stuck)
	}
	// A VF that was being configured is reset even if the ledger cannot be written any more (a
	// full disk): the phase that it has there already means undo.
	bondErr := e.removeBond(ctx, rec)
	err = e.removeGuardAfter(ctx, rec, e.resetVF(ctx, at, &rec))
	if bondErr != nil {
		err = errors.Join(bondErr, err)
	}
	if err == nil {
		err = findHang(stuck, cause, e.hangs.loadValue(rec).err)
	}
	switch {
	case errors.Is(err, errGone) && bondErr == nil:
		return e.forgetVF(rec, err)
	case err != nil:
		return e.quarantineVF(rec, err)
	}
	return e.freeVF(at, rec, reason, cause)
}

// freeVF frees a VF that was read back and is clean (I3).
func (e *Engine) freeVF(at site, rec journal.Record, reason string, cause error) error {
	who, released := rec.Lease.Owner, rec
	rec.Phase, rec.Lease = vf.PhaseFree, journal.Lease{}
	rec.Reason, rec.Attempts, rec.NextRetry = "", 0, time.Time{}
	text := fmt.Sprintf("vf %d of %s is clean", rec.ID.Index, at.label)
	if !who.IsZero() {
		rec.Released = e.Now()
		text = fmt.Sprintf("vf %d of %s from %s, clean", rec.ID.Index, at.label, who)
	}
	kind := journal.Normal
	if cause != nil {
		text += ": " + cause.Error()
		kind = journal.Warning
	}
	err := e.Ledger.Update(func(tx *journal.Tx) error {
		rec.Owed = withHandedOver(tx, released).Owing()
		return errors.Join(tx.Put(rec), tx.FreeAddresses(rec.ID),
			tx.Event(journal.Event{Type: kind, Reason: reason, Object: "VF " + rec.PCI.String(), Text: text}))
	})
	if err == nil {
		e.forgetLease(rec.ID) // not earlier: a retry must still find a call that hung
	}
	return err
}

// withHandedOver returns a record with what another member of its bond has handed over to it in the
// ledger since it was read. The locks of two VFs do not exclude that.
func withHandedOver(tx *journal.Tx, rec journal.Record) journal.Record {
	now, err := tx.Record(rec.ID)
	if err != nil || rec.Lease.Bond == nil || now.Generation != rec.Generation || now.Lease.BondMark != rec.Lease.BondMark {
		return rec
	}
	rec.Lease.Wanted.Addresses, rec.Lease.Wanted.Routes = now.Lease.Wanted.Addresses, now.Lease.Wanted.Routes
	rec.Lease.Delegation = now.Lease.Delegation
	return rec
}

// resetVF takes a VF back to its baseline and reads it back (I2, I3). The error has the
// differences that are left. A baseline from the ledger of an earlier version lacks attributes:
// resetVF binds the driver anew, and completes the baseline with those of the new netdevice. It also
// binds the driver anew if the VF had no carrier for darkBound: the driver then asks the PF for its
// MAC, and makes one up if the PF does not answer, which is a difference.
func (e *Engine) resetVF(ctx context.Context, at site, rec *journal.Record) error {
	var errs []error
	rebound, isDark := false, e.wasDark(*rec)
	for round := range rounds {
		st, err := e.readForReset(ctx, *rec)
		if err == nil && round == 0 && st.Driver == vf.DriverVFIO {
			if err := e.resetQuiet(ctx, *rec); err != nil {
				return err
			}
			st, err = e.readForReset(ctx, *rec) // the driver of a PF may set things when its VF is reset
		}
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("read back: %w", err))...)
		}
		if round == 0 && st.Link != nil && st.Link.Up && st.Link.Carrier {
			isDark = false // since the last look
		}
		if rebound && len(errs) == 0 {
			rec.Baseline = rec.Baseline.Completed(st)
		}
		if len(rec.Baseline.Diff(st)) == 0 && rec.Baseline.IsComplete(st) && (rebound || !isDark) {
			return findHang(errs...)
		}
		if at.pf.IsZero() {
			return fmt.Errorf("PF %s could not be read, so its VF cannot be reset", rec.ID.PF)
		}
		// A name or an MTU is no reason to bind a driver again that was just bound anew.
		steps := resetSteps(at.place, rec.Baseline, st, (round > 0 || isDark) && !rebound)
		rebound = rebound || slices.ContainsFunc(steps, isBind)
		for _, s := range steps {
			if err := e.resetStep(ctx, *rec, s); err != nil {
				errs = append(errs, err)
				e.Log.Warn("reset", "pf", at.label, "vf", rec.ID.Index, "round", round, "err", err)
			}
		}
	}
	st, err := e.readForReset(ctx, *rec)
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("read back: %w", err))...)
	}
	if d := rec.Baseline.Diff(st); len(d) > 0 {
		return &differsError{state: st, differences: d, failed: errors.Join(errs...)}
	}
	return findHang(errs...)
}

func isBind(s step.Step) bool {
	_, ok := s.(step.Bind)
	return ok
}

// findHang returns an error if one of the errors of a reset is a time-out: a call that hangs in
// the kernel may still take effect when the VF has its next owner.
func findHang(errs ...error) error {
	for _, err := range errs {
		if errors.Is(err, vf.ErrTimeout) {
			return fmt.Errorf("it is clean now, but a call to the kernel may yet take effect: %w", err)
		}
	}
	return nil
}

// Retries of a quarantined VF come after 10 s, 20 s, 40 s ... 10 min.
const (
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// quarantineVF sets a VF aside, with the reason, until a retry resets it. The addresses of a
// lease stay held: the last owner's netns may still have them. A record without a lease holds no
// addresses.
func (e *Engine) quarantineVF(rec journal.Record, cause error) error {
	rec.Phase, rec.Reason = vf.PhaseQuarantined, cause.Error()
	wait := min(firstRetry<<min(rec.Attempts, 10), lastRetry)
	rec.Attempts++
	rec.NextRetry = e.Now().Add(wait)
	history := "held by no owner"
	if owner := rec.Lease.Owner; !owner.IsZero() {
		history = "last held by " + owner.String()
	}
	return e.Ledger.Update(func(tx *journal.Tx) error {
		var err error
		rec = withHandedOver(tx, rec)
		if rec.Lease.Owner.IsZero() {
			err = tx.FreeAddresses(rec.ID)
		}
		return errors.Join(err, tx.Put(rec), tx.Event(journal.Event{
			Type: journal.Warning, Reason: "Quarantined", Object: "VF " + rec.PCI.String(),
			Text: fmt.Sprintf("%s, tried again in %s: %s", history, wait, rec.Reason),
		}))
	})
}

// Collect releases every attachment of a network that is not among the valid ones (CNI GC). A
// failed release does not stop the others (I7).
func (e *Engine) Collect(ctx context.Context, network string, valid []vf.Owner) error {
	records, err := e.readRecords()
	errs := []error{err}
	for _, r := range records {
		if r.Held() && r.Lease.Network == network && !containsOwner(valid, r.Lease.Owner) {
			errs = append(errs, e.detachLease(ctx, r, "Collected", nil))
		}
	}
	return errors.Join(errs...)
}

func containsOwner(owners []vf.Owner, o vf.Owner) bool {
	for _, v := range owners {
		if sameAttachment(v, o) {
			return true
		}
	}
	return false
}
