package attach

import (
	"context"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// addLate calls Request.Late for the addresses of a VF that is already in its netns, holds them
// in the ledger and adds them to the interface.
func (e *Engine) addLate(ctx context.Context, at lease.Site, rec journal.Record, req Request) (journal.Record, error) {
	rec, err := e.addresses.holdLate(ctx, rec, req)
	if err != nil {
		return rec, err
	}
	return rec, e.carryOut(ctx, at, &rec, append(lease.GuardSteps(at.Place, rec), lease.AddressSteps(at.Place, rec, req.detects())...))
}

// addLateToBond is addLate for a bond, whose first member holds the addresses. The guards of all
// members get them before the bond does, since any member may send. After an error, at is the VF on
// which it failed.
func (e *Engine) addLateToBond(ctx context.Context, members []reservation, req Request) (at lease.Site, err error) {
	first := &members[0]
	if first.rec, err = e.addresses.holdLate(ctx, first.rec, req); err != nil {
		return first.at, err
	}
	if at, err = e.renewGuards(ctx, members); err != nil {
		return at, err
	}
	return first.at, e.carryOut(ctx, first.at, &first.rec, lease.AddressSteps(first.at.Place, first.rec, req.detects()))
}

// holdLate calls Request.Late for the addresses of a VF and holds them in the ledger. They are checked
// as those of the network's own ranges are: no other owner may have them, and the VF's pool must
// allow them (I9). Tenants write the networks that say what the plugin gives.
func (p *addresses) holdLate(ctx context.Context, rec journal.Record, req Request) (journal.Record, error) {
	config, err := req.Late(ctx)
	if err != nil {
		return rec, err
	}
	choice, err := p.choiceOf(rec)
	if err != nil {
		return rec, err
	}
	req.IPAM = config
	err = p.vfs.Ledger.Update(func(tx *journal.Tx) error {
		next := rec
		next.Lease.Wanted.Routes = slices.Clone(rec.Lease.Wanted.Routes)
		if err := p.leaseAddresses(tx, choice, &next, req); err != nil {
			return err
		}
		if err := choice.Rules.CheckSettings(next.Lease.Wanted); err != nil {
			return fmt.Errorf("network %s for %s: the IPAM plugin gave what it may not: %w", req.Network, req.Owner, err)
		}
		rec = next
		return tx.Put(next)
	})
	return rec, err
}

// choiceOf returns the VF of a lease with its PF and the rules of its pool, as hardware and pools are
// now.
func (p *addresses) choiceOf(rec journal.Record) (alloc.Choice, error) {
	pfs := p.vfs.Hardware.PFs()
	i := slices.IndexFunc(pfs, func(pf vf.PF) bool { return pf.ID == rec.ID.PF })
	if i < 0 {
		return alloc.Choice{}, fmt.Errorf("PF %s: %w on this host", rec.ID.PF, vf.ErrNotFound)
	}
	v, _ := pfs[i].VF(rec.ID.Index)
	pool, pooled := p.vfs.Spec().PoolOf(pfs[i], rec.ID.Index, v)
	switch {
	case !pooled && rec.Lease.Pool == "":
		return alloc.Choice{PF: pfs[i], Record: rec}, nil
	case !pooled || pool.FullName() != rec.Lease.Pool:
		return alloc.Choice{}, fmt.Errorf("VF %s: %w: the pools changed while it was attached: try again", rec.PCI, vf.ErrNotReady)
	}
	return alloc.Choice{PF: pfs[i], Record: rec, Pool: pool.FullName(), Rules: pool}, nil
}
