package reset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
)

// RemoveBond removes the bond of which a VF is a member, before the VF is reset. That also ends the
// bond for the other members: an attachment ends as a whole. RemoveBond does nothing for a VF that
// is not in a bond. While the bond exists, the VF gets no new owner, since the bond may still have
// the addresses of the lease.
func (b *Resetter) RemoveBond(ctx context.Context, rec journal.Record) error {
	bond := lease.BondOf(rec)
	if bond == "" {
		return nil
	}
	if err := b.vfs.DoStep(ctx, step.DelBond{VF: rec.PCI, Netns: rec.Lease.Netns, Name: bond, Mark: rec.Lease.BondMark}); err != nil {
		return err
	}
	st, err := b.vfs.ReadVF(ctx, rec)
	if err == nil && st.Link != nil && st.Link.Bond != nil && st.Link.Bond.Mark == rec.Lease.BondMark {
		return fmt.Errorf("bond %s of %s was removed, and is still there", bond, rec.Lease.Owner)
	}
	return nil // ResetVF reads the VF, too
}

// RemoveEmptyBond removes the bond of a VF that is no longer on the bus, unless another VF of the
// bond is. Otherwise the pod would keep an interface with addresses that no lease holds.
func (b *Resetter) RemoveEmptyBond(ctx context.Context, gone journal.Record) error {
	if lease.BondOf(gone) == "" {
		return nil
	}
	records, err := b.vfs.ReadRecords()
	if err != nil {
		return err
	}
	for _, r := range records {
		if !r.IsMemberWith(gone) {
			continue
		}
		if _, err := b.vfs.ReadVF(ctx, r); !errors.Is(err, hold.ErrGone) {
			return nil
		}
	}
	return b.RemoveBond(ctx, gone)
}

// detachBond takes all VFs of a bond back, the last one first. It skips a member whose release has
// failed before, since culvertd retries that release separately.
func (b *Resetter) detachBond(ctx context.Context, rec journal.Record) error {
	records, err := b.vfs.ReadRecords()
	errs := []error{err}
	for _, r := range slices.Backward(lease.BondMembers(records, rec)) {
		errs = append(errs, b.DetachLease(ctx, r, reasons.Detached, nil))
	}
	return errors.Join(errs...)
}
