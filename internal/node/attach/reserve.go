package attach

import (
	"cmp"
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

// reservation is a VF with a lease, locked until unlock is called. In others the first VF of a
// bond has the others, which have leases and locks of their own.
type reservation struct {
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

// reserveClean reserves a VF and makes sure that it is clean and stays so. It quarantines a VF that
// was changed outside Culvert, or that a call which hangs may yet change, and takes another. It
// passes over a VF that is used outside Culvert, or that cannot be read: that VF stays free
// and untouched (I2).
func (e *Engine) reserveClean(ctx context.Context, req Request) (reservation, error) {
	req.passed = map[vf.ID]error{}
	for {
		got, err := e.reserveWithAddresses(ctx, req)
		if err != nil {
			return got, errors.Join(append([]error{err}, slices.Collect(maps.Values(req.passed))...)...)
		}
		dirty, err := e.findDirty(ctx, got)
		if err == nil {
			return got, nil
		}
		err = e.endReservation(ctx, got, dirty, err)
		got.unlockAll()
		if !req.VF.IsZero() || ctx.Err() != nil || errors.Is(err, errBlind) {
			return reservation{}, fmt.Errorf("attach VF %s of PF %s to %s: %w", dirty.rec.PCI, dirty.at.Label, req.Owner, err)
		}
		if isUntouchable(err) {
			req.passed[dirty.rec.ID] = fmt.Errorf("VF %s of PF %s: %w", dirty.rec.PCI, dirty.at.Label, err)
		}
	}
}

// endReservation gives the VFs of a reservation back, of which one is dirty for the reason why.
func (e *Engine) endReservation(ctx context.Context, got, dirty reservation, why error) error {
	err := why
	for _, one := range slices.Backward(got.all()) {
		switch {
		case ctx.Err() != nil: // the caller disconnected, which says nothing about the VF
			e.undoAttach(ctx, one.at, one.rec, why)
		case one.rec.ID != dirty.rec.ID:
			e.undoAttach(ctx, one.at, one.rec, fmt.Errorf("VF %s, which was chosen for the same bond, cannot be given", dirty.rec.PCI))
		case isUntouchable(why):
			err = errors.Join(why, e.freeUntouched(one.rec))
		default:
			err = e.quarantineReserved(one.at, one.rec, why)
		}
	}
	return err
}

// freeUntouched frees a VF on which nothing was done since it was reserved.
func (e *Engine) freeUntouched(rec journal.Record) error {
	rec.Phase, rec.Lease = vf.PhaseFree, journal.Lease{}
	return e.vfs.Ledger.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.Put(rec), tx.FreeAddresses(rec.ID))
	})
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

// findDirty returns the first VF of a reservation that is not clean, is used, cannot be read, or
// has a call that hangs, and the reason. The error is nil if all are clean.
func (e *Engine) findDirty(ctx context.Context, got reservation) (reservation, error) {
	for _, one := range got.all() {
		if err := e.vfs.FindCall(one.at, one.rec); err != nil {
			return one, err
		}
		if err := e.checkClean(ctx, one.rec); err != nil {
			return one, err
		}
	}
	return reservation{}, nil
}

// checkClean returns an error that says how a VF without an owner differs from its baseline, or
// that it may not be touched.
func (e *Engine) checkClean(ctx context.Context, rec journal.Record) error {
	st, err := e.vfs.ReadVF(ctx, rec)
	if errors.Is(err, hold.ErrGone) {
		return err
	}
	if err != nil {
		return untouchable{fmt.Errorf("it cannot be read, so it is not given out: %w: try again: %w", vf.ErrNotReady, err)}
	}
	d := rec.Baseline.Diff(st)
	if len(d) == 0 && st.Driver != vf.DriverVFIO {
		e.vfs.NoteUse(rec, vf.Use{})
		return nil
	}
	uses, err := e.vfs.UsesOf(ctx, rec.PCI)
	if use, used := uses[rec.PCI]; used {
		e.vfs.NoteUse(rec, use)
		return untouchable{fmt.Errorf("free, and used outside Culvert: %s: %w", use, vf.ErrHeld)}
	}
	if err != nil {
		return untouchable{fmt.Errorf("%w: %w", errBlind, err)}
	}
	e.vfs.NoteUse(rec, vf.Use{})
	if len(d) > 0 {
		return fmt.Errorf("free, but not as it was left: %s", vf.Differences(d))
	}
	return nil
}

// quarantineReserved sets a reserved VF aside when it is dirty or missing; its requester never
// had it.
func (e *Engine) quarantineReserved(at lease.Site, rec journal.Record, cause error) error {
	e.vfs.Log.Warn("reserved VF is not clean", "pf", at.Label, "vf", rec.ID.Index, "err", cause)
	if errors.Is(cause, hold.ErrGone) {
		return errors.Join(cause, e.vfs.Ledger.Update(func(tx *journal.Tx) error {
			return errors.Join(tx.Delete(rec.ID), tx.FreeAddresses(rec.ID))
		}))
	}
	rec.Lease = journal.Lease{}
	return errors.Join(cause, e.resets.QuarantineVF(rec, cause))
}

// twin is an error about other work on the same attachment: an ADD, mostly of a caller that was
// killed, so that the ADD will be undone; or a release.
type twin struct {
	error
	work *keylock.Work
}

func (t twin) Unwrap() error { return t.error }

// errBusy says that the chosen VF is free, but culvertd is working on it.
var errBusy = errors.New("other work is under way on it")

// reserveVF chooses a VF and addresses, locks the VF and writes the lease, in one transaction:
// the intent is durable before the kernel is touched, and the VF stays locked between the
// reservation and the work. It passes over free VFs that culvertd is working on. Only if no other VF
// is free, it waits until the first of them is idle, and chooses again.
func (e *Engine) reserveVF(ctx context.Context, req Request) (reservation, error) {
	busy := map[vf.ID]*keylock.Work{}
	for {
		given, err := e.askGiven(ctx, req)
		if err != nil {
			return reservation{}, err
		}
		req.tenant, req.missing = e.tenantOf(ctx, req), e.missingPools()
		got, err := e.writeReservation(req, busy, given)
		for errors.Is(err, errBusy) { // until a VF is found, or all are busy
			got, err = e.writeReservation(req, busy, given)
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
		if ended := waitForIdle(ctx, busy); ended != nil {
			return got, fmt.Errorf("%w; %w", err, ended)
		}
		clear(busy)
	}
}

// errIdle ends the waits of waitForIdle.
var errIdle = errors.New("a VF is idle")

// waitForIdle waits until the first of the busy VFs is idle. It does not wait for the others, since
// the work on one VF may hang as long as a kernel call does (TestAttachWaitsForOneBusyVF). If ctx
// ends before, the error names one of the VFs with its work, and wraps ctx's cause.
func waitForIdle(ctx context.Context, busy map[vf.ID]*keylock.Work) error {
	g, waiting := errgroup.WithContext(ctx)
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

// writeReservation is the transaction of reserveVF. It adds the busy VFs that it meets to busy.
func (e *Engine) writeReservation(req Request, busy map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (got reservation, err error) {
	err = e.vfs.Ledger.Update(func(tx *journal.Tx) error {
		if req.Bond != nil {
			got, err = e.reserveMembers(tx, req, busy, given)
		} else {
			got, err = e.reserveOne(tx, req, busy, given)
		}
		return err
	})
	if err != nil {
		got.unlockAll()
	}
	return got, err
}

// reserveOne chooses one VF, locks it and writes its lease. After an error the reservation may
// have a lock.
func (e *Engine) reserveOne(tx *journal.Tx, req Request, busy map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (got reservation, err error) {
	choice, err := e.chooseWithFreeMAC(tx, req, busy, given)
	if err != nil {
		return got, err
	}
	unlock, other := e.vfs.Locks.TryLock(choice.Record.ID, "the attach to "+req.Owner.String())
	if other != nil {
		busy[choice.Record.ID] = other
		return got, errBusy
	}
	got = reservation{at: lease.SiteOf(choice.PF, choice.Record), unlock: unlock}
	got.rec, err = e.writeLease(tx, choice, req)
	return got, err
}

// chooseWithFreeMAC chooses a VF whose MAC address is not in use (I9). If the request names
// neither a VF nor a MAC address, it passes over VFs whose own MAC address is in use.
func (e *Engine) chooseWithFreeMAC(tx *journal.Tx, req Request, busy map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (alloc.Choice, error) {
	var inUse error
	except := maps.Clone(busy)
	for id := range req.passed {
		except[id] = nil
	}
	for {
		choice, err := e.chooseVF(tx, req, except, given)
		if err != nil {
			return choice, cmp.Or(inUse, err)
		}
		err = e.addresses.neighboursOf(tx, choice, req).checkMAC(req.Spec, choice.Record.Baseline)
		if err == nil || req.Spec.MAC != nil || !req.VF.IsZero() {
			return choice, err
		}
		inUse, except[choice.Record.ID] = err, nil
	}
}

// chooseVF chooses a free VF that is not among the keys of except.
func (e *Engine) chooseVF(tx *journal.Tx, req Request, except map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (alloc.Choice, error) {
	records := tx.Records()
	for _, r := range records {
		if slices.Contains(req.members, r.ID) {
			continue
		}
		if err := e.checkTwin(r, req.Owner); err != nil {
			return alloc.Choice{}, err
		}
	}
	want := alloc.Want{
		VF: req.VF, Pool: req.Pool, For: req.Owner, Network: req.Network, MAC: req.Spec.MAC, Given: given,
		Bond: req.Bond, Members: req.members, OfPod: req.ofPod, Segment: req.Segment,
	}
	var err error
	if want.Apart, err = apartFrom(records, req); err != nil {
		return alloc.Choice{}, err
	}
	host := alloc.Host{PFs: e.vfs.Hardware.PFs(), Records: slices.DeleteFunc(records, func(r journal.Record) bool { _, out := except[r.ID]; return out }), Spec: e.vfs.Spec(), IsDark: e.vfs.IsDark}
	choice, err := alloc.Choose(host, want)
	if err != nil {
		return choice, err
	}
	return choice, choice.PF.Fits(req.Spec, choice.Record.Baseline.Admin, host.Spec.WhereDeclared(choice.PF))
}

// apartFrom returns the VF of the interface that the request names in Apart. The new VF must be
// on another PF.
func apartFrom(records []journal.Record, req Request) (vf.ID, error) {
	if req.Apart == "" {
		return vf.ID{}, nil
	}
	other := req.Owner
	other.Interface = req.Apart
	for _, r := range records {
		if r.Phase == vf.PhaseAttached && lease.SameAttachment(r.Lease.Owner, other) {
			return r.ID, nil
		}
	}
	return vf.ID{}, fmt.Errorf("a VF apart from %s of %s: %w: that one has no VF", req.Apart, req.Owner, vf.ErrInvalid)
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

// writeLease writes the lease with its addresses, if the pool allows all that the lease has (I9).
func (e *Engine) writeLease(tx *journal.Tx, choice alloc.Choice, req Request) (journal.Record, error) {
	rec := choice.Record
	spec := req.Spec
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
