package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Adopt records a VF that a running guest holds but whose start hook was missed. It does so if no
// lease holds the VF and a process has the VF open, even if the VF is quarantined. Adopt mends the
// PF's settings for the VF like any drift, and Tend repeats a setting that fails. Adopt does not
// touch the VF itself, which the guest uses.
//
// Errors are those of Attach, with the ledger as it was.
func (e *Engine) Adopt(ctx context.Context, req Request) error {
	records, err := e.readRecords()
	i := slices.IndexFunc(records, func(r journal.Record) bool { return r.PCI == req.VF })
	if err != nil || i < 0 {
		return err
	}
	id := records[i].ID
	unlock, err := e.vfs.Lock(ctx, id, "the adoption by "+req.Owner.String())
	if err != nil {
		return fmt.Errorf("adopt VF %s for %s: %w", req.VF, req.Owner, err)
	}
	defer unlock()
	users, err := e.Kernel.Users(ctx, req.VF)
	if err != nil || len(users) == 0 {
		return err
	}
	rec, err := e.writeAdoption(id, req)
	if err != nil {
		return fmt.Errorf("VF %s, with which %s runs: %w", req.VF, req.Owner, err)
	}
	if rec.Phase != vf.PhaseAttached {
		return nil
	}
	if err := e.handleDrift(ctx, rec); err != nil {
		e.Log.Error("adopt", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	}
	return nil
}

// writeAdoption is Adopt's transaction. It returns the zero record when the VF already has an
// owner.
func (e *Engine) writeAdoption(id vf.ID, req Request) (rec journal.Record, err error) {
	err = e.Ledger.Update(func(tx *journal.Tx) error {
		choice, err := e.chooseOpen(tx, id, req)
		if err != nil || choice.Record.PCI.IsZero() {
			return err
		}
		if err := e.neighboursOf(tx, choice, req).checkMAC(req.Spec, choice.Record.Baseline); err != nil {
			return err
		}
		if rec, err = e.writeLease(tx, choice, req); err != nil {
			return err
		}
		rec.Phase, rec.Lease.Opened = vf.PhaseAttached, true
		at := siteOf(choice.PF, rec)
		rec.Lease.Effective = at.driver.Effective(rec.Lease.Wanted.Over(rec.Baseline.Admin))
		return errors.Join(tx.Put(rec), tx.Event(journal.Event{
			Type: journal.Normal, Reason: "Adopted", Object: "VF " + rec.PCI.String(),
			Text: fmt.Sprintf("vf %d of %s to %s, which runs with it: no hook reported its start", rec.ID.Index, at.label, rec.Lease.Owner),
		}))
	})
	return rec, err
}

// chooseOpen chooses a VF as if it were free, though a process has it open. It chooses none
// when the VF has an owner or is not made yet.
func (e *Engine) chooseOpen(tx *journal.Tx, id vf.ID, req Request) (alloc.Choice, error) {
	records := tx.Records()
	for i, r := range records {
		if r.ID != id {
			if err := e.checkTwin(r, req.Owner); err != nil {
				return alloc.Choice{}, err
			}
			continue
		}
		if r.PCI != req.VF || r.Phase != vf.PhaseFree && r.Phase != vf.PhaseQuarantined {
			return alloc.Choice{}, nil
		}
		records[i] = journal.Record{ID: r.ID, PCI: r.PCI, Generation: r.Generation, Phase: vf.PhaseFree, Baseline: r.Baseline, Released: r.Released, Owed: r.Owing()}
	}
	choice, err := alloc.Choose(alloc.Host{PFs: e.Hardware.PFs(), Records: records, Spec: e.Spec()}, alloc.Want{VF: req.VF, Pool: req.Pool, For: req.Owner, Owned: true})
	if err != nil {
		return choice, err
	}
	return choice, choice.PF.Fits(req.Spec, e.Spec().WhereDeclared(choice.PF))
}

// Settle compares the lease of a guest with the processes that have its VF open, at once and in
// the way of Tend. It records in the lease that the guest runs with the VF, and ends the lease of
// a guest that ran and has stopped: at once if libvirt has let go of the VF (ended), and otherwise
// when the VF has been closed for a while, since libvirt still writes to it.
func (e *Engine) Settle(ctx context.Context, seen journal.Record, ended bool) error {
	unlock, err := e.vfs.Lock(ctx, seen.ID, "the check of "+seen.Lease.Owner.String())
	if err != nil {
		return fmt.Errorf("check VF %s of %s: %w", seen.PCI, seen.Lease.Owner, err)
	}
	defer unlock()
	return e.guestTask(ctx, seen, ended)
}
