package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/alloc"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/keylock"
	"github.com/culvert-net/culvert/vf"
)

// site is a VF's place with the name that messages give its PF, and that PF's
// driver.
type site struct {
	place
	label  string
	driver vf.Driver
	mtu    int // of the PF
}

func siteOf(pf vf.PF, rec journal.Record) site {
	return site{place{pf: pf.PCI, pci: rec.PCI, index: rec.ID.Index}, pf.Label(), vf.DriverOf(pf.Driver), pf.MTU}
}

// site finds where a recorded VF is now; vf.ErrNotFound when its PF is not on
// this host (any more).
func (e *Engine) site(rec journal.Record) (site, error) {
	for _, pf := range e.Hardware.PFs() {
		if pf.ID == rec.ID.PF {
			return siteOf(pf, rec), nil
		}
	}
	return site{label: rec.ID.PF.String()}, fmt.Errorf("PF %s: %w on this host", rec.ID.PF, vf.ErrNotFound)
}

// reservation is a VF with a lease, locked until unlock is called.
type reservation struct {
	rec    journal.Record
	at     site
	unlock func()
}

// reserveClean reserves a VF and makes sure that it is clean: a VF that was changed
// outside Culvert is quarantined, and reserveClean takes another.
func (e *Engine) reserveClean(ctx context.Context, req Request) (reservation, error) {
	for {
		got, err := e.reserveWithAddresses(ctx, req)
		if err != nil {
			return got, err
		}
		rec, at := got.rec, got.at
		st, err := e.look(ctx, rec)
		if err == nil {
			if err = e.clean(ctx, rec, st); err == nil {
				return got, nil
			}
		}
		if ctx.Err() != nil { // who asked has gone; that says nothing about the VF
			e.undo(ctx, at, rec, err)
		} else {
			err = e.unfit(at, rec, err)
		}
		got.unlock()
		if !req.VF.IsZero() || ctx.Err() != nil {
			return reservation{}, fmt.Errorf("attach VF %s of PF %s to %s: %w", rec.PCI, at.label, req.Owner, err)
		}
	}
}

// clean says what is wrong with a VF that should be as it was left, and nobody's.
func (e *Engine) clean(ctx context.Context, rec journal.Record, st vf.State) error {
	if d := rec.Baseline.Diff(st); len(d) > 0 {
		return fmt.Errorf("free, but not as it was left: %s", vf.Differences(d))
	}
	if st.Driver != vf.DriverVFIO {
		return nil
	}
	if err := e.InUse(ctx, rec); err != nil {
		return fmt.Errorf("free, but somebody uses it: %w", err)
	}
	return nil
}

// unfit keeps a VF from everybody that was promised and turned out not to be
// clean, or not to be there; its owner-to-be never got it.
func (e *Engine) unfit(at site, rec journal.Record, cause error) error {
	e.Log.Warn("reserved VF is not clean", "pf", at.label, "vf", rec.ID.Index, "err", cause)
	rec.Lease = journal.Lease{}
	if errors.Is(cause, errGone) {
		return errors.Join(cause, e.forget(rec, cause))
	}
	return errors.Join(cause, e.quarantine(rec, cause))
}

// twin is other work on the same attachment: an ADD, mostly one whose caller was
// killed, so that it will be undone, or what undoes one.
type twin struct {
	error
	work *keylock.Work
}

func (t twin) Unwrap() error { return t.error }

// errBusy is a VF that is free and that somebody works on at the moment.
var errBusy = errors.New("somebody works on it")

// reserve chooses a VF and addresses, locks the VF and writes the lease, in one
// transaction: intent is durable before the kernel is touched, and nobody else
// works on a VF between the promise and the work. Free VFs that are just being
// looked after are left out, and waited for when there are no others.
func (e *Engine) reserve(ctx context.Context, req Request) (reservation, error) {
	busy := map[vf.ID]*keylock.Work{}
	for {
		given, err := e.askGiven(ctx, req)
		if err != nil {
			return reservation{}, err
		}
		req.tenant, req.missing = e.tenantOf(ctx, req), e.missingPools()
		got, err := e.promise(req, busy, given)
		for errors.Is(err, errBusy) { // until a VF is found, or all are busy
			got, err = e.promise(req, busy, given)
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
		for id, work := range busy {
			select {
			case <-work.Done():
			case <-ctx.Done():
				return got, fmt.Errorf("%w; VF %s may be free soon, %s has not ended: %w", err, id, work, context.Cause(ctx))
			}
		}
		clear(busy)
	}
}

// askGiven asks which VFs the kubelet has given to pods. reserve asks again after every
// wait: the kubelet may have given one meanwhile.
func (e *Engine) askGiven(ctx context.Context, req Request) (func(vf.PCIAddr) string, error) {
	if e.Given == nil {
		return nil, nil //nolint:nilnil // without Kubernetes there is none
	}
	given, err := e.Given(ctx)
	if err != nil {
		return nil, fmt.Errorf("choose a VF for %s: %w", req.Owner, err)
	}
	return given, nil
}

// promise is reserve's transaction. What it finds busy it adds to busy.
func (e *Engine) promise(req Request, busy map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (got reservation, err error) {
	err = e.Ledger.Update(func(tx *journal.Tx) error {
		choice, err := e.chooseWithFreeMAC(tx, req, busy, given)
		if err != nil {
			return err
		}
		unlock, other := e.vfs.TryLock(choice.Record.ID, "the attach to "+req.Owner.String())
		if other != nil {
			busy[choice.Record.ID] = other
			return errBusy
		}
		got = reservation{at: siteOf(choice.PF, choice.Record), unlock: unlock}
		got.rec, err = e.lease(tx, choice, req)
		return err
	})
	if err != nil && got.unlock != nil {
		got.unlock()
	}
	return got, err
}

func (e *Engine) record(id vf.ID) (rec journal.Record, err error) {
	err = e.Ledger.View(func(tx *journal.Tx) error {
		rec, err = tx.Record(id)
		return err
	})
	return rec, err
}

// chooseWithFreeMAC chooses a VF with a MAC address that is not in use (I9). It passes over
// a VF whose own MAC address is, where the request names neither a VF nor a MAC address.
func (e *Engine) chooseWithFreeMAC(tx *journal.Tx, req Request, busy map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (alloc.Choice, error) {
	var inUse error
	except := maps.Clone(busy)
	for {
		choice, err := e.choose(tx, req, except, given)
		if err != nil {
			return choice, cmp.Or(inUse, err)
		}
		err = e.neighbours(tx, choice, req).checkMAC(req.Spec, choice.Record.Baseline)
		if err == nil || req.Spec.MAC != nil || !req.VF.IsZero() {
			return choice, err
		}
		inUse, except[choice.Record.ID] = err, nil
	}
}

// choose chooses a free VF that is not among the keys of except.
func (e *Engine) choose(tx *journal.Tx, req Request, except map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (alloc.Choice, error) {
	records := tx.Records()
	for _, r := range records {
		if err := e.owns(r, req.Owner); err != nil {
			return alloc.Choice{}, err
		}
	}
	want := alloc.Want{VF: req.VF, Pool: req.Pool, For: req.Owner, Network: req.Network, MAC: req.Spec.MAC, Given: given}
	var err error
	if want.Apart, err = apart(records, req); err != nil {
		return alloc.Choice{}, err
	}
	host := alloc.Host{PFs: e.Hardware.PFs(), Records: slices.DeleteFunc(records, func(r journal.Record) bool { _, out := except[r.ID]; return out }), Spec: e.Spec()}
	choice, err := alloc.Choose(host, want)
	if err != nil {
		return choice, err
	}
	return choice, choice.PF.Fits(req.Spec, host.Spec.WhereDeclared(choice.PF))
}

// apart is the VF of the owner's interface that a request names, on whose PF the new
// one must not be.
func apart(records []journal.Record, req Request) (vf.ID, error) {
	if req.Apart == "" {
		return vf.ID{}, nil
	}
	other := req.Owner
	other.Interface = req.Apart
	for _, r := range records {
		if r.Phase == journal.Attached && sameAttachment(r.Lease.Owner, other) {
			return r.ID, nil
		}
	}
	return vf.ID{}, fmt.Errorf("a VF apart from %s of %s: %w: that one has no VF", req.Apart, req.Owner, vf.ErrInvalid)
}

// owns says why an attachment can have no VF besides the one that is recorded, or
// nil; the error is a twin when that will change. One that is being released is not
// the attachment's any more, but the first time somebody is at it the interface may
// be in the netns still, under its name. Later times it comes out of quarantine,
// which may take for ever: nobody waits for that.
func (e *Engine) owns(r journal.Record, who vf.Owner) error {
	if !r.Held() || !sameAttachment(r.Lease.Owner, who) {
		return nil
	}
	work := e.vfs.Holder(r.ID)
	switch {
	case r.Phase == journal.Releasing && (work == nil || r.Attempts > 0):
		return nil
	case r.Phase == journal.Releasing:
		return twin{fmt.Errorf("VF %s is being taken back from %s of %s: %w", r.PCI, who.Interface, who, vf.ErrHeld), work}
	}
	held := fmt.Errorf("%s has VF %s as %s already: %w: delete that attachment first", who, r.PCI, who.Interface, vf.ErrHeld)
	if work != nil && r.Phase == journal.Configuring {
		return twin{held, work}
	}
	return held
}

// lease writes what the owner is promised, with its addresses, where the pool allows
// all of it (I9).
func (e *Engine) lease(tx *journal.Tx, choice alloc.Choice, req Request) (journal.Record, error) {
	rec := choice.Record
	spec := req.Spec
	spec.Driver = choice.Driver
	if req.Owner.Kind == vf.OwnerGuest {
		spec.Driver = vf.DriverVFIO // of any pool: QEMU takes PCI functions and no netdevices
	}
	if spec.Driver != vf.DriverVFIO && req.Netns == "" {
		return rec, fmt.Errorf("netns: %w: VF %s is a network interface and needs the pod's network namespace", vf.ErrInvalid, rec.PCI)
	}
	rec.Generation++
	rec.Phase = journal.Configuring
	rec.Lease = journal.Lease{
		Owner: req.Owner, PodUID: req.PodUID, Network: req.Network, AddressPool: req.AddressPool, Pool: choice.Pool, Netns: req.Netns, Wanted: spec, Request: req.Raw, Delegation: req.Delegation,
	}
	if spec.Driver == vf.DriverVFIO {
		rec.Lease.Netns = ""
	}
	if err := e.addresses(tx, choice, &rec, req); err != nil {
		return rec, err
	}
	if err := checkAllowed(choice, req, rec.Lease.Wanted); err != nil {
		return rec, fmt.Errorf("network %s for %s: %w", req.Network, req.Owner, err)
	}
	return rec, tx.Put(rec)
}

// sameAttachment compares what names an attachment: the owner's UID and the
// interface.
func sameAttachment(a, b vf.Owner) bool { return a.UID == b.UID && a.Interface == b.Interface }
