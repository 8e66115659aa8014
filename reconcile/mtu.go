package reconcile

import (
	"context"
	"fmt"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// hasOtherMTU reports whether the interface of a free VF comes back with another MTU than
// its PF's entry wants: a PF's MTU is that of its VFs too.
func hasOtherMTU(want desired.PFSpec, b vf.Baseline) bool {
	return want.MTU != 0 && b.Name != "" && b.MTU != want.MTU
}

// resize gives a free VF the MTU that its PF's entry wants, as its baseline. A driver that
// refuses it leaves the VF as it was.
func (r *Reconciler) resize(ctx context.Context, v vf.State, mtu int) error {
	_, err := r.Keeper.WithIdle(ctx, v.ID, func(seen journal.Record) error {
		if err := r.setMTU(ctx, v, mtu); err != nil {
			return err
		}
		return r.Ledger.Update(func(tx *journal.Tx) error {
			now, err := tx.Record(seen.ID)
			if err != nil || now.Phase != journal.Free || now.Generation != seen.Generation {
				return err
			}
			now.Baseline.MTU = mtu
			return tx.Put(now)
		})
	})
	return err
}

// setMTU sets the MTU of a VF's interface on the host, and reads it back (I6).
func (r *Reconciler) setMTU(ctx context.Context, v vf.State, mtu int) error {
	if err := r.do(ctx, bindBound, step.SetMTU{VF: v.PCI, MTU: mtu}); err != nil {
		return err
	}
	st, err := r.Kernel.VF(ctx, v.PCI, "")
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if st.Link == nil || st.Link.MTU != mtu {
		return fmt.Errorf("MTU %d was set and the interface does not have it: %w", mtu, vf.ErrUnable)
	}
	return nil
}
