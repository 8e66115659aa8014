package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// apply carries out what a plan changes of the PF itself.
func (r *Reconciler) apply(ctx context.Context, p PFPlan, force bool) error {
	if p.Err != nil {
		return about(p.PF, p.Err)
	}
	if !p.Managed {
		return nil
	}
	if !p.PF.Up {
		if err := r.do(ctx, carrierBound, step.SetPFUp{PF: p.PF.PCI}); err != nil {
			return about(p.PF, err)
		}
	}
	var errs []error
	if p.Want.MTU != 0 && p.Want.MTU != p.PF.MTU {
		errs = append(errs, r.do(ctx, carrierBound, step.SetPFMTU{PF: p.PF.PCI, MTU: p.Want.MTU}))
	}
	if p.remakes() {
		errs = append(errs, r.remake(ctx, p, force))
	}
	if !p.remakes() {
		errs = append(errs, r.autoprobe(ctx, p))
	}
	return about(p.PF, errors.Join(errs...))
}

// autoprobe sets what the kernel does with VFs that appear. Where VFs are made
// it comes last, when each has its MAC and driver: a VF driver whose module is
// loaded meanwhile, by udev, would bind to all that have none, and read their
// MAC before it is set.
func (r *Reconciler) autoprobe(ctx context.Context, p PFPlan) error {
	want := vf.TriOf(p.Want.Autoprobe)
	if p.PF.Autoprobe == vf.Unknown || (p.PF.Autoprobe == want && !p.remakes()) {
		return nil
	}
	return r.do(ctx, carrierBound, step.SetAutoprobe{PF: p.PF.PCI, On: p.Want.Autoprobe})
}

func (r *Reconciler) do(ctx context.Context, bound time.Duration, s step.Step) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	r.Log.Debug("step", "do", s)
	return r.Kernel.Do(ctx, s)
}

// remake changes the number of VFs, which destroys those that are there. The
// ledger is asked and told in one transaction before the kernel is touched, so no
// request gets a VF between the look and the write (I5). outside are users that the
// ledger does not know.
func (r *Reconciler) remake(ctx context.Context, p PFPlan, force bool) error {
	if p.Want.VFs > 0 {
		if err := r.carrier(ctx, p); err != nil {
			return err
		}
	}
	outside, err := r.usersOutside(ctx, p)
	if err != nil && !force {
		return err
	}
	if err := r.claim(p, outside, force); err != nil {
		return err
	}
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
		if err := r.do(ctx, makeBound, s); err != nil {
			return err
		}
	}
	if p.Want.VFs > 0 && p.Want.NeedCarrier {
		// igb resets its PF, and with it the link, when VFs are made; until it is
		// back no VF gets an answer (seen in the lab: about 3 s).
		return r.do(ctx, carrierBound, step.WaitCarrier{PF: p.PF.PCI})
	}
	return nil
}

// carrier waits for the PF's link: VFs that are made without it do not work on
// some hardware, and on the emulated igb they never will (lab-facts, trap 2).
func (r *Reconciler) carrier(ctx context.Context, p PFPlan) error {
	err := r.do(ctx, carrierBound, step.WaitCarrier{PF: p.PF.PCI})
	if err == nil || !p.Want.NeedCarrier {
		return nil
	}
	if errors.Is(err, vf.ErrTimeout) {
		return fmt.Errorf("no carrier, so its %d VFs are not made: plug in the cable, or write needCarrier: false (%s): %w",
			p.Want.VFs, p.Want.From, vf.ErrNotReady)
	}
	return err
}

// claim keeps the VFs that will go and those that will come from everybody,
// unless somebody holds one. A record for a VF that will not come again keeps
// its address: Tend forgets it when the VF has gone, and should culvertd die
// before that, the VF is still known to be Culvert's.
func (r *Reconciler) claim(p PFPlan, outside []journal.Record, force bool) error {
	return r.Ledger.Update(func(tx *journal.Tx) error {
		records := tx.Records()
		now := p
		now.Hurts = addOutside(holders(p.PF, records), outside)
		if err := now.Refused(); err != nil && !force {
			return err
		}
		making := map[int]journal.Record{}
		for _, rec := range records {
			if rec.ID.PF != p.PF.ID {
				continue
			}
			if err := tx.Forget(rec, fmt.Sprintf("the VFs of %s were made anew", p.PF.Label())); err != nil {
				return err
			}
			making[rec.ID.Index] = journal.Record{ID: rec.ID, PCI: rec.PCI, Generation: rec.Generation + 1, Phase: journal.Making}
		}
		for i := range p.Want.VFs {
			id := vf.ID{PF: p.PF.ID, Index: i}
			making[i] = journal.Record{ID: id, Generation: max(making[i].Generation, 1), Phase: journal.Making}
		}
		for _, rec := range making {
			if err := tx.Put(rec); err != nil {
				return err
			}
		}
		return tx.Event(journal.Event{
			Type: journal.Normal, Reason: "VFsMade", Object: "PF " + p.PF.Label(),
			Text: fmt.Sprintf("sriov_numvfs %d -> %d", p.PF.NumVFs, p.Want.VFs),
		})
	})
}
