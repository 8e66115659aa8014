package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Bonded is a bond that was attached.
type Bonded struct {
	// Members are the records of its VFs; the first one has the addresses.
	Members []journal.Record
	// MAC and MTU are those of the bond's interface. They are zero for VFs of vfio, which have
	// none.
	MAC vf.MAC
	MTU int

	first vf.State // of the first member, as it was read back
}

// AttachBond gives the owner a bond of VFs as the request wants it. The VFs have several leases of
// one attachment, which AttachBond writes together and a detach ends together. AttachBond promises
// what Attach promises. For VFs bound to vfio-pci it makes no bond interface, since the owner's
// program makes its own bond.
//
// It returns the errors of Attach.
func (e *Engine) AttachBond(ctx context.Context, req Request) (_ Bonded, err error) {
	req.watch = e.vfs.StartWatch(hold.OperationAttach)
	defer req.watch.EndOperation(&err)
	return replaceDuplicates(ctx, req, e.attachBondOnce)
}

// attachBondOnce is one try of AttachBond. left is the number of tries that are left after it.
func (e *Engine) attachBondOnce(ctx context.Context, req Request, left int) (Bonded, error) {
	got, err := e.reserveClean(ctx, req)
	req.watch.EndStep(hold.StepReserve, err)
	if err != nil {
		return Bonded{}, err
	}
	defer got.unlockAll()
	members := got.all()
	done, at, err := e.configureBond(ctx, members, req)
	if err != nil {
		err = e.addresses.reportDuplicates(got.at, members[0].rec, req, left, err)
		var left []error
		for _, m := range slices.Backward(got.all()) {
			left = append(left, e.undoAttach(ctx, m.at, m.rec, err))
		}
		req.watch.EndStep(hold.StepUndo, errors.Join(left...))
		return Bonded{}, fmt.Errorf("attach VF %s of PF %s to %s, in bond %s: %w", at.VF, at.Label, req.Owner, req.Owner.Interface, err)
	}
	first := done.Members[0]
	e.addresses.aside.remove(req.addressPool(), first.Lease.Wanted.Addresses)
	e.vfs.AnnounceAddresses(ctx, got.at, first)
	e.addresses.followDetection(ctx, got.at, first, done.first, req)
	return done, nil
}

// configureBond applies the leases to the kernel, reads the state back, and writes the outcome to
// the ledger in one transaction. After an error, at is the VF on which it failed.
func (e *Engine) configureBond(ctx context.Context, members []reservation, req Request) (done Bonded, at lease.Site, err error) {
	at, err = e.changeBond(ctx, members, req)
	req.watch.EndStep(hold.StepConfigure, err)
	if err != nil {
		return done, at, err
	}
	if req.Late != nil {
		at, err = e.addLateToBond(ctx, members, req)
		req.watch.EndStep(hold.StepPlugin, err)
		if err != nil {
			return done, at, err
		}
	}
	done, at, err = e.readBackBond(ctx, members)
	req.watch.EndStep(hold.StepReadBack, err)
	if err != nil {
		return done, at, err
	}
	if ctx.Err() != nil { // its DEL may have come and gone before there was anything to delete
		return done, at, fmt.Errorf("the caller disconnected: %w", context.Cause(ctx))
	}
	err = e.vfs.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, m := range members {
			errs = append(errs, putAttached(tx, m.at, m.rec))
		}
		return errors.Join(errs...)
	})
	req.watch.EndStep(hold.StepRecord, err)
	return done, at, err
}

// changeBond makes the bond and its members as the leases want. After an error, at is the VF on which
// it failed.
func (e *Engine) changeBond(ctx context.Context, members []reservation, req Request) (at lease.Site, err error) {
	first := &members[0]
	if at = first.at; lease.BondOf(first.rec) != "" {
		if err := e.vfs.DoStep(ctx, lease.AddBondStep(first.rec)); err != nil {
			return at, err
		}
	}
	for i := range members {
		m := &members[i]
		if err := e.carryOut(ctx, m.at, &m.rec, lease.AttachSteps(m.at.Place, m.rec, req.detects())); err != nil {
			return m.at, err
		}
	}
	return at, e.carryOut(ctx, at, &first.rec, lease.BondSteps(at.Place, first.rec, req.detects()))
}

// readBackBond compares the kernel with the leases of a bond's VFs, and turns their records into
// those of attached VFs. After an error, at is the VF that differs.
func (e *Engine) readBackBond(ctx context.Context, members []reservation) (done Bonded, at lease.Site, err error) {
	for i := range members {
		m := &members[i]
		var st vf.State
		if m.rec, st, err = e.readBack(ctx, m.at, m.rec); err != nil {
			return done, m.at, err
		}
		done.Members = append(done.Members, m.rec)
		if i > 0 || st.Link == nil || st.Link.Bond == nil {
			continue
		}
		if m.rec.Lease.Bond.Primary != "" && !st.Link.Bond.Primary {
			return done, m.at, errors.New("the kernel accepted every step, but the VF is not the primary member of its bond")
		}
		done.MAC, done.MTU = st.Link.Bond.Link.MAC, st.Link.Bond.Link.MTU
	}
	return done, members[0].at, nil
}
