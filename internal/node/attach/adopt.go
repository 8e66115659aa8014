package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// Adopt records a VF that a running guest holds but whose start hook was missed. It does so if no
// lease holds the VF and a process has the VF open, even if the VF is quarantined. It returns the
// lease, or the zero record if it has written none. Adopt touches neither the VF, which the guest
// uses, nor the PF's settings for it: upkeep.Keeper.Adopt mends these.
//
// Errors are those of Attach, with the ledger as it was.
func (e *Engine) Adopt(ctx context.Context, req Request) (journal.Record, error) {
	records, err := e.vfs.ReadRecords()
	i := slices.IndexFunc(records, func(r journal.Record) bool { return r.PCI == req.VF })
	if err != nil || i < 0 {
		return journal.Record{}, err
	}
	id := records[i].ID
	unlock, err := e.vfs.Locks.Lock(ctx, id, "the adoption by "+req.Owner.String())
	if err != nil {
		return journal.Record{}, fmt.Errorf("adopt VF %s for %s: %w", req.VF, req.Owner, err)
	}
	defer unlock()
	users, err := e.vfs.Kernel.Users(ctx, req.VF)
	if err != nil || len(users) == 0 {
		return journal.Record{}, err
	}
	rec, err := e.writeAdoption(id, req)
	if err != nil {
		return journal.Record{}, fmt.Errorf("VF %s, with which %s runs: %w", req.VF, req.Owner, err)
	}
	return rec, nil
}

// writeAdoption is Adopt's transaction. It returns the zero record when the VF already has an
// owner.
func (e *Engine) writeAdoption(id vf.ID, req Request) (rec journal.Record, err error) {
	err = e.vfs.Ledger.Update(func(tx *journal.Tx) error {
		choice, err := e.chooseOpen(tx, id, req)
		if err != nil || choice.Record.PCI.IsZero() {
			return err
		}
		if err := e.addresses.neighboursOf(tx, choice, req).checkMAC(req.Spec, choice.Record.Baseline); err != nil {
			return err
		}
		if rec, err = e.writeLease(tx, choice, req); err != nil {
			return err
		}
		rec.Phase, rec.Lease.Opened = vf.PhaseAttached, true
		at := lease.SiteOf(choice.PF, rec)
		rec.Lease.Effective = at.Driver.Effective(rec.Lease.Wanted.Over(rec.Baseline.Admin))
		event := rec.MakeEvent(journal.Normal, reasons.Adopted,
			fmt.Sprintf("vf %d of %s to %s, which runs with it: no hook reported its start", rec.ID.Index, at.Label, rec.Lease.Owner))
		event.Settings = rec.DescribeSettings()
		return errors.Join(tx.Put(rec), tx.Event(event))
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
		if r.PCI != req.VF || r.Claim != nil || r.Phase != vf.PhaseFree && r.Phase != vf.PhaseQuarantined {
			return alloc.Choice{}, nil
		}
		records[i] = journal.Record{ID: r.ID, PCI: r.PCI, Generation: r.Generation, Phase: vf.PhaseFree, Baseline: r.Baseline, Released: r.Released, Owed: r.Owing()}
	}
	choice, err := alloc.Choose(alloc.Host{PFs: e.vfs.Hardware.PFs(), Records: records, Spec: e.vfs.Spec()}, alloc.Want{VF: req.VF, Pool: req.Pool, For: req.Owner, Owned: true})
	if err != nil {
		return choice, err
	}
	return choice, choice.PF.Fits(req.Spec, choice.Record.Baseline.Admin, e.vfs.Spec().WhereDeclared(choice.PF))
}
