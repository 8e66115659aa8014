package attach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

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
func (e *Engine) renewGuards(ctx context.Context, members []reservation) (at lease.Site, err error) {
	at = members[0].at
	if members[0].rec.Lease.Wanted.Guard == "" {
		return at, nil
	}
	pinned := bondAddresses(members)
	for i := range members {
		members[i].rec.Lease.Wanted.GuardAddresses = pinned
	}
	err = e.vfs.Ledger.Update(func(tx *journal.Tx) error {
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
		if err := e.carryOut(ctx, m.at, &m.rec, lease.GuardSteps(m.at.Place, m.rec)); err != nil {
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
	seen := e.vfs.Hardware.PFs()
	return slices.ContainsFunc(vfs, func(r journal.Record) bool {
		_, st, _ := hold.FindListed(r, seen)
		return st.RDMA != nil
	})
}
