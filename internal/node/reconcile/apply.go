package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// applyPlan applies the changes of a plan to the PF itself.
func (r *Reconciler) applyPlan(ctx context.Context, p PFPlan, force bool) error {
	if p.Err != nil {
		return namePF(p.PF, p.Err)
	}
	if !p.Managed {
		return nil
	}
	if !p.PF.Up {
		if err := r.doStep(ctx, carrierBound, step.SetPFUp{PF: p.PF.PCI}); err != nil {
			return namePF(p.PF, err)
		}
	}
	var errs []error
	if p.Want.ChangesMTU(p.PF) {
		errs = append(errs, r.doStep(ctx, carrierBound, step.SetPFMTU{PF: p.PF.PCI, MTU: p.Want.MTU}))
	}
	if p.remakesVFs() {
		errs = append(errs, r.remakeVFs(ctx, p, force))
	}
	if !p.remakesVFs() {
		errs = append(errs, r.setAutoprobe(ctx, p))
	}
	return namePF(p.PF, errors.Join(errs...))
}

// setAutoprobe sets whether the kernel binds drivers to new VFs. mendPF calls it after it has
// given each new VF its MAC and driver. Otherwise a VF driver whose module udev loads meanwhile
// would bind to the VFs that have no driver yet, and read their MACs before they are set.
func (r *Reconciler) setAutoprobe(ctx context.Context, p PFPlan) error {
	want := vf.TriOf(p.Want.Autoprobe)
	if p.PF.Autoprobe == vf.Unknown || (p.PF.Autoprobe == want && !p.remakesVFs()) {
		return nil
	}
	return r.doStep(ctx, carrierBound, step.SetAutoprobe{PF: p.PF.PCI, On: p.Want.Autoprobe})
}

func (r *Reconciler) doStep(ctx context.Context, bound time.Duration, s step.Step) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	r.Log.Debug("step", "do", s)
	return r.Kernel.Do(ctx, s)
}

// remakeVFs changes the number of VFs, which destroys the existing ones. One transaction checks
// and updates the ledger before the kernel is touched, so no request gets a VF between the check
// and the write (I5).
func (r *Reconciler) remakeVFs(ctx context.Context, p PFPlan, force bool) error {
	if p.Want.VFs > 0 {
		if err := r.awaitCarrier(ctx, p); err != nil {
			return err
		}
	}
	outside, err := r.usersOutside(ctx, p)
	if err != nil && !force {
		return err
	}
	lost, err := r.takeVFs(ctx, p, outside, force)
	if err != nil {
		return err
	}
	r.Upkeep.ReportLost(lost, fmt.Sprintf("the VFs of PF %s are made anew", p.PF.Label()))
	steps := []step.Step{}
	if p.PF.Autoprobe != vf.Unknown {
		steps = append(steps, step.SetAutoprobe{PF: p.PF.PCI, On: false})
	}
	if p.PF.NumVFs > 0 {
		steps = append(steps, step.SetNumVFs{PF: p.PF.PCI, N: 0})
	}
	if p.Want.VFs > 0 {
		steps = append(steps, step.SetNumVFs{PF: p.PF.PCI, N: p.Want.VFs})
	}
	for _, s := range steps {
		if err := r.doStep(ctx, makeBound, s); err != nil {
			return err
		}
	}
	if p.Want.VFs > 0 && p.Want.NeedCarrier {
		// igb resets its PF, and with it the link, when VFs are made. Until the link is back, the
		// PF answers no VF (seen in the lab: about 3 s).
		return r.doStep(ctx, carrierBound, step.WaitCarrier{PF: p.PF.PCI})
	}
	return nil
}

// awaitCarrier waits for the PF's link. On some hardware, VFs that are made without a link do not
// work at first; on the emulated igb they never work (lab-facts, trap 2).
func (r *Reconciler) awaitCarrier(ctx context.Context, p PFPlan) error {
	err := r.doStep(ctx, carrierBound, step.WaitCarrier{PF: p.PF.PCI})
	if err == nil || !p.Want.NeedCarrier {
		return nil
	}
	if errors.Is(err, vf.ErrTimeout) {
		return fmt.Errorf("no carrier, so its %d VFs are not made: plug in the cable, or write needCarrier: false (%s): %w",
			p.Want.VFs, p.Want.From, vf.ErrNotReady)
	}
	return err
}

// takeVFs takes the VFs from their owners, in the ledger and with their guards. It changes no VF if
// claimVFs would refuse to destroy one of them.
func (r *Reconciler) takeVFs(ctx context.Context, p PFPlan, outside []journal.Record, force bool) (lost []journal.Record, err error) {
	records, err := journal.ReadRecords(r.Ledger)
	if err != nil {
		return nil, err
	}
	p.Hurts = addOutside(findHolders(p.PF, records), outside)
	if err := p.Refused(); err != nil && !force {
		return nil, err
	}
	err = r.Resets.TakeVFs(ctx, p.PF.ID, func() (err error) {
		lost, err = r.claimVFs(p, outside, force)
		return err
	})
	return lost, err
}

// claimVFs marks the records of the VFs that a change of sriov_numvfs destroys and of those that
// it makes as Making, unless one of the VFs has an owner. The record of a VF that will not exist
// afterwards keeps its PCI address. Tend deletes it when the VF has gone. If culvertd dies before
// that, the VF is still known to be Culvert's. lost are the records that had an owner.
func (r *Reconciler) claimVFs(p PFPlan, outside []journal.Record, force bool) (lost []journal.Record, err error) {
	err = r.Ledger.Update(func(tx *journal.Tx) error {
		if l, leased := tx.PFLeaseOf(p.PF.PCI); leased { // since the plan was made
			return l.Refused()
		}
		records := tx.Records()
		lost = nil
		now := p
		now.Hurts = addOutside(findHolders(p.PF, records), outside)
		if err := now.Refused(); err != nil && !force {
			return err
		}
		making := map[int]journal.Record{}
		for _, rec := range records {
			if rec.ID.PF != p.PF.ID {
				continue
			}
			if err := tx.Forget(rec.ID, fmt.Sprintf("the VFs of %s were made anew", p.PF.Label())); err != nil {
				return err
			}
			if rec.Held() {
				lost = append(lost, rec)
			}
			making[rec.ID.Index] = journal.Record{ID: rec.ID, PCI: rec.PCI, Generation: rec.Generation + 1, Phase: vf.PhaseMaking}
		}
		for i := range p.Want.VFs {
			id := vf.ID{PF: p.PF.ID, Index: i}
			making[i] = journal.Record{ID: id, Generation: max(making[i].Generation, 1), Phase: vf.PhaseMaking}
		}
		for _, rec := range making {
			if err := tx.Put(rec); err != nil {
				return err
			}
		}
		return tx.Event(journal.Event{
			Type: journal.Normal, Reason: reasons.VFsMade, Object: "PF " + p.PF.Label(), PF: p.PF.ID,
			Text: fmt.Sprintf("sriov_numvfs %d -> %d", p.PF.NumVFs, p.Want.VFs),
		})
	})
	return lost, err
}
