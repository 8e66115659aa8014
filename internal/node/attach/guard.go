package attach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// readGuarded is readVF with the guard of a VF whose lease has one and whose interface is with its
// owner. A release uses readVF, since a guard that cannot be read must not keep the VF from its
// reset.
func (e *Engine) readGuarded(ctx context.Context, rec journal.Record) (vf.State, error) {
	st, err := e.readVF(ctx, rec)
	if err != nil || rec.Lease.Wanted.Guard == "" || st.Link == nil || st.Link.Netns == "" {
		return st, err
	}
	g, err := e.Kernel.Guard(ctx, rec.PCI, st.Link.Netns)
	if err == nil {
		link := *st.Link
		link.Guard = &g
		st.Link = &link
	}
	return st, err
}

// withoutGuard returns the state without the guard, which pins the lease's addresses and not those
// of a later plugin.
func withoutGuard(st vf.State) vf.State {
	if st.Link != nil {
		link := *st.Link
		link.Guard = nil
		st.Link = &link
	}
	return st
}

// guardSteps returns the step that sets the guard of a lease to its addresses.
func guardSteps(p place, rec journal.Record) []step.Step {
	if rec.Lease.Wanted.Guard == "" {
		return nil
	}
	return []step.Step{step.SetGuard{VF: p.pci, Netns: rec.Lease.Netns, Guard: rec.Lease.Wanted.GuardOver(rec.Baseline)}}
}

// bondAddresses returns the addresses that the guard pins at each member of a bond: those that IPAM
// gave, and the link-local addresses of all members. The bond keeps the link-local address that it
// made of the MAC address of one member when another one sends.
func bondAddresses(members []reservation) (out []netip.Addr) {
	for _, m := range members {
		for _, a := range m.rec.Lease.Wanted.Addresses {
			out = append(out, a.Prefix.Addr())
		}
		out = append(out, m.rec.Lease.Wanted.MACOver(m.rec.Baseline).LinkLocal())
	}
	return out
}

// renewGuards gives the guards of a bond's members the addresses that the first one got late. After an
// error, at is the VF on which it failed.
func (e *Engine) renewGuards(ctx context.Context, members []reservation) (at site, err error) {
	at = members[0].at
	if members[0].rec.Lease.Wanted.Guard == "" {
		return at, nil
	}
	pinned := bondAddresses(members)
	for i := range members {
		members[i].rec.Lease.Wanted.GuardAddresses = pinned
	}
	err = e.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, m := range members {
			errs = append(errs, tx.Put(m.rec))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return at, err
	}
	for i := range members {
		m := &members[i]
		if err := e.carryOut(ctx, m.at, &m.rec, guardSteps(m.at.place, m.rec)); err != nil {
			return m.at, err
		}
	}
	return at, nil
}

// checkGuard refuses a guard where it would pin nothing.
func checkGuard(rec journal.Record, spec vf.Spec) error {
	if spec.Guard == "" || spec.Driver != vf.DriverVFIO {
		return nil
	}
	return fmt.Errorf("guard %s: %w: VF %s is passed to a program or a guest (%s), which sends past the kernel: take guard out and set spoofchk, which the NIC applies, or use a pool of network interfaces",
		spec.Guard, vf.ErrInvalid, rec.PCI, vf.DriverVFIO)
}

// HasRDMA reports whether one of the VFs has an RDMA device, as the hardware was last listed.
// Traffic through that device bypasses the VF's guard.
func (e *Engine) HasRDMA(vfs ...journal.Record) bool {
	seen := e.Hardware.PFs()
	return slices.ContainsFunc(vfs, func(r journal.Record) bool {
		_, st, _ := findListed(r, seen)
		return st.RDMA != nil
	})
}

// RemoveGuard removes the guard of a lease from the owner's netns, after the VF has left it. So
// the owner never sends without it. A table that stays would hold the next interface of that name
// there to the old addresses.
func (e *Engine) RemoveGuard(ctx context.Context, rec journal.Record) error {
	if rec.Lease.Wanted.Guard == "" || rec.Lease.Netns == "" {
		return nil
	}
	if err := e.doStep(ctx, step.DelGuard{VF: rec.PCI, Netns: rec.Lease.Netns}); err != nil {
		return err
	}
	left, err := e.Kernel.Guard(ctx, rec.PCI, rec.Lease.Netns)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if text := left.String(); text != (vf.Guard{}).String() {
		return fmt.Errorf("the guard of VF %s is still in %s: %s", rec.PCI, rec.Lease.Netns, text)
	}
	return nil
}

// removeGuardAfter removes the guard of a lease after a reset that gave the error err, and returns
// what is wrong with the VF. It leaves the guard of a VF that may still be with its owner; a later
// retry removes it.
func (e *Engine) removeGuardAfter(ctx context.Context, rec journal.Record, err error) error {
	if err != nil && !errors.Is(err, errGone) {
		return err
	}
	if left := e.RemoveGuard(ctx, rec); left != nil {
		return left
	}
	return err
}

// needsGuardLook reports whether upkeep is to read the guard of an attached VF.
func (e *Engine) needsGuardLook(r journal.Record) bool {
	since := e.Now().Sub(e.guardLooks.loadValue(r))
	return since < 0 || since >= linkLook
}

// tendGuard mends or reports the guard of a VF that differs in nothing else from its lease. It
// reads nothing but the guard unless the guard differs. It runs with the VF locked.
func (e *Engine) tendGuard(ctx context.Context, rec journal.Record) error {
	done, err := e.waitForTurn(ctx, lookPatience)
	if err != nil {
		return nil //nolint:nilerr // the next pass looks
	}
	g, err := e.Kernel.Guard(ctx, rec.PCI, rec.Lease.Netns)
	done()
	if err != nil {
		return fmt.Errorf("VF %s of %s: %w", rec.PCI, rec.Lease.Owner, err)
	}
	e.guardLooks.storeValue(rec, e.Now())
	if len(rec.Lease.Wanted.GuardDiff(rec.Baseline, vf.Link{Guard: &g})) == 0 {
		e.isNews(rec, "")
		return nil
	}
	return e.handleDrift(ctx, rec)
}

// readForMending is readGuarded for upkeep, when its turn comes.
func (e *Engine) readForMending(ctx context.Context, rec journal.Record) (vf.State, error) {
	done, err := e.waitForTurn(ctx, mendPatience)
	if err != nil {
		return vf.State{}, fmt.Errorf("read VF %s in the netns of %s: %w", rec.PCI, rec.Lease.Owner, err)
	}
	defer done()
	return e.readGuarded(ctx, rec)
}

// guardDrift returns the difference between the guard of an attached VF and its lease. It needs
// the owner's netns; a VF that is not there has none.
func (e *Engine) guardDrift(ctx context.Context, rec journal.Record) ([]vf.Difference, error) {
	if rec.Lease.Wanted.Guard == "" {
		return nil, nil
	}
	st, err := e.readForMending(ctx, rec)
	if err != nil || st.Link == nil || st.Link.Guard == nil {
		return nil, err
	}
	return rec.Lease.Wanted.GuardDiff(rec.Baseline, *st.Link), nil
}
