package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/alloc"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// Adopt writes down that a guest runs with the VF that the request names, if nobody
// holds that and some process has it open: the guest's start was not told. A VF in
// quarantine is no exception, since the guest has it anyway. What the PF holds is made
// as the request says like anything that drifted; what fails of that, Tend goes on
// with. The VF itself is the guest's, and is not touched.
//
// Errors are those of Attach, with the ledger as it was.
func (e *Engine) Adopt(ctx context.Context, req Request) error {
	records, err := e.records()
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
	rec, err := e.adopt(id, req)
	if err != nil {
		return fmt.Errorf("VF %s, with which %s runs: %w", req.VF, req.Owner, err)
	}
	if rec.Phase != journal.Attached {
		return nil
	}
	if err := e.drifted(ctx, rec); err != nil {
		e.Log.Error("adopt", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	}
	return nil
}

// adopt is Adopt's transaction. The record is zero when somebody has the VF by now.
func (e *Engine) adopt(id vf.ID, req Request) (rec journal.Record, err error) {
	err = e.Ledger.Update(func(tx *journal.Tx) error {
		choice, err := e.chooseOpen(tx, id, req)
		if err != nil || choice.Record.PCI.IsZero() {
			return err
		}
		if err := e.neighbours(tx, choice, req).checkMAC(req.Spec, choice.Record.Baseline); err != nil {
			return err
		}
		if rec, err = e.lease(tx, choice, req); err != nil {
			return err
		}
		rec.Phase, rec.Lease.Opened = journal.Attached, true
		at := siteOf(choice.PF, rec)
		rec.Lease.Effective = at.driver.Effective(rec.Lease.Wanted.Over(rec.Baseline.Admin))
		return errors.Join(tx.Put(rec), tx.Event(journal.Event{
			Type: journal.Normal, Reason: "Adopted", Object: "VF " + rec.PCI.String(),
			Text: fmt.Sprintf("vf %d of %s to %s, which runs with it: nobody told of its start", rec.ID.Index, at.label, rec.Lease.Owner),
		}))
	})
	return rec, err
}

// chooseOpen chooses a VF as if it were free, though somebody has it open. There is
// none when somebody holds it, or it is not made yet.
func (e *Engine) chooseOpen(tx *journal.Tx, id vf.ID, req Request) (alloc.Choice, error) {
	records := tx.Records()
	for i, r := range records {
		if r.ID != id {
			if err := e.owns(r, req.Owner); err != nil {
				return alloc.Choice{}, err
			}
			continue
		}
		if r.PCI != req.VF || r.Phase != journal.Free && r.Phase != journal.Quarantined {
			return alloc.Choice{}, nil
		}
		records[i] = journal.Record{ID: r.ID, PCI: r.PCI, Generation: r.Generation, Phase: journal.Free, Baseline: r.Baseline, Released: r.Released}
	}
	choice, err := alloc.Choose(alloc.Host{PFs: e.Hardware.PFs(), Records: records, Spec: e.Spec()}, alloc.Want{VF: req.VF, Pool: req.Pool, For: req.Owner})
	if err != nil {
		return choice, err
	}
	return choice, choice.PF.Fits(req.Spec, e.Spec().WhereDeclared(choice.PF))
}

// Settle compares the lease of a guest with who has its VF open, as Tend does, now: a guest
// that is first seen to run with it is remembered, and the lease of one that ran and
// does not any more ends.
func (e *Engine) Settle(ctx context.Context, seen journal.Record) error {
	unlock, err := e.vfs.Lock(ctx, seen.ID, "the check of "+seen.Lease.Owner.String())
	if err != nil {
		return fmt.Errorf("check VF %s of %s: %w", seen.PCI, seen.Lease.Owner, err)
	}
	defer unlock()
	return e.guestTask(ctx, seen)
}
