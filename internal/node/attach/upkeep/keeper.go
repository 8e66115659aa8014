// Package upkeep looks after all VFs: it settles the work that an earlier culvertd left, mends or
// reports drift, tries quarantined VFs again, and ends the leases of owners that are gone. culvertd
// calls Replay once at start, and Tend each time that it has listed the hardware.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/loan"
	"github.com/culvert-net/culvert/internal/node/attach/reset"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// Config has what a Keeper needs beside the VFs of its host. All fields may be nil or zero.
type Config struct {
	// KnowsPod reports whether the API server or the kubelet knows the pod that has a lease. Its
	// error says that one of the two did not answer. It is nil without a cluster; then no lease
	// ends because its pod is gone.
	KnowsPod func(context.Context, journal.Lease) (bool, error)
	// PodEvent emits an event of the pod that has a lease. It returns at once. It is nil without a
	// cluster.
	PodEvent func(l journal.Lease, kind, reason, text string)
	// Patience is how long Tend waits for VFs that are being mended; 0 is tendPatience. Slower work
	// goes on in the background and does not delay the other VFs (I7).
	Patience time.Duration
}

// Keeper looks after the VFs of a host. Its methods may be called concurrently.
type Keeper struct {
	Config
	vfs    *hold.VFs
	resets *reset.Resetter
	loans  *loan.Lender
	engine *attach.Engine

	links      links
	reports    reporter
	drifts     *hold.Memory[string]    // the text of the last event about drift
	absent     *hold.Memory[absence]   // of pods whose VF is back
	closed     *hold.Memory[time.Time] // since when the VF of a guest that ran is not open
	guardLooks *hold.Memory[time.Time] // when upkeep last read the guard
}

// New returns a Keeper.
func New(vfs *hold.VFs, resets *reset.Resetter, loans *loan.Lender, engine *attach.Engine, c Config) *Keeper {
	if c.Patience == 0 {
		c.Patience = tendPatience
	}
	k := &Keeper{
		Config: c, vfs: vfs, resets: resets, loans: loans, engine: engine,
		drifts: hold.NewMemory[string](vfs), absent: hold.NewMemory[absence](vfs),
		closed: hold.NewMemory[time.Time](vfs), guardLooks: hold.NewMemory[time.Time](vfs),
	}
	k.reports = reporter{&k.Config}
	k.links = links{vfs: vfs, reports: k.reports, last: hold.NewMemory[podLink](vfs), looking: make(chan struct{}, mostLooks)}
	return k
}

// Replay settles the work that a culvertd left when it died: it undoes each unfinished attach and
// finishes each release. Attached VFs stay as they are, and get their own rates back if a rate
// was lent. Replay runs before the first attach.
func (k *Keeper) Replay(ctx context.Context) error {
	records, err := k.vfs.ReadRecords()
	var g errgroup.Group
	g.SetLimit(8)
	for _, r := range records {
		if r.Phase == vf.PhaseAttached && r.Lease.Lent != nil {
			g.Go(func() error {
				if err := k.loans.GiveBack(ctx, r); err != nil { // Tend goes on
					k.vfs.Log.Warn("replay", "vf", r.ID, "err", err)
				}
				return nil
			})
		}
		if !isBegun(r) {
			continue
		}
		g.Go(func() error {
			k.vfs.Log.Info("replay", "vf", r.ID, "phase", r.Phase, "owner", r.Lease.Owner)
			return k.resets.DetachLease(ctx, r, reasons.Undone, fmt.Errorf("culvertd ended while it was %s", r.Phase))
		})
	}
	return errors.Join(err, g.Wait())
}

// isBegun reports whether work on the VF is under way, or was when culvertd died.
func isBegun(r journal.Record) bool {
	return r.Phase == vf.PhaseConfiguring || r.Phase == vf.PhaseReleasing
}

// tendPatience is the usual Patience of a Keeper.
const tendPatience = 5 * time.Second

// Tend looks after the VFs. It retries quarantined ones that are due, and takes free and prepared ones
// that changed outside Culvert back to their baseline unless they are used. It finishes work that stopped
// half-way (the disk was full), mends or reports drift of attached ones, and gives lent rates back.
// It ends leases on VFs that are gone from the bus, and those of guests and pods whose end was not
// reported. seen is the hardware as just listed.
func (k *Keeper) Tend(ctx context.Context, seen []vf.PF) error {
	records, err := k.vfs.ReadRecords()
	errs := make(chan error, len(records)) // room for all: Tend may have returned before they are sent
	wait, open := 0, k.openGuests(ctx, records)
	for _, r := range records {
		task := k.nextTask(ctx, r, seen, open)
		if task == nil {
			continue
		}
		unlock, busy := k.vfs.Locks.TryLock(r.ID, "culvertd's upkeep of a VF that is "+string(r.Phase))
		if busy != nil {
			continue // the next pass looks again
		}
		wait++
		k.vfs.Background.Add(1)
		go func() {
			defer k.vfs.Background.Done()
			err := task()
			unlock() // before Tend receives the result: the next pass may follow at once
			if err != nil {
				k.vfs.Log.Error("tend", "vf", r.ID, "phase", r.Phase, "owner", r.Lease.Owner, "err", err)
			}
			errs <- err
		}()
	}
	late := time.NewTimer(k.Patience)
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
func (k *Keeper) nextTask(ctx context.Context, r journal.Record, seen []vf.PF, open map[vf.PCIAddr]bool) func() error {
	if hasVanished(r, seen) {
		return func() error { return k.endLost(ctx, r) }
	}
	switch r.Phase {
	case vf.PhaseQuarantined:
		if k.isDue(r) {
			return func() error { return k.tendVF(ctx, r, reasons.Recovered, nil) }
		}
	case vf.PhaseFree, vf.PhasePrepared:
		if _, st, ok := hold.FindListed(r, seen); ok {
			if d := r.Baseline.Diff(st); len(d) > 0 {
				return func() error { return k.tendVF(ctx, r, reasons.DriftMended, errors.New(vf.Differences(d))) }
			}
			if k.vfs.LastUse(r) != (vf.Use{}) {
				return func() error { k.vfs.IsLeftToUser(ctx, r); return nil } // which notices its end
			}
		}
	case vf.PhaseAttached:
		if r.Lease.Withdrawn != nil { // culvertd ended before it took the VF
			return func() error { return k.resets.EndWithdrawal(ctx, r) }
		}
		if k.loans.LoanOver(r) {
			return func() error { return k.loans.EndLoan(ctx, r) }
		}
		if r.Lease.Owner.Kind == vf.OwnerGuest && open != nil {
			if r.Lease.Opened != open[r.PCI] {
				return func() error { return k.guestTask(ctx, r, false) }
			}
			k.closed.Forget(r.ID)
		}
		if pf, st, ok := hold.FindListed(r, seen); ok {
			return k.attachedTask(ctx, r, pf, st)
		}
	case vf.PhaseConfiguring, vf.PhaseReleasing:
		return func() error { return k.finishStuck(ctx, r) }
	}
	return nil
}

// isDue reports whether a quarantined VF is to be tried again. If the retry is further away than
// culvertd ever sets one, the clock was set back.
func (k *Keeper) isDue(r journal.Record) bool {
	wait := r.NextRetry.Sub(k.vfs.Now())
	return wait <= 0 || wait > reset.LastRetry
}

// hasVanished reports whether a listing lacks a recorded VF. The listing of a PF that could not
// be read whole lacks all its VFs and proves nothing, so endLost looks at the bus.
func hasVanished(r journal.Record, seen []vf.PF) bool {
	_, _, there := hold.FindListed(r, seen)
	return !there && !r.PCI.IsZero() // zero: not made yet
}

// endLost ends the lease on a VF that a listing lacked, if the VF is really gone.
func (k *Keeper) endLost(ctx context.Context, seen journal.Record) error {
	now, same, err := k.vfs.CurrentRecord(seen)
	if err != nil || !same {
		return err
	}
	if _, err := k.vfs.ReadVF(ctx, now); errors.Is(err, hold.ErrGone) {
		if err := k.resets.RemoveEmptyBond(ctx, now); err != nil {
			return err // the next pass tries again
		}
		if left := k.resets.RemoveGuard(ctx, now); left != nil {
			return left // the next pass tries again
		}
		if failed := k.vfs.ForgetVF(now, err); failed != nil {
			return failed // the next pass tries again
		}
		k.reports.reportLost(now, "it was taken off the PCI bus, as a new start of its PF's driver does")
	}
	return nil
}

// finishStuck releases a VF on which work stopped half-way.
func (k *Keeper) finishStuck(ctx context.Context, seen journal.Record) error {
	now, same, err := k.vfs.CurrentRecord(seen)
	if err != nil || !same || now.Phase != seen.Phase {
		return err // it was not stuck
	}
	return k.resets.ReleaseLocked(ctx, seen, reasons.Undone, fmt.Errorf("it had stopped while %s", seen.Phase))
}

// tendVF resets one VF if it is still in the phase and generation that the caller saw, still
// differs from its baseline, and is not used outside Culvert.
func (k *Keeper) tendVF(ctx context.Context, seen journal.Record, reason string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.UndoBound)
	defer cancel()
	st, err := k.vfs.ReadVF(ctx, seen)
	if err == nil && seen.IsIdle() && len(seen.Baseline.Diff(st)) == 0 {
		return nil // the listing showed the VF between two states
	}
	if err != nil && seen.IsIdle() && !errors.Is(err, hold.ErrGone) {
		return err // it has no owner, and each attach reads it before
	}
	if err == nil && k.vfs.IsLeftToUser(ctx, seen) {
		return nil
	}
	rec, mine := seen, false
	err = k.vfs.Ledger.Update(func(tx *journal.Tx) error {
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
	at, err := k.vfs.FindSite(rec)
	if err != nil {
		at.Label = fmt.Sprintf("%s (not to be found)", rec.ID.PF)
	}
	return k.resets.ReleaseVF(ctx, at, rec, reason, cause)
}
