// Package loan lends VFs another rate for a while, to measure with. culvertd calls Lend and GiveBack
// for a measurement. Package upkeep ends a loan whose time is up, or that an earlier culvertd left.
// The loan is in the lease.
package loan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// LongestLoan bounds a loan. A loan whose end is further away was written before the clock was set
// back.
const LongestLoan = time.Hour

// Lender lends rates to the VFs of a host. Its methods may be called concurrently.
type Lender struct {
	vfs *hold.VFs
}

// New returns a Lender.
func New(vfs *hold.VFs) *Lender { return &Lender{vfs: vfs} }

// Lend gives an attached VF another max_tx_rate for a while, to measure with. The wanted rate of
// the lease stays as it is. The loan and its end are in the ledger before the kernel is touched, so
// that the loan always ends. It ends by GiveBack, by Tend when its time is up, by Replay when
// culvertd starts again, and when the VF is released.
//
// Errors: vf.ErrNotFound when the VF at that address has no owner, vf.ErrHeld when a rate is lent
// to it already, vf.ErrUnable when the PF's driver would refuse the rate, vf.ErrInvalid for a time
// that is not positive or longer than LongestLoan. After an error the VF has the lease's rate, or
// Tend sets it.
func (b *Lender) Lend(ctx context.Context, pci vf.PCIAddr, maxTxRate uint32, long time.Duration) (journal.Record, error) {
	if long <= 0 || long > LongestLoan {
		return journal.Record{}, fmt.Errorf("lend a rate for %s: %w: it is lent for more than 0 s and at most %s", long, vf.ErrInvalid, LongestLoan)
	}
	rec, err := b.attachedAt(pci)
	if err != nil {
		return rec, err
	}
	unlock, err := b.vfs.Locks.Lock(ctx, rec.ID, "a loan of max_tx_rate")
	if err != nil {
		return journal.Record{}, fmt.Errorf("lend VF %s a rate: %w: nothing was changed, repeat it", pci, err)
	}
	defer unlock()
	if rec, err = b.attachedAt(pci); err != nil { // given back while we waited
		return rec, err
	}
	at, err := b.checkLoan(rec, maxTxRate)
	if err != nil {
		return journal.Record{}, fmt.Errorf("lend VF %s of PF %s a rate: %w", pci, at.Label, err)
	}
	rate := at.Driver.Effective(vf.Admin{MaxTxRate: maxTxRate}).MaxTxRate
	rec.Lease.Lent = &journal.Lent{MaxTxRate: rate, Until: b.vfs.Now().Add(long)}
	if err := b.putLoan(rec, reasons.RateLent, fmt.Sprintf("vf %d of %s, which %s has: max_tx_rate %d for %s", rec.ID.Index, at.Label, rec.Lease.Owner, rate, long)); err != nil {
		return journal.Record{}, err
	}
	if err := b.setRates(ctx, at, rec); err != nil {
		return journal.Record{}, errors.Join(fmt.Errorf("lend VF %s of PF %s max_tx_rate %d: %w", pci, at.Label, rate, err), b.EndLoan(ctx, rec))
	}
	return rec, nil
}

// attachedAt returns the record of a VF that has an owner.
func (b *Lender) attachedAt(pci vf.PCIAddr) (journal.Record, error) {
	records, err := b.vfs.ReadRecords()
	if err != nil {
		return journal.Record{}, err
	}
	i := slices.IndexFunc(records, func(r journal.Record) bool { return r.PCI == pci && r.Phase == vf.PhaseAttached })
	if i < 0 {
		return journal.Record{}, fmt.Errorf("VF %s: it has no owner: %w in the ledger", pci, vf.ErrNotFound)
	}
	return records[i], nil
}

// checkLoan refuses a rate that the driver would refuse, and a second loan.
func (b *Lender) checkLoan(rec journal.Record, maxTxRate uint32) (lease.Site, error) {
	at, err := b.vfs.FindSite(rec)
	if err != nil {
		return at, err
	}
	if l := rec.Lease.Lent; l != nil {
		return at, fmt.Errorf("%w: max_tx_rate %d is lent to it until %s", vf.ErrHeld, l.MaxTxRate, l.Until.Format(time.RFC3339))
	}
	for _, pf := range b.vfs.Hardware.PFs() {
		if pf.ID == rec.ID.PF {
			return at, pf.Fits(vf.Spec{MinTxRate: rec.Lease.Wanted.MinTxRate, MaxTxRate: &maxTxRate}, rec.Baseline.Admin, b.vfs.Spec().WhereDeclared(pf))
		}
	}
	return at, nil
}

// GiveBack ends the loan of a record: it sets the rate that the lease wants, and reads it back.
// It returns nil when there is no loan. After an error Tend tries again. The borrower has often
// disconnected when GiveBack is called, so GiveBack waits for the VF's lock for a time of its own
// and not until ctx ends.
func (b *Lender) GiveBack(ctx context.Context, rec journal.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.UndoBound)
	defer cancel()
	unlock, err := b.vfs.Locks.Lock(ctx, rec.ID, "the end of a loan of max_tx_rate")
	if err != nil {
		return fmt.Errorf("VF %s: give back the rate that was lent: %w: culvertd tries again when the loan's time is up", rec.PCI, err)
	}
	defer unlock()
	return b.EndLoan(ctx, rec)
}

// EndLoan ends a loan like GiveBack, for a VF that the caller has locked.
func (b *Lender) EndLoan(ctx context.Context, seen journal.Record) error {
	rec, same, err := b.vfs.CurrentRecord(seen)
	if err != nil || !same || rec.Phase != vf.PhaseAttached || rec.Lease.Lent == nil {
		return err // nil when it was released since
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.UndoBound) // once begun, it is finished
	defer cancel()
	over := *rec.Lease.Lent
	over.Over = true
	rec.Lease.Lent = &over
	if err := b.vfs.Ledger.Update(func(tx *journal.Tx) error { return putLent(tx, rec) }); err != nil {
		return err // it ends when its time is up
	}
	at, err := b.vfs.FindSite(rec)
	if err == nil {
		err = b.setRates(ctx, at, rec)
	}
	if err != nil {
		return fmt.Errorf("VF %s of PF %s: give back the rate that was lent: %w: it is tried again", rec.PCI, at.Label, err)
	}
	rec.Lease.Lent = nil
	return b.putLoan(rec, reasons.RateGivenBack, fmt.Sprintf("vf %d of %s, which %s has: max_tx_rate is its own again", rec.ID.Index, at.Label, rec.Lease.Owner))
}

// putLent writes the loan of a record. Another member of the bond may have handed its addresses to this
// one meanwhile, so it changes nothing else.
func putLent(tx *journal.Tx, rec journal.Record) error {
	now, err := tx.Record(rec.ID)
	if err != nil {
		return err
	}
	now.Lease.Lent = rec.Lease.Lent
	return tx.Put(now)
}

func (b *Lender) putLoan(rec journal.Record, reason, text string) error {
	return b.vfs.Ledger.Update(func(tx *journal.Tx) error {
		return errors.Join(putLent(tx, rec), tx.Event(rec.MakeEvent(journal.Normal, reason, text)))
	})
}

// setRates sets the rates of the record, and reads them back.
func (b *Lender) setRates(ctx context.Context, at lease.Site, rec journal.Record) error {
	if d, err := b.rateDrift(ctx, rec); err != nil || len(d) == 0 {
		return err
	}
	want := lease.EffectiveSpec(rec.Lease.Wanted, rec).Over(rec.Baseline.Admin)
	if err := b.vfs.MendSteps(ctx, rec, []step.Step{step.SetVFRate{PF: at.PF, Index: at.Index, Min: want.MinTxRate, Max: want.MaxTxRate}}); err != nil {
		return err
	}
	d, err := b.rateDrift(ctx, rec)
	if err == nil && len(d) > 0 {
		err = fmt.Errorf("the kernel accepted it, but read back: %s", vf.Differences(d))
	}
	return err
}

// rateDrift returns the rates that differ from the record's.
func (b *Lender) rateDrift(ctx context.Context, rec journal.Record) ([]vf.Difference, error) {
	st, err := b.vfs.ReadFromHost(ctx, rec)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(lease.HostDiff(rec, st), func(o vf.Difference) bool {
		return o.Attribute != string(vf.SetMinTxRate) && o.Attribute != string(vf.SetMaxTxRate)
	}), nil
}

// LoanOver reports whether a loan has to end now.
func (b *Lender) LoanOver(r journal.Record) bool {
	l := r.Lease.Lent
	if l == nil {
		return false
	}
	left := l.Until.Sub(b.vfs.Now())
	return l.Over || left <= 0 || left > LongestLoan
}
