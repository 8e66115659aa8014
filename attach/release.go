package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// rounds is how often reset compares, mends and reads back: once for what the
// difference shows, once with the driver bound anew, and once more for what
// only shows after that bind (a name, an MTU).
const rounds = 3

// Detach takes back what the attachment has. It needs nothing but the ledger
// (I8). It is nil when there is nothing to take back, so it may be repeated. A
// VF that cannot be reset is quarantined, which is not the owner's concern: the
// detach succeeds and the ledger, the events and the status tell.
func (e *Engine) Detach(ctx context.Context, owner vf.Owner) error {
	rec, ok, err := e.find(owner)
	if err != nil || !ok {
		return err
	}
	return e.detach(ctx, rec, "Detached", nil)
}

// End takes back the lease that rec describes, and no later one of the same
// attachment (I8). It is otherwise as Detach.
func (e *Engine) End(ctx context.Context, rec journal.Record) error {
	return e.detach(ctx, rec, "Detached", nil)
}

// detach releases the lease that rec describes, and no later one. When ctx ends
// while other work holds the VF, the lease stays as it was.
func (e *Engine) detach(ctx context.Context, rec journal.Record, reason string, cause error) (err error) {
	defer e.observe(OperationDetach, e.Now(), &err)
	unlock, err := e.vfs.Lock(ctx, rec.ID, "the detach from "+rec.Lease.Owner.String())
	if err != nil {
		return fmt.Errorf("detach VF %s from %s: %w: nothing was changed, repeat it", rec.PCI, rec.Lease.Owner, err)
	}
	defer unlock()
	return e.finish(ctx, rec, reason, cause)
}

// finish is detach for a VF that the caller has locked.
func (e *Engine) finish(ctx context.Context, rec journal.Record, reason string, cause error) error {
	now, same, err := e.current(rec)
	if err != nil || !same || !now.Held() || !sameAttachment(now.Lease.Owner, rec.Lease.Owner) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound) // once begun, it is finished
	defer cancel()
	at, _ := e.site(now)
	return e.release(ctx, at, now, reason, cause)
}

// find is the VF that an attachment has. One that is being released counts only
// when there is no other: that may be a VF which the attachment had once, and
// which is only now brought out of quarantine.
func (e *Engine) find(owner vf.Owner) (rec journal.Record, ok bool, err error) {
	records, err := e.records()
	for _, r := range records {
		if !r.Held() || !sameAttachment(r.Lease.Owner, owner) {
			continue
		}
		if !ok || rec.Phase == journal.Releasing {
			rec, ok = r, true
		}
	}
	return rec, ok, err
}

// release writes that the VF is being released, resets it, reads back and
// writes that it is free; or quarantines it; or forgets it, when it is gone from
// the bus. The VF is locked. The error is the ledger's: a reset that fails is no
// error here, it is a quarantine. cause is why it is released, if not because
// its owner gave it back.
func (e *Engine) release(ctx context.Context, at site, rec journal.Record, reason string, cause error) error {
	begun := rec.Phase == journal.Configuring
	rec.Phase = journal.Releasing
	err := e.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) })
	if err != nil && !begun {
		return err // nothing was touched: whoever asked asks again
	}
	// A VF that was being configured is reset even when the ledger takes nothing
	// any more (a full disk): what it says already means undo.
	err = e.reset(ctx, at, &rec)
	if err == nil {
		err = hung(cause)
	}
	switch {
	case errors.Is(err, errGone):
		return e.forget(rec, err)
	case err != nil:
		return e.quarantine(rec, err)
	}
	return e.free(at, rec, reason, cause)
}

// free makes a VF that was read back clean available again (I3).
func (e *Engine) free(at site, rec journal.Record, reason string, cause error) error {
	who := rec.Lease.Owner
	rec.Owed = rec.Owing()
	rec.Phase, rec.Lease = journal.Free, journal.Lease{}
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
	return e.Ledger.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.Put(rec), tx.FreeAddresses(rec.ID),
			tx.Event(journal.Event{Type: kind, Reason: reason, Object: "VF " + rec.PCI.String(), Text: text}))
	})
}

// reset takes a VF back to its baseline and reads back that it is there (I2,
// I3). The error says what is left. A baseline from the ledger of an earlier version lacks
// attributes: reset binds the driver anew, and completes the baseline with those of
// the new netdevice.
func (e *Engine) reset(ctx context.Context, at site, rec *journal.Record) error {
	var errs []error
	rebound := false
	for round := range rounds {
		st, err := e.look(ctx, *rec)
		if err == nil && round == 0 && st.Driver == vf.DriverVFIO {
			if err := e.quiet(ctx, *rec); err != nil {
				return err
			}
			st, err = e.look(ctx, *rec) // the driver of a PF may set things when its VF is reset
		}
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("read back: %w", err))...)
		}
		if rebound && len(errs) == 0 {
			rec.Baseline = rec.Baseline.Completed(st)
		}
		if len(rec.Baseline.Diff(st)) == 0 && rec.Baseline.IsComplete(st) {
			return hung(errs...)
		}
		if at.pf.IsZero() {
			return fmt.Errorf("PF %s could not be read, so its VF cannot be reset", rec.ID.PF)
		}
		// A driver that was bound anew is not bound once more for a name or an MTU.
		steps := resetSteps(at.place, rec.Baseline, st, round > 0 && !rebound)
		rebound = rebound || slices.ContainsFunc(steps, isBind)
		for _, s := range steps {
			if err := e.resetStep(ctx, *rec, s); err != nil {
				errs = append(errs, err)
				e.Log.Warn("reset", "pf", at.label, "vf", rec.ID.Index, "round", round, "err", err)
			}
		}
	}
	st, err := e.look(ctx, *rec)
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("read back: %w", err))...)
	}
	if d := rec.Baseline.Diff(st); len(d) > 0 {
		return &differsError{state: st, differences: d, failed: errors.Join(errs...)}
	}
	return hung(errs...)
}

func isBind(s step.Step) bool {
	_, ok := s.(step.Bind)
	return ok
}

// hung is an error when one of those that came up on the way to a clean VF is a
// time-out: what hangs in the kernel may yet take effect, on whoever has the VF
// then.
func hung(errs ...error) error {
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

// quarantine keeps a VF from everybody, with the reason, until a retry resets
// it. The addresses of a lease stay held: the last owner's netns may still have
// them. A record without a lease holds none.
func (e *Engine) quarantine(rec journal.Record, cause error) error {
	rec.Phase, rec.Reason = journal.Quarantined, cause.Error()
	wait := min(firstRetry<<min(rec.Attempts, 10), lastRetry)
	rec.Attempts++
	rec.NextRetry = e.Now().Add(wait)
	history := "held by nobody"
	if owner := rec.Lease.Owner; !owner.IsZero() {
		history = "last held by " + owner.String()
	}
	return e.Ledger.Update(func(tx *journal.Tx) error {
		var err error
		if rec.Lease.Owner.IsZero() {
			err = tx.FreeAddresses(rec.ID)
		}
		return errors.Join(err, tx.Put(rec), tx.Event(journal.Event{
			Type: journal.Warning, Reason: "Quarantined", Object: "VF " + rec.PCI.String(),
			Text: fmt.Sprintf("%s, tried again in %s: %s", history, wait, rec.Reason),
		}))
	})
}

// Collect releases every attachment of a network that is not among the valid
// ones (CNI GC). One that fails does not keep the others (I7).
func (e *Engine) Collect(ctx context.Context, network string, valid []vf.Owner) error {
	records, err := e.records()
	errs := []error{err}
	for _, r := range records {
		if r.Held() && r.Lease.Network == network && !contains(valid, r.Lease.Owner) {
			errs = append(errs, e.detach(ctx, r, "Collected", nil))
		}
	}
	return errors.Join(errs...)
}

func contains(owners []vf.Owner, o vf.Owner) bool {
	for _, v := range owners {
		if sameAttachment(v, o) {
			return true
		}
	}
	return false
}
