package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/step"
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
	defer e.observeDuration(OperationAttach, e.Now(), &err)
	return replaceDuplicates(ctx, req, e.attachBondOnce)
}

// attachBondOnce is one try of AttachBond. left is the number of tries that are left after it.
func (e *Engine) attachBondOnce(ctx context.Context, req Request, left int) (Bonded, error) {
	got, err := e.reserveClean(ctx, req)
	if err != nil {
		return Bonded{}, err
	}
	defer got.unlockAll()
	members := got.all()
	done, at, err := e.configureBond(ctx, members, req)
	if err != nil {
		err = e.reportDuplicates(got.at, members[0].rec, req, left, err)
		for _, m := range slices.Backward(got.all()) {
			e.undoAttach(ctx, m.at, m.rec, err)
		}
		return Bonded{}, fmt.Errorf("attach VF %s of PF %s to %s, in bond %s: %w", at.pci, at.label, req.Owner, req.Owner.Interface, err)
	}
	first := done.Members[0]
	e.aside.remove(req.addressPool(), first.Lease.Wanted.Addresses)
	e.announceAddresses(ctx, got.at, first)
	e.followDetection(ctx, got.at, first, done.first, req)
	return done, nil
}

// bondOf returns the name of the bond's interface of which a leased VF is a member. It is empty
// for a VF of its own and for a VF of vfio.
func bondOf(rec journal.Record) string {
	if rec.Lease.Bond == nil || rec.Lease.Wanted.Driver == vf.DriverVFIO {
		return ""
	}
	return rec.Lease.Owner.Interface
}

// configureBond applies the leases to the kernel, reads the state back, and writes the outcome to
// the ledger in one transaction. After an error, at is the VF on which it failed.
func (e *Engine) configureBond(ctx context.Context, members []reservation, req Request) (done Bonded, at site, err error) {
	first := &members[0]
	if at = first.at; bondOf(first.rec) != "" {
		if err := e.doStep(ctx, addBondStep(first.rec)); err != nil {
			return done, at, err
		}
	}
	for i := range members {
		m := &members[i]
		if err := e.carryOut(ctx, m.at, &m.rec, attachSteps(m.at.place, m.rec, req.detects())); err != nil {
			return done, m.at, err
		}
	}
	if err := e.carryOut(ctx, at, &first.rec, bondSteps(at.place, first.rec, req.detects())); err != nil {
		return done, at, err
	}
	if req.Late != nil {
		if at, err = e.addLateToBond(ctx, members, req); err != nil {
			return done, at, err
		}
	}
	if done, at, err = e.readBackBond(ctx, members); err != nil {
		return done, at, err
	}
	if ctx.Err() != nil { // its DEL may have come and gone before there was anything to delete
		return done, at, fmt.Errorf("the caller disconnected: %w", context.Cause(ctx))
	}
	return done, at, e.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, m := range members {
			errs = append(errs, putAttached(tx, m.at, m.rec))
		}
		return errors.Join(errs...)
	})
}

// readBackBond compares the kernel with the leases of a bond's VFs, and turns their records into
// those of attached VFs. After an error, at is the VF that differs.
func (e *Engine) readBackBond(ctx context.Context, members []reservation) (done Bonded, at site, err error) {
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

func addBondStep(rec journal.Record) step.Step {
	s := step.AddBond{Netns: rec.Lease.Netns, Name: bondOf(rec), Mark: rec.Lease.BondMark, Bond: *rec.Lease.Bond}
	if mtu := rec.Lease.Wanted.MTU; mtu != nil {
		s.MTU = *mtu
	}
	return s
}

// bondSteps returns the steps that complete a bond after all its members were added. If the network
// names a primary PF, the first member becomes the primary one.
func bondSteps(p place, rec journal.Record, detect bool) []step.Step {
	bond, ns := bondOf(rec), rec.Lease.Netns
	if bond == "" {
		return nil
	}
	var out []step.Step
	if rec.Lease.Bond.Primary != "" {
		out = append(out, step.SetBondPrimary{VF: p.pci, Netns: ns, Bond: bond})
	}
	out = append(out, step.SetUp{VF: p.pci, Netns: ns, Bond: bond, Up: true})
	return append(out, addressSteps(p, rec, detect)...)
}

// removeBond removes the bond of which a VF is a member, before the VF is reset. That also ends the
// bond for the other members: an attachment ends as a whole. removeBond does nothing for a VF that
// is not in a bond. While the bond exists, the VF gets no new owner, since the bond may still have
// the addresses of the lease.
func (e *Engine) removeBond(ctx context.Context, rec journal.Record) error {
	bond := bondOf(rec)
	if bond == "" {
		return nil
	}
	if err := e.doStep(ctx, step.DelBond{VF: rec.PCI, Netns: rec.Lease.Netns, Name: bond, Mark: rec.Lease.BondMark}); err != nil {
		return err
	}
	st, err := e.readVF(ctx, rec)
	if err == nil && st.Link != nil && st.Link.Bond != nil && st.Link.Bond.Mark == rec.Lease.BondMark {
		return fmt.Errorf("bond %s of %s was removed, and is still there", bond, rec.Lease.Owner)
	}
	return nil // resetVF reads the VF, too
}

// removeEmptyBond removes the bond of a VF that is no longer on the bus, unless another VF of the
// bond is. Otherwise the pod would keep an interface with addresses that no lease holds.
func (e *Engine) removeEmptyBond(ctx context.Context, gone journal.Record) error {
	if bondOf(gone) == "" {
		return nil
	}
	records, err := e.readRecords()
	if err != nil {
		return err
	}
	for _, r := range records {
		if !r.IsMemberWith(gone) {
			continue
		}
		if _, err := e.readVF(ctx, r); !errors.Is(err, errGone) {
			return nil
		}
	}
	return e.removeBond(ctx, gone)
}

// detachBond takes all VFs of a bond back, the last one first. It skips a member whose release has
// failed before, since culvertd retries that release separately.
func (e *Engine) detachBond(ctx context.Context, rec journal.Record) error {
	records, err := e.readRecords()
	errs := []error{err}
	for _, r := range slices.Backward(membersOf(records, rec)) {
		errs = append(errs, e.detachLease(ctx, r, "Detached", nil))
	}
	return errors.Join(errs...)
}

// membersOf returns rec and the other held records of its bond, in the order of their interface
// names. It leaves out members whose release has failed before.
func membersOf(records []journal.Record, rec journal.Record) (out []journal.Record) {
	for _, r := range records {
		if r.ID == rec.ID || r.IsMemberWith(rec) && r.Held() && r.Attempts == 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b journal.Record) int { return cmp.Compare(a.Lease.Wanted.Interface, b.Lease.Wanted.Interface) })
	return out
}
