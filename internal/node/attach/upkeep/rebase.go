package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/attach/reset"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// RebaseDiff returns the differences of a free or quarantined VF from its baseline, and changes
// nothing. Its errors are those of Rebase.
func (k *Keeper) RebaseDiff(ctx context.Context, pci vf.PCIAddr) ([]vf.Difference, error) {
	rec, err := k.findRebaseable(ctx, pci)
	if err != nil {
		return nil, err
	}
	st, err := k.vfs.ReadVF(ctx, rec)
	if err != nil {
		return nil, fmt.Errorf("read VF %s: %w", pci, err)
	}
	return rec.Baseline.Diff(st), nil
}

// Rebase resets a free or quarantined VF, and records the state of its interface after a bind of
// the driver as its new baseline. accept has the differences that the administrator has seen. If
// the VF differs in another way, or in a setting that the PF holds for it, its baseline stays as
// it was. Rebase returns the differences between the new baseline and the old one; there are none
// if the reset was enough.
//
// Errors: vf.ErrNotFound for a VF that is not in the ledger, vf.ErrHeld for one that is in
// use, vf.ErrUnable for differences that no baseline may have.
func (k *Keeper) Rebase(ctx context.Context, pci vf.PCIAddr, accept []vf.Difference) ([]vf.Difference, error) {
	rec, err := k.findRebaseable(ctx, pci)
	if err != nil {
		return nil, err
	}
	unlock, err := k.vfs.Locks.Lock(ctx, rec.ID, "a new baseline")
	if err != nil {
		return nil, fmt.Errorf("take the baseline of VF %s anew: %w: nothing was changed, repeat it", pci, err)
	}
	defer unlock()
	if rec, err = k.findRebaseable(ctx, pci); err != nil { // given out while we waited
		return nil, err
	}
	at, err := k.vfs.FindSite(rec)
	if err != nil {
		return nil, err
	}
	if err := k.vfs.FindCall(at, rec); err != nil {
		return nil, fmt.Errorf("take the baseline of VF %s anew: %w: nothing was changed", pci, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.UndoBound) // once begun, it is finished
	defer cancel()
	rec.Generation++
	rec.Phase = vf.PhaseReleasing
	if err := k.vfs.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) }); err != nil {
		return nil, err
	}
	if err := k.resets.RemoveBond(ctx, rec); err != nil { // its addresses stay held
		return nil, errors.Join(fmt.Errorf("take the baseline of VF %s of PF %s anew: %w", pci, at.Label, err), k.resets.QuarantineVF(rec, err))
	}
	changed, err := k.rebaseVF(ctx, at, &rec, accept)
	err = k.resets.RemoveGuardAfter(ctx, rec, err)
	switch {
	case errors.Is(err, hold.ErrGone):
		return nil, errors.Join(err, k.vfs.ForgetVF(rec, err))
	case err != nil:
		return nil, errors.Join(fmt.Errorf("take the baseline of VF %s of PF %s anew: %w", pci, at.Label, err), k.resets.QuarantineVF(rec, err))
	case len(changed) == 0:
		return nil, k.resets.FreeVF(at, rec, reasons.Recovered, nil)
	}
	return changed, k.resets.FreeVF(at, rec, reasons.Rebased, fmt.Errorf("its baseline was taken anew: %s", vf.Differences(changed)))
}

// findRebaseable returns the record of a VF if it is free or in quarantine, and not in use.
func (k *Keeper) findRebaseable(ctx context.Context, pci vf.PCIAddr) (journal.Record, error) {
	records, err := k.vfs.ReadRecords()
	if err != nil {
		return journal.Record{}, err
	}
	i := slices.IndexFunc(records, func(r journal.Record) bool { return r.PCI == pci })
	if i < 0 {
		return journal.Record{}, fmt.Errorf("VF %s: %w in the ledger, so it has no baseline: culvert vf list shows the VFs that Culvert manages", pci, vf.ErrNotFound)
	}
	rec := records[i]
	if rec.Phase != vf.PhaseFree && rec.Phase != vf.PhaseQuarantined {
		return rec, fmt.Errorf("VF %s is %s: %w by %s: only a VF that is free or quarantined gets a new baseline", pci, rec.Phase, vf.ErrHeld, rec.Holder())
	}
	outside, err := k.vfs.Outside(ctx, pci)
	switch {
	case err != nil:
		return rec, fmt.Errorf("VF %s: find out whether it is in use: %w", pci, err)
	case outside[pci] != vf.Use{}:
		return rec, fmt.Errorf("VF %s is %s: %w: end that use first", pci, outside[pci], vf.ErrHeld)
	}
	return rec, nil
}

// rebaseVF resets a VF, and records a new baseline if the reset leaves only accepted differences.
func (k *Keeper) rebaseVF(ctx context.Context, at lease.Site, rec *journal.Record, accept []vf.Difference) ([]vf.Difference, error) {
	err := k.resets.ResetVF(ctx, at, rec)
	var left *reset.DiffersError
	if !errors.As(err, &left) || left.Failed != nil {
		return nil, err
	}
	// reset.ResetVF has bound the driver anew, so the differences left do not come from the last owner.
	baseline := rec.Baseline.WithInterface(left.State)
	if other := baseline.Diff(left.State); len(other) > 0 {
		return nil, fmt.Errorf("%w: a reset leaves what no baseline may have: %s", vf.ErrUnable, vf.Differences(other))
	}
	unseen := slices.DeleteFunc(slices.Clone(left.Differences), func(d vf.Difference) bool { return slices.Contains(accept, d) })
	if len(unseen) > 0 {
		return nil, fmt.Errorf("%w: it now differs otherwise than was shown: %s: run the command again", vf.ErrInvalid, vf.Differences(unseen))
	}
	_, compared := baseline.Compare(left.State)
	rec.Baseline, rec.Readback = baseline, &vf.Readback{Time: k.vfs.Now(), Attributes: compared, AfterOwner: true, Unknown: "an administrator had the baseline taken anew"}
	return left.Differences, nil
}
