package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// RebaseDiff returns the differences of a free or quarantined VF from its baseline, and changes
// nothing. Its errors are those of Rebase.
func (e *Engine) RebaseDiff(ctx context.Context, pci vf.PCIAddr) ([]vf.Difference, error) {
	rec, err := e.findRebaseable(ctx, pci)
	if err != nil {
		return nil, err
	}
	st, err := e.readVF(ctx, rec)
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
func (e *Engine) Rebase(ctx context.Context, pci vf.PCIAddr, accept []vf.Difference) ([]vf.Difference, error) {
	rec, err := e.findRebaseable(ctx, pci)
	if err != nil {
		return nil, err
	}
	unlock, err := e.vfs.Lock(ctx, rec.ID, "a new baseline")
	if err != nil {
		return nil, fmt.Errorf("take the baseline of VF %s anew: %w: nothing was changed, repeat it", pci, err)
	}
	defer unlock()
	if rec, err = e.findRebaseable(ctx, pci); err != nil { // given out while we waited
		return nil, err
	}
	at, err := e.findSite(rec)
	if err != nil {
		return nil, err
	}
	if err := e.findCall(at, rec); err != nil {
		return nil, fmt.Errorf("take the baseline of VF %s anew: %w: nothing was changed", pci, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound) // once begun, it is finished
	defer cancel()
	rec.Generation++
	rec.Phase = vf.PhaseReleasing
	if err := e.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) }); err != nil {
		return nil, err
	}
	if err := e.removeBond(ctx, rec); err != nil { // its addresses stay held
		return nil, errors.Join(fmt.Errorf("take the baseline of VF %s of PF %s anew: %w", pci, at.label, err), e.quarantineVF(rec, err))
	}
	changed, err := e.rebaseVF(ctx, at, &rec, accept)
	err = e.removeGuardAfter(ctx, rec, err)
	switch {
	case errors.Is(err, errGone):
		return nil, errors.Join(err, e.forgetVF(rec, err))
	case err != nil:
		return nil, errors.Join(fmt.Errorf("take the baseline of VF %s of PF %s anew: %w", pci, at.label, err), e.quarantineVF(rec, err))
	case len(changed) == 0:
		return nil, e.freeVF(at, rec, "Recovered", nil)
	}
	return changed, e.freeVF(at, rec, "Rebased", fmt.Errorf("its baseline was taken anew: %s", vf.Differences(changed)))
}

// findRebaseable returns the record of a VF if it is free or in quarantine, and not in use.
func (e *Engine) findRebaseable(ctx context.Context, pci vf.PCIAddr) (journal.Record, error) {
	records, err := e.readRecords()
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
	outside, err := e.Outside(ctx, pci)
	switch {
	case err != nil:
		return rec, fmt.Errorf("VF %s: find out whether it is in use: %w", pci, err)
	case outside[pci] != vf.Use{}:
		return rec, fmt.Errorf("VF %s is %s: %w: end that use first", pci, outside[pci], vf.ErrHeld)
	}
	return rec, nil
}

// rebaseVF resets a VF, and records a new baseline if the reset leaves only accepted differences.
func (e *Engine) rebaseVF(ctx context.Context, at site, rec *journal.Record, accept []vf.Difference) ([]vf.Difference, error) {
	err := e.resetVF(ctx, at, rec)
	var left *differsError
	if !errors.As(err, &left) || left.failed != nil {
		return nil, err
	}
	// resetVF has bound the driver anew, so the differences left do not come from the last owner.
	baseline := rec.Baseline.WithInterface(left.state)
	if other := baseline.Diff(left.state); len(other) > 0 {
		return nil, fmt.Errorf("%w: a reset leaves what no baseline may have: %s", vf.ErrUnable, vf.Differences(other))
	}
	unseen := slices.DeleteFunc(slices.Clone(left.differences), func(d vf.Difference) bool { return slices.Contains(accept, d) })
	if len(unseen) > 0 {
		return nil, fmt.Errorf("%w: it now differs otherwise than was shown: %s: run the command again", vf.ErrInvalid, vf.Differences(unseen))
	}
	rec.Baseline = baseline
	return left.differences, nil
}

// differsError says that a VF still differs from its baseline after a reset.
type differsError struct {
	state       vf.State
	differences []vf.Difference
	failed      error // steps of the reset that failed
}

func (e *differsError) Error() string {
	text := vf.Differences(e.differences)
	if slices.ContainsFunc(e.differences, func(d vf.Difference) bool { return d.Attribute == "link mac" }) {
		text += ": " + vf.DescribeUnanswered()
	}
	left := fmt.Errorf("after %d rounds of reset: %s", rounds, text)
	return errors.Join(e.failed, left).Error()
}

func (e *differsError) Unwrap() error { return e.failed }
