package attach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/culvert-net/culvert/alloc"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// site is a VF's place with the name that messages give its PF.
type site struct {
	place
	label string
}

func siteOf(pf vf.PF, rec journal.Record) site {
	return site{place{pf: pf.PCI, pci: rec.PCI, index: rec.ID.Index}, pf.Label()}
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

// reserveClean reserves a VF, locks it and makes sure that it is clean: one
// that somebody changed behind our back is quarantined, and another is taken.
func (e *Engine) reserveClean(ctx context.Context, req Request) (journal.Record, site, error) {
	for {
		rec, at, err := e.reserve(req)
		if err != nil {
			return rec, at, err
		}
		st, err := e.Kernel.VF(ctx, rec.PCI, "")
		if err == nil {
			d := rec.Baseline.Diff(st)
			if len(d) == 0 {
				return rec, at, nil
			}
			err = fmt.Errorf("free, but not as it was left: %s", vf.Differences(d))
		}
		if ctx.Err() != nil { // who asked has gone; that says nothing about the VF
			e.undo(ctx, at, rec, err)
		} else {
			e.Log.Warn("reserved VF is not clean", "pf", at.label, "vf", rec.ID.Index, "err", err)
			rec.Lease = journal.Lease{} // it was promised, and never given
			err = errors.Join(err, e.quarantine(rec, err))
		}
		e.vfs.unlock(rec.ID)
		if !req.VF.IsZero() || ctx.Err() != nil {
			return journal.Record{}, at, fmt.Errorf("attach VF %s of PF %s to %s: %w", rec.PCI, at.label, req.Owner, err)
		}
	}
}

// reserve chooses a VF and addresses and writes the lease, in one transaction:
// intent is durable before the kernel is touched. It returns with the VF
// locked.
func (e *Engine) reserve(req Request) (rec journal.Record, at site, err error) {
	err = e.Ledger.Update(func(tx *journal.Tx) error {
		choice, err := e.choose(tx, req)
		if err != nil {
			return err
		}
		at = siteOf(choice.PF, choice.Record)
		rec, err = lease(tx, choice, req)
		return err
	})
	if err != nil {
		return rec, at, err
	}
	// The lease is ours from here on: whoever has the lock now (Tend, reading)
	// leaves a VF alone that is not free, and a Detach that comes first is seen
	// by the generation and phase.
	e.vfs.lock(rec.ID)
	now, err := e.record(rec.ID)
	if err == nil && (now.Generation != rec.Generation || now.Phase != journal.Configuring) {
		err = fmt.Errorf("VF %s of PF %s: %s was detached while it was being attached", rec.PCI, at.label, req.Owner)
	}
	if err != nil {
		e.vfs.unlock(rec.ID)
	}
	return rec, at, err
}

func (e *Engine) record(id vf.ID) (rec journal.Record, err error) {
	err = e.Ledger.View(func(tx *journal.Tx) error {
		rec, err = tx.Record(id)
		return err
	})
	return rec, err
}

func (e *Engine) choose(tx *journal.Tx, req Request) (alloc.Choice, error) {
	records, err := tx.Records()
	if err != nil {
		return alloc.Choice{}, err
	}
	for _, r := range records {
		if r.Held() && sameAttachment(r.Lease.Owner, req.Owner) {
			return alloc.Choice{}, fmt.Errorf("%s has VF %s as %s already: %w: delete that attachment first",
				req.Owner, r.PCI, req.Owner.Interface, vf.ErrHeld)
		}
	}
	host := alloc.Host{PFs: e.Hardware.PFs(), Records: records, Spec: e.Spec()}
	choice, err := alloc.Choose(host, alloc.Want{VF: req.VF, Pool: req.Pool, For: req.Owner})
	if err != nil {
		return choice, err
	}
	return choice, able(choice.PF, req.Spec)
}

// able refuses settings that the PF's driver is known not to have, before
// anything is touched.
func able(pf vf.PF, spec vf.Spec) error {
	var errs []error
	for _, s := range spec.Abilities() {
		if pf.Abilities[s] == vf.No {
			errs = append(errs, fmt.Errorf("%s: %w: PF %s (driver %s) can set %s", s, vf.ErrUnable, pf.Label(), pf.Driver, can(pf.Abilities)))
		}
	}
	if spec.MTU != nil && pf.MTU != 0 && *spec.MTU > pf.MTU {
		errs = append(errs, fmt.Errorf("mtu %d: %w: PF %s has MTU %d; raise it in host.yaml (pfs, mtu) or ask for at most %d",
			*spec.MTU, vf.ErrInvalid, pf.Label(), pf.MTU, pf.MTU))
	}
	return errors.Join(errs...)
}

func can(a vf.Abilities) string {
	list := ""
	for _, s := range vf.Settings() {
		if a[s] == vf.Yes {
			if list != "" {
				list += ", "
			}
			list += string(s)
		}
	}
	if list == "" {
		return "none that is known"
	}
	return list
}

// lease writes what the owner is promised, with its addresses.
func lease(tx *journal.Tx, choice alloc.Choice, req Request) (journal.Record, error) {
	rec := choice.Record
	spec := req.Spec
	spec.Driver = choice.Driver
	if spec.Driver == vf.DriverVFIO {
		if !req.IPAM.IsZero() {
			return rec, fmt.Errorf("ipam: %w: VF %s is handed over as %s, which has no interface for addresses: remove ipam from network %s",
				vf.ErrInvalid, rec.PCI, vf.DriverVFIO, req.Network)
		}
	} else if req.Netns == "" {
		return rec, fmt.Errorf("netns: %w: VF %s is a network interface and needs the pod's network namespace", vf.ErrInvalid, rec.PCI)
	}
	rec.Generation++
	rec.Phase = journal.Configuring
	rec.Lease = journal.Lease{
		Owner: req.Owner, Network: req.Network, Pool: choice.Pool, Netns: req.Netns, Wanted: spec, Request: req.Raw,
	}
	if spec.Driver == vf.DriverVFIO {
		rec.Lease.Netns = ""
	}
	if err := addresses(tx, &rec, req); err != nil {
		return rec, err
	}
	return rec, tx.Put(rec)
}

// addresses holds the addresses of a lease in the same transaction (I4).
func addresses(tx *journal.Tx, rec *journal.Record, req Request) error {
	if req.IPAM.IsZero() {
		return nil
	}
	taken, err := tx.AddressesOf(req.Network)
	if err != nil {
		return err
	}
	held := make(map[netip.Addr]vf.Owner, len(taken))
	for _, a := range taken {
		held[a.Addr] = a.Owner
	}
	last, err := tx.LastAddresses(req.Network)
	if err != nil {
		return err
	}
	got, err := req.IPAM.Allocate(func(a netip.Addr) (vf.Owner, bool) { o, ok := held[a]; return o, ok }, last, req.Addresses)
	if err != nil {
		return fmt.Errorf("network %s: %w", req.Network, err)
	}
	rec.Lease.Wanted.Addresses, rec.Lease.Wanted.Routes = got.Addresses, append(rec.Lease.Wanted.Routes, got.Routes...)
	for _, a := range got.Addresses {
		err := tx.HoldAddress(journal.Address{Network: req.Network, Addr: a.Prefix.Addr(), VF: rec.ID, Owner: req.Owner})
		if err != nil {
			return err
		}
	}
	return nil
}

// sameAttachment compares what names an attachment: the owner's UID and the
// interface.
func sameAttachment(a, b vf.Owner) bool { return a.UID == b.UID && a.Interface == b.Interface }
