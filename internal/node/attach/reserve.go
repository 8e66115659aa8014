package attach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// reservation is a VF that was chosen for a request, and its lease once writeLeases has written it. It
// is locked until unlock is called. In others the first VF of a bond has the others, which have
// leases and locks of their own.
type reservation struct {
	choice alloc.Choice
	given  string // the pod to which the kubelet had given the VF when it was chosen; empty for none
	rec    journal.Record
	at     lease.Site
	unlock func()
	others []reservation
}

// all returns the VFs of a reservation.
func (r reservation) all() []reservation { return append([]reservation{r}, r.others...) }

func (r reservation) unlockAll() {
	for _, one := range r.all() {
		if one.unlock != nil {
			one.unlock()
		}
	}
}

// reserveClean reserves a VF that is clean and stays so. It quarantines a VF that was changed outside
// Culvert, or that a call which hangs may yet change, and takes another. It passes over a VF that is
// used outside Culvert, or that cannot be read: that VF stays free and untouched (I2).
func (e *Engine) reserveClean(ctx context.Context, req Request) (reservation, error) {
	req.passed = map[vf.ID]error{}
	got, err := e.reserveWithAddresses(ctx, req)
	if err != nil {
		return got, errors.Join(append([]error{err}, slices.Collect(maps.Values(req.passed))...)...)
	}
	return got, nil
}

// reserveChosen reserves VFs that are chosen and locked, if they are clean. Nothing is written about
// a VF before that is known: the undo of a lease resets its VF, and must not reset one that is used
// outside Culvert (I2). The error is errAgain if other VFs may do.
func (e *Engine) reserveChosen(ctx context.Context, req Request, got reservation, given func(vf.PCIAddr) string) (reservation, error) {
	if err := e.readChosen(&got); err != nil {
		got.unlockAll()
		return reservation{}, err
	}
	dirty, why := e.findDirty(ctx, got)
	if why == nil {
		done, err := e.writeLeases(req, got, given)
		if err != nil {
			got.unlockAll()
		}
		return done, err
	}
	defer got.unlockAll()
	var failed error
	switch {
	case ctx.Err() != nil: // the caller disconnected, which says nothing about the VF
	case isUntouchable(why):
		req.passed[dirty.rec.ID] = fmt.Errorf("VF %s of PF %s: %w", dirty.rec.PCI, dirty.at.Label, why)
	default:
		failed = e.quarantineDirty(dirty.at, dirty.rec, why)
	}
	if failed != nil || !req.VF.IsZero() || ctx.Err() != nil || errors.Is(why, errBlind) {
		return reservation{}, fmt.Errorf("attach VF %s of PF %s to %s: %w", dirty.rec.PCI, dirty.at.Label, req.Owner, errors.Join(why, failed))
	}
	return reservation{}, errAgain
}

// readChosen reads the records of VFs that are locked by now. The error is errAgain if one of them had
// an owner between its choice and its lock.
func (e *Engine) readChosen(got *reservation) error {
	return e.vfs.Ledger.View(func(tx *journal.Tx) (err error) {
		if got.rec, err = findChosen(tx, got.choice); err != nil {
			return err
		}
		for i := range got.others {
			if got.others[i].rec, err = findChosen(tx, got.others[i].choice); err != nil {
				return err
			}
		}
		return nil
	})
}

// findChosen returns the record of a VF that is still free, or prepared for the same claim, as it was
// chosen. The error is errAgain for others.
func findChosen(tx *journal.Tx, c alloc.Choice) (journal.Record, error) {
	rec, err := tx.Record(c.Record.ID)
	if err != nil || !rec.IsIdle() || rec.Generation != c.Record.Generation {
		return rec, errAgain
	}
	rec.PCI = c.Record.PCI // where the VF is now
	return rec, nil
}

// An untouchable error says why a free VF must stay as it is: it is used outside Culvert
// (vf.ErrHeld), or it cannot be read (vf.ErrNotReady), which says nothing about the VF.
type untouchable struct{ error }

func (u untouchable) Unwrap() error { return u.error }

func isUntouchable(err error) bool {
	var u untouchable
	return errors.As(err, &u)
}

// errBlind says that culvertd could not find out who uses VFs. It concerns all VFs alike, so an
// attach does not try the next one.
var errBlind = fmt.Errorf("it may be in use, so it is not given out: %w: try again", vf.ErrNotReady)

// findDirty returns the first of the chosen VFs that is not clean, is used, cannot be read, or
// has a call that hangs, and the reason. The error is nil if all are clean.
func (e *Engine) findDirty(ctx context.Context, got reservation) (reservation, error) {
	for _, one := range got.all() {
		if err := e.vfs.FindCall(one.at, one.rec); err != nil {
			return one, err
		}
		if _, err := e.checkClean(ctx, one.rec); err != nil {
			return one, err
		}
	}
	return reservation{}, nil
}

// checkClean returns how many attributes of a VF without an owner equal its baseline. The error says how
// the VF differs, or that it may not be touched.
func (e *Engine) checkClean(ctx context.Context, rec journal.Record) (attributes int, err error) {
	st, err := e.vfs.ReadVF(ctx, rec)
	if errors.Is(err, hold.ErrGone) {
		return 0, err
	}
	if err != nil {
		return 0, untouchable{fmt.Errorf("it cannot be read, so it is not given out: %w: try again: %w", vf.ErrNotReady, err)}
	}
	d, attributes := rec.Baseline.Compare(st)
	if len(d) == 0 && st.Driver != vf.DriverVFIO {
		e.vfs.NoteUse(rec, vf.Use{})
		return attributes, nil
	}
	uses, err := e.vfs.UsesOf(ctx, rec.PCI)
	if use, used := uses[rec.PCI]; used {
		e.vfs.NoteUse(rec, use)
		return 0, untouchable{fmt.Errorf("%s, and used outside Culvert: %s: %w", rec.Phase, use, vf.ErrHeld)}
	}
	if err != nil {
		return 0, untouchable{fmt.Errorf("%w: %w", errBlind, err)}
	}
	e.vfs.NoteUse(rec, vf.Use{})
	if len(d) > 0 {
		return 0, fmt.Errorf("%s, but not as it was left: %s", rec.Phase, vf.Differences(d))
	}
	return attributes, nil
}

// quarantineDirty sets a free VF aside that is dirty, and forgets one that is missing. The error is the
// ledger's.
func (e *Engine) quarantineDirty(at lease.Site, rec journal.Record, cause error) error {
	e.vfs.Log.Warn("free VF is not clean", "pf", at.Label, "vf", rec.ID.Index, "err", cause)
	if errors.Is(cause, hold.ErrGone) {
		return e.vfs.Ledger.Update(func(tx *journal.Tx) error { return tx.Forget(rec.ID, cause.Error()) })
	}
	return e.resets.QuarantineVF(rec, cause)
}

// twin is an error about other work on the same attachment: an ADD, mostly of a caller that was
// killed, so that the ADD will be undone; or a release.
type twin struct {
	error
	work *keylock.Work
}

func (t twin) Unwrap() error { return t.error }

// errBusy says that the chosen VF is free, but culvertd is working on it. errAgain says that VFs are
// to be chosen again.
var (
	errBusy  = errors.New("other work is under way on it")
	errAgain = errors.New("the chosen VF cannot be taken")
)

// reserveVF chooses a VF, locks it, checks that it is clean, and writes the lease with its addresses in
// one transaction: the intent is durable before the kernel is touched. The VF stays locked between the
// reservation and the work. reserveVF passes over free VFs that culvertd is working on. Only if no
// other VF is free, it waits until the first of them is idle, and chooses again.
func (e *Engine) reserveVF(ctx context.Context, req Request) (reservation, error) {
	busy := map[vf.ID]*keylock.Work{}
	for {
		changed := e.vfs.Ledger.Changed()
		given, err := e.askGiven(ctx, req)
		if err != nil {
			return reservation{}, err
		}
		req.tenant, req.missing = e.tenantOf(ctx, req), e.missingPools()
		got, err := e.chooseVFs(req, busy, given)
		for errors.Is(err, errBusy) { // until a VF is found, or all are busy
			got, err = e.chooseVFs(req, busy, given)
		}
		if err == nil {
			got, err = e.reserveChosen(ctx, req, got, given)
		}
		if errors.Is(err, errAgain) {
			continue
		}
		var other twin
		if errors.As(err, &other) {
			select {
			case <-other.work.Done():
				continue
			case <-ctx.Done():
				return got, fmt.Errorf("%w; %s has not ended: %w", err, other.work, context.Cause(ctx))
			}
		}
		if err == nil || len(busy) == 0 {
			return got, err
		}
		if ended := waitForIdle(ctx, busy, changed); ended != nil {
			return got, fmt.Errorf("%w; %w", err, ended)
		}
		clear(busy)
	}
}

// errIdle ends the waits of waitForIdle.
var errIdle = errors.New("a VF is idle")

// waitForIdle waits until the first of the busy VFs is idle, or the ledger has changed: a lease may say by
// now that none of them is free. It does not wait for the others, since
// the work on one VF may hang as long as a kernel call does (TestAttachWaitsForOneBusyVF). If ctx
// ends before, the error names one of the VFs with its work, and wraps ctx's cause.
func waitForIdle(ctx context.Context, busy map[vf.ID]*keylock.Work, changed <-chan struct{}) error {
	g, waiting := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case <-changed:
			return errIdle
		case <-waiting.Done():
			return context.Cause(waiting)
		}
	})
	for _, work := range busy {
		g.Go(func() error {
			select {
			case <-work.Done():
				return errIdle
			case <-waiting.Done():
				return context.Cause(waiting)
			}
		})
	}
	err := g.Wait()
	if errors.Is(err, errIdle) {
		return nil
	}
	id := slices.MinFunc(slices.Collect(maps.Keys(busy)), vf.ID.Compare)
	return fmt.Errorf("VF %s may be free soon, %s has not ended: %w", id, busy[id], err)
}

// askGiven asks which VFs the kubelet has given to pods. reserveVF asks again after every wait,
// since the kubelet may have given out another VF meanwhile.
func (e *Engine) askGiven(ctx context.Context, req Request) (func(vf.PCIAddr) string, error) {
	if e.vfs.Given == nil {
		return nil, nil //nolint:nilnil // without Kubernetes there is none
	}
	given, err := e.vfs.Given(ctx)
	if err != nil {
		return nil, fmt.Errorf("choose a VF for %s: %w", req.Owner, err)
	}
	return given, nil
}

// writeLeases writes the leases of VFs that were chosen. The error is errAgain if one of them is
// another's by now, or promised to another pod (I1).
func (e *Engine) writeLeases(req Request, chosen reservation, given func(vf.PCIAddr) string) (got reservation, err error) {
	if req.Bond != nil {
		req = e.sortVFs(req)
	}
	err = e.vfs.Ledger.Update(func(tx *journal.Tx) error {
		if err := e.checkTwins(tx.Records(), req); err != nil {
			return err
		}
		got = reservation{}
		for i, one := range chosen.all() {
			m := req
			if req.Bond != nil {
				m = memberRequest(req, got, i, given)
			}
			one.others = nil
			if given != nil && given(one.choice.Record.PCI) != one.given {
				return errAgain
			}
			if one.choice.Record, err = findChosen(tx, one.choice); err != nil {
				return err
			}
			if err := e.addresses.neighboursOf(tx, one.choice, m).checkMAC(m.Spec, one.choice.Record.Baseline); err != nil {
				if m.Spec.MAC == nil && m.VF.IsZero() {
					return errAgain // another lease has it since the choice
				}
				return err
			}
			if one.rec, err = e.writeLease(tx, one.choice, m); err != nil {
				return err
			}
			if i == 0 {
				got = one
			} else {
				got.others = append(got.others, one)
			}
		}
		if req.Bond == nil {
			return nil
		}
		return completeLeases(tx, &got, req)
	})
	return got, err
}

// checkTwins returns the error of checkTwin for the first record that has one.
func (e *Engine) checkTwins(records []journal.Record, req Request) error {
	for _, r := range records {
		if slices.Contains(req.members, r.ID) {
			continue
		}
		if err := e.checkTwin(r, req.Owner); err != nil {
			return err
		}
	}
	return nil
}

// checkTwin returns an error if the attachment must not get a VF because of the recorded one. The
// error is a twin if waiting for the other work can help. A VF that is being released no longer
// belongs to the attachment. During the first release, however, the interface may still be in the
// netns, under its name. Later releases bring the VF out of quarantine. This may take for ever,
// so no caller waits for it.
func (e *Engine) checkTwin(r journal.Record, who vf.Owner) error {
	if !r.Held() || !lease.SameAttachment(r.Lease.Owner, who) {
		return nil
	}
	work := e.vfs.Locks.Holder(r.ID)
	switch {
	case r.Phase == vf.PhaseReleasing && (work == nil || r.Attempts > 0):
		return nil
	case r.Phase == vf.PhaseReleasing:
		return twin{fmt.Errorf("VF %s is being taken back from %s of %s: %w", r.PCI, who.Interface, who, vf.ErrHeld), work}
	}
	held := fmt.Errorf("%s has VF %s as %s already: %w: delete that attachment first", who, r.PCI, who.Interface, vf.ErrHeld)
	if work != nil && r.Phase == vf.PhaseConfiguring {
		return twin{held, work}
	}
	return held
}

// writeLease writes the lease of a VF with its addresses, if the pool allows all that the lease has
// (I9).
func (e *Engine) writeLease(tx *journal.Tx, choice alloc.Choice, req Request) (journal.Record, error) {
	rec := choice.Record
	spec := req.specOn(choice.PF)
	spec.Driver = choice.Driver
	if req.Owner.Kind == vf.OwnerGuest {
		spec.Driver = vf.DriverVFIO // for any pool: QEMU takes PCI functions, no netdevices
	}
	if spec.Driver != vf.DriverVFIO && req.Netns == "" {
		return rec, fmt.Errorf("netns: %w: VF %s is a network interface and needs the pod's network namespace", vf.ErrInvalid, rec.PCI)
	}
	if err := checkGuard(rec, spec); err != nil {
		return rec, err
	}
	rec.Generation++
	rec.Phase = vf.PhaseConfiguring
	rec.Lease = journal.Lease{
		Owner: req.Owner, PodUID: req.PodUID, Network: req.Network, AddressPool: req.AddressPool, Pool: choice.Pool, Netns: req.Netns, Bond: req.Bond, Power: req.Power, Wanted: spec, Request: req.Raw, Delegation: req.Delegation,
	}
	if spec.Driver == vf.DriverVFIO {
		rec.Lease.Netns = ""
	}
	if err := e.addresses.leaseAddresses(tx, choice, &rec, req); err != nil {
		return rec, err
	}
	if err := checkAllowed(choice, req, rec.Lease.Wanted); err != nil {
		return rec, fmt.Errorf("network %s for %s: %w", req.Network, req.Owner, err)
	}
	return rec, tx.Put(rec)
}
