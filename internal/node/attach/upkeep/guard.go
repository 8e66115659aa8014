package upkeep

import (
	"context"
	"fmt"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// needsGuardLook reports whether upkeep is to read the guard of an attached VF.
func (k *Keeper) needsGuardLook(r journal.Record) bool {
	since := k.vfs.Now().Sub(k.guardLooks.Load(r))
	return since < 0 || since >= linkLook
}

// tendGuard mends or reports the guard of a VF that differs in nothing else from its lease. It
// reads nothing but the guard unless the guard differs. It runs with the VF locked.
func (k *Keeper) tendGuard(ctx context.Context, rec journal.Record) error {
	done, err := k.links.waitForTurn(ctx, lookPatience)
	if err != nil {
		return nil //nolint:nilerr // the next pass looks
	}
	g, err := k.vfs.Kernel.Guard(ctx, rec.PCI, rec.Lease.Netns)
	done()
	if err != nil {
		return fmt.Errorf("VF %s of %s: %w", rec.PCI, rec.Lease.Owner, err)
	}
	k.guardLooks.Store(rec, k.vfs.Now())
	if len(rec.Lease.Wanted.GuardDiff(rec.Baseline, vf.Link{Guard: &g})) == 0 {
		k.isNews(rec, "")
		return nil
	}
	return k.handleDrift(ctx, rec)
}

// readForMending is hold.ReadGuarded for upkeep, when its turn comes.
func (k *Keeper) readForMending(ctx context.Context, rec journal.Record) (vf.State, error) {
	done, err := k.links.waitForTurn(ctx, mendPatience)
	if err != nil {
		return vf.State{}, fmt.Errorf("read VF %s in the netns of %s: %w", rec.PCI, rec.Lease.Owner, err)
	}
	defer done()
	return k.vfs.ReadGuarded(ctx, rec)
}

// guardDrift returns the difference between the guard of an attached VF and its lease. It needs
// the owner's netns; a VF that is not there has none.
func (k *Keeper) guardDrift(ctx context.Context, rec journal.Record) ([]vf.Difference, error) {
	if rec.Lease.Wanted.Guard == "" {
		return nil, nil
	}
	st, err := k.readForMending(ctx, rec)
	if err != nil || st.Link == nil || st.Link.Guard == nil {
		return nil, err
	}
	return rec.Lease.Wanted.GuardDiff(rec.Baseline, *st.Link), nil
}
