package attach

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// Replay finishes what a culvertd that died left behind: an attach that did
// not get to its end is undone, a release is finished. Attached VFs stay as
// they are. It runs before anything is attached.
func (e *Engine) Replay(ctx context.Context) error {
	var begun []journal.Record
	err := e.Ledger.View(func(tx *journal.Tx) error {
		records, err := tx.Records()
		for _, r := range records {
			if r.Held() && r.Phase != journal.Attached {
				begun = append(begun, r)
			}
		}
		return err
	})
	var g errgroup.Group
	g.SetLimit(8)
	for _, r := range begun {
		g.Go(func() error {
			e.Log.Info("replay", "vf", r.ID, "phase", r.Phase, "owner", r.Lease.Owner)
			return e.detach(ctx, r)
		})
	}
	return errors.Join(err, g.Wait())
}

// Tend looks after the VFs that nobody has: those in quarantine whose retry is
// due are reset again, and free ones that somebody changed behind our back are
// taken back to their baseline. seen is the hardware as just listed.
func (e *Engine) Tend(ctx context.Context, seen []vf.PF) error {
	var records []journal.Record
	err := e.Ledger.View(func(tx *journal.Tx) (err error) {
		records, err = tx.Records()
		return err
	})
	errs := []error{err}
	for _, r := range records {
		switch r.Phase {
		case journal.Quarantined:
			if !e.Now().Before(r.NextRetry) {
				errs = append(errs, e.tend(ctx, r, "Recovered", ""))
			}
		case journal.Free:
			if d := drift(r, seen); len(d) > 0 {
				errs = append(errs, e.tend(ctx, r, "DriftMended", vf.Differences(d)))
			}
		}
	}
	return errors.Join(errs...)
}

// drift lists what of a free VF, as listed, is not its baseline.
func drift(r journal.Record, seen []vf.PF) []vf.Difference {
	for _, pf := range seen {
		if pf.ID != r.ID.PF {
			continue
		}
		if st, ok := pf.VF(r.ID.Index); ok {
			return r.Baseline.Diff(st)
		}
	}
	return nil
}

// tend resets one VF, if it is still in the phase and generation that the
// caller saw, and still differs now that it is locked.
func (e *Engine) tend(ctx context.Context, seen journal.Record, reason, detail string) error {
	if e.vfs.try(seen.ID) != nil {
		return nil // somebody works on it; next time
	}
	defer e.vfs.unlock(seen.ID)
	at, err := e.site(seen)
	if err != nil {
		return nil // its PF is gone: status says so, and there is nothing to reset
	}
	st, err := e.Kernel.VF(ctx, seen.PCI, seen.Lease.Netns)
	if err == nil && seen.Phase == journal.Free && len(seen.Baseline.Diff(st)) == 0 {
		return nil // in between two states when it was listed
	}
	rec, mine := seen, false
	err = e.Ledger.Update(func(tx *journal.Tx) error {
		now, err := tx.Record(seen.ID)
		if err != nil || now.Generation != seen.Generation || now.Phase != seen.Phase {
			return nil //nolint:nilerr // forgotten or taken since: not ours to touch
		}
		now.PCI = seen.PCI
		now.Generation++
		now.Phase = journal.Releasing
		rec, mine = now, true
		return tx.Put(now)
	})
	if err != nil || !mine {
		return err
	}
	return e.release(ctx, at, rec, reason, detail)
}

// WithIdle runs f while nobody can get the VF, and says whether it ran: not
// when somebody has the VF or works on it.
func (e *Engine) WithIdle(id vf.ID, f func(journal.Record) error) (ran bool, err error) {
	if e.vfs.try(id) != nil {
		return false, nil
	}
	defer e.vfs.unlock(id)
	rec, err := e.record(id)
	if err != nil || rec.Phase != journal.Free {
		return false, nil // not ours to touch
	}
	return true, f(rec)
}
