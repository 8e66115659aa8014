// Package reset takes VFs back from their owners. One function does so, for every failure and every
// caller: ResetVF. It compares the VF with its baseline, removes the difference and reads back. A VF
// that it cannot clean is quarantined. The undo of a failed attach, release, replay after a crash
// and the retry of a quarantined VF all call it. A record of the ledger enters, and a VF that is
// free or quarantined leaves. The intake packages, attach, upkeep and reconcile call it.
package reset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// rounds is how often ResetVF compares, mends and reads back: once for the differences at first,
// once with the driver bound anew, and once for differences that appear only after that bind (a
// name, an MTU).
const rounds = 3

// Resetter takes the VFs of a host back. Its methods may be called concurrently.
type Resetter struct {
	vfs *hold.VFs
}

// New returns a Resetter.
func New(vfs *hold.VFs) *Resetter { return &Resetter{vfs: vfs} }

// Detach takes the VF of an attachment back. It needs only the ledger (I8). It returns nil if the
// attachment has no VF (any more), so callers may repeat it. The detach of a VF that cannot be
// reset succeeds too: the VF is quarantined, and the ledger, the events and the status report
// that.
func (b *Resetter) Detach(ctx context.Context, owner vf.Owner) error {
	rec, ok, err := b.vfs.FindHeld(owner)
	if err != nil || !ok {
		return err
	}
	if rec.Lease.Bond != nil {
		return b.detachBond(ctx, rec)
	}
	return b.DetachLease(ctx, rec, reasons.Detached, nil)
}

// End takes back the VF of the lease that rec describes, and of no later lease of the same
// attachment (I8). In all else it is like Detach.
func (b *Resetter) End(ctx context.Context, rec journal.Record) error {
	return b.DetachLease(ctx, rec, reasons.Detached, nil)
}

// DetachLease releases the lease that rec describes, and no later one. If ctx ends while other
// work has the VF locked, the lease stays as it was.
func (b *Resetter) DetachLease(ctx context.Context, rec journal.Record, reason string, cause error) (err error) {
	watch := b.vfs.StartWatch(hold.OperationDetach)
	defer watch.EndOperation(&err)
	unlock, err := b.vfs.Locks.Lock(ctx, rec.ID, "the detach from "+rec.Lease.Owner.String())
	watch.EndStep(hold.StepLock, err)
	if err != nil {
		return fmt.Errorf("detach VF %s from %s: %w: nothing was changed, repeat it", rec.PCI, rec.Lease.Owner, err)
	}
	defer unlock()
	return b.endLease(ctx, rec, ending{reason, cause, watch})
}

// ReleaseLocked is DetachLease for a VF that the caller has locked.
func (b *Resetter) ReleaseLocked(ctx context.Context, rec journal.Record, reason string, cause error) error {
	return b.endLease(ctx, rec, ending{reason: reason, cause: cause})
}

// ending says why a lease ends, and measures that.
type ending struct {
	reason string
	cause  error           // nil if the owner gave the VF back
	watch  *hold.Stopwatch // nil if it is no detach
}

func (b *Resetter) endLease(ctx context.Context, rec journal.Record, why ending) error {
	now, same, err := b.vfs.CurrentRecord(rec)
	if err != nil || !same || !now.Held() || now.Phase == vf.PhasePrepared || !lease.SameAttachment(now.Lease.Owner, rec.Lease.Owner) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.UndoBound) // once begun, it is finished
	defer cancel()
	at, _ := b.vfs.FindSite(now)
	return b.releaseFor(ctx, at, now, why)
}

// ReleaseVF writes that the VF is being released, resets it, reads back and writes that it is
// free. It quarantines a VF that it cannot reset, and forgets a VF that is gone from the bus. The
// caller has locked the VF. The error is the ledger's: a failed reset leads to quarantine and is
// no error. cause is the reason of the release; it is nil if the owner gave the VF back.
func (b *Resetter) ReleaseVF(ctx context.Context, at lease.Site, rec journal.Record, reason string, cause error) error {
	return b.releaseFor(ctx, at, rec, ending{reason: reason, cause: cause})
}

func (b *Resetter) releaseFor(ctx context.Context, at lease.Site, rec journal.Record, why ending) error {
	begun, isRetry := rec.Phase == vf.PhaseConfiguring, rec.Attempts > 0
	isCutOff := rec.Phase == vf.PhaseReleasing || rec.Phase == vf.PhaseQuarantined
	rec.Phase = vf.PhaseReleasing
	err := b.vfs.Ledger.Update(func(tx *journal.Tx) error {
		rec = withHandedOver(tx, rec)
		return tx.Put(rec)
	})
	why.watch.EndStep(hold.StepIntent, err)
	if err != nil && !begun {
		return err // nothing was touched: the caller retries
	}
	// A call that hangs may take effect after the VF was read back. So the VF is not freed, and a
	// retry makes no further calls.
	stuck := b.vfs.FindCall(at, rec)
	if stuck != nil && isRetry {
		b.vfs.Observe.ObserveRetry(stuck)
		if _, err := b.vfs.ReadVF(ctx, rec); errors.Is(err, hold.ErrGone) {
			return b.vfs.ForgetVF(rec, err)
		}
		return b.QuarantineVF(rec, stuck)
	}
	// A VF that was being configured is reset even if the ledger cannot be written any more (a
	// full disk): the phase that it has there already means undo.
	bondErr := b.RemoveBond(ctx, rec)
	err = b.RemoveGuardAfter(ctx, rec, b.ResetVF(ctx, at, &rec))
	if err == nil && isCutOff && !rec.Lease.Owner.IsZero() && rec.Readback.Unknown == "" {
		rec.Readback.Unknown = "an earlier reset did not come to its end"
	}
	if bondErr != nil {
		err = errors.Join(bondErr, err)
	}
	if err == nil {
		err = findHang(stuck, why.cause, b.vfs.LastHang(rec))
	}
	why.watch.EndStep(hold.StepReset, err)
	if isRetry {
		b.vfs.Observe.ObserveRetry(err)
	}
	switch {
	case errors.Is(err, hold.ErrGone) && bondErr == nil:
		err = b.vfs.ForgetVF(rec, err)
	case err != nil:
		err = b.QuarantineVF(rec, err)
	default:
		err = b.FreeVF(at, rec, why.reason, why.cause)
	}
	why.watch.EndStep(hold.StepRecord, err)
	return err
}

// FreeVF frees a VF that was read back and is clean (I3). A VF with a claim is prepared again.
func (b *Resetter) FreeVF(at lease.Site, rec journal.Record, reason string, cause error) error {
	who, released := rec.Lease.Owner, rec
	rec.Phase, rec.Lease = rec.IdlePhase(), journal.Lease{}
	rec.Reason, rec.Attempts, rec.NextRetry = "", 0, time.Time{}
	text := fmt.Sprintf("vf %d of %s is clean", rec.ID.Index, at.Label)
	if !who.IsZero() {
		rec.Released = b.vfs.Now()
		text = fmt.Sprintf("vf %d of %s from %s, clean", rec.ID.Index, at.Label, who)
	}
	if r := rec.Readback; r != nil && len(r.Changed) > 0 {
		text += ", changed by it: " + strings.Join(r.Names(), ", ")
	}
	if rec.Claim != nil {
		text += ", prepared for " + rec.Claim.String()
	}
	kind := journal.Normal
	if cause != nil {
		text += ": " + cause.Error()
		kind = journal.Warning
	}
	ended := released
	ended.Phase = rec.Phase // its event names the last owner
	err := b.vfs.Ledger.Update(func(tx *journal.Tx) error {
		rec.Owed = withHandedOver(tx, released).Owing()
		return errors.Join(tx.Put(rec), tx.FreeAddresses(rec.ID),
			tx.Event(ended.MakeEvent(kind, reason, text)))
	})
	if err == nil {
		b.vfs.ForgetLease(rec.ID) // not earlier: a retry must still find a call that hung
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
	rec.Lease.Delegation, rec.Lease.Request = now.Lease.Delegation, now.Lease.Request
	return rec
}

// ResetVF takes a VF back to its baseline, reads it back (I2, I3), and writes into the record what it
// read. The error has the differences that are left. A baseline from the ledger of an earlier version
// lacks attributes: ResetVF binds the driver anew, and completes the baseline with those of the new
// netdevice. It also binds the driver anew if the VF had no carrier for hold.DarkBound: the driver then
// asks the PF for its MAC, and makes one up if the PF does not answer, which is a difference.
func (b *Resetter) ResetVF(ctx context.Context, at lease.Site, rec *journal.Record) error {
	var errs []error
	rebound, isDark := false, b.vfs.WasDark(*rec)
	found := finding{rec: *rec}
	for round := range rounds {
		st, err := b.readForReset(ctx, *rec)
		if err == nil && !rebound {
			found.noteChanges(st)
		}
		if err == nil && round == 0 && st.Driver == vf.DriverVFIO {
			if err := b.resetQuiet(ctx, *rec); err != nil {
				return err
			}
			st, err = b.readForReset(ctx, *rec) // the driver of a PF may set things when its VF is reset
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
		if found.isReadBack(rec, st, b.vfs.Now()) && rec.Baseline.IsComplete(st) && (rebound || !isDark) {
			return findHang(errs...)
		}
		if at.PF.IsZero() {
			return fmt.Errorf("PF %s could not be read, so its VF cannot be reset", rec.ID.PF)
		}
		// A name or an MTU is no reason to bind a driver again that was just bound anew.
		steps := lease.ResetSteps(at.Place, rec.Baseline, st, (round > 0 || isDark) && !rebound)
		if !rebound && slices.ContainsFunc(steps, isBind) {
			rebound = true
			found.noteRebind(st)
		}
		for _, s := range steps {
			if err := b.resetStep(ctx, *rec, s); err != nil {
				errs = append(errs, err)
				b.vfs.Log.Warn("reset", "pf", at.Label, "vf", rec.ID.Index, "round", round, "err", err)
			}
		}
	}
	st, err := b.readForReset(ctx, *rec)
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("read back: %w", err))...)
	}
	if !found.isReadBack(rec, st, b.vfs.Now()) {
		return &DiffersError{State: st, Differences: rec.Baseline.Diff(st), Failed: errors.Join(errs...)}
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
	LastRetry  = 10 * time.Minute
)

// QuarantineVF sets a VF aside, with the reason, until a retry resets it. The addresses of a
// lease stay held: the last owner's netns may still have them. A record without a lease holds no
// addresses.
func (b *Resetter) QuarantineVF(rec journal.Record, cause error) error {
	rec.Phase, rec.Reason, rec.Readback = vf.PhaseQuarantined, cause.Error(), nil
	wait := min(firstRetry<<min(rec.Attempts, 10), LastRetry)
	rec.Attempts++
	rec.NextRetry = b.vfs.Now().Add(wait)
	history := "held by no owner"
	if owner := rec.OwnerOrClaim(); !owner.IsZero() {
		history = "last held by " + owner.String()
	}
	return b.vfs.Ledger.Update(func(tx *journal.Tx) error {
		var err error
		rec = withHandedOver(tx, rec)
		if rec.Lease.Owner.IsZero() {
			err = tx.FreeAddresses(rec.ID)
		}
		return errors.Join(err, tx.Put(rec), tx.Event(rec.MakeEvent(journal.Warning, reasons.Quarantined,
			fmt.Sprintf("%s, tried again in %s: %s", history, wait, rec.Reason))))
	})
}

// Collect releases every attachment of a network that is not among the valid ones (CNI GC). A
// failed release does not stop the others (I7).
func (b *Resetter) Collect(ctx context.Context, network string, valid []vf.Owner) error {
	records, err := b.vfs.ReadRecords()
	errs := []error{err}
	for _, r := range records {
		if r.Held() && r.Lease.Network == network && !containsOwner(valid, r.Lease.Owner) {
			errs = append(errs, b.DetachLease(ctx, r, reasons.Collected, nil))
		}
	}
	return errors.Join(errs...)
}

func containsOwner(owners []vf.Owner, o vf.Owner) bool {
	for _, v := range owners {
		if lease.SameAttachment(v, o) {
			return true
		}
	}
	return false
}

// readForReset is hold.ReadVF for a VF that its owner has given back. If the owner's netns cannot be read,
// the VF counts as one without an interface, so that the reset binds its driver anew (I8).
func (b *Resetter) readForReset(ctx context.Context, rec journal.Record) (vf.State, error) {
	st, err := b.vfs.ReadVF(ctx, rec)
	if err == nil || errors.Is(err, hold.ErrGone) || rec.Lease.Netns == "" {
		return st, err
	}
	host, hostErr := b.vfs.ReadFromHost(ctx, rec)
	if hostErr != nil {
		return st, err
	}
	b.vfs.Log.Warn("read a VF in the netns of its owner; it is reset from the host", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	return host, nil
}

// A reset waits openBound for the processes that have the VF open, and looks every openLook. A
// QEMU that was killed frees its memory before it closes its files, which takes time.
const (
	openBound = 3 * time.Second
	openLook  = 100 * time.Millisecond
)

// resetQuiet makes sure that a VF which is bound to vfio-pci does nothing any more. It waits
// until no process has the VF open, and resets the function within the bound of a step. vfio
// resets it too when the VF is closed, and does not report whether that worked. A VF whose reset
// fails or hangs gets no owner (P12).
func (b *Resetter) resetQuiet(ctx context.Context, rec journal.Record) error {
	if err := b.letGo(ctx, rec); err != nil {
		return err
	}
	if err := b.vfs.DoStep(ctx, step.Reset{VF: rec.PCI}); err != nil && !errors.Is(err, vf.ErrUnable) && !errors.Is(err, vf.ErrNotFound) {
		return err
	}
	return nil
}

// letGo waits until no process has a VF open. A reset before that would break a running guest, or
// would hang until the guest ends.
func (b *Resetter) letGo(ctx context.Context, rec journal.Record) error {
	late := time.NewTimer(openBound)
	defer late.Stop()
	for {
		err := b.vfs.InUse(ctx, rec)
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

// DiffersError says that a VF still differs from its baseline after a reset.
type DiffersError struct {
	State       vf.State
	Differences []vf.Difference
	Failed      error // steps of the reset that failed
}

func (e *DiffersError) Error() string {
	text := vf.Differences(e.Differences)
	if slices.ContainsFunc(e.Differences, func(d vf.Difference) bool { return d.Attribute == "link mac" }) {
		text += ": " + vf.DescribeUnanswered()
	}
	left := fmt.Errorf("after %d rounds of reset: %s", rounds, text)
	return errors.Join(e.Failed, left).Error()
}

func (e *DiffersError) Unwrap() error { return e.Failed }
