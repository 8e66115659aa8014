package reconcile

import (
	"context"
	"fmt"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// hasOtherMTU reports whether the baseline of a free VF has another MTU than want, the MTU for the
// VFs of its PF. A want of 0 leaves the MTU alone.
func hasOtherMTU(want int, b vf.Baseline) bool {
	return want != 0 && b.Name != "" && b.MTU != want
}

// resizeMTU gives a free VF the MTU that the VFs of its PF should have, and records it in the VF's
// baseline. If the driver refuses the MTU, the VF and its baseline stay as they were.
func (r *Reconciler) resizeMTU(ctx context.Context, v vf.State, mtu int) error {
	_, err := r.VFs.WithIdle(ctx, v.ID, func(seen journal.Record) error {
		if err := r.setMTU(ctx, v, mtu); err != nil {
			return err
		}
		return r.Ledger.Update(func(tx *journal.Tx) error {
			now, err := tx.Record(seen.ID)
			if err != nil || now.Phase != vf.PhaseFree || now.Generation != seen.Generation {
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
	if err := r.doStep(ctx, bindBound, step.SetMTU{VF: v.PCI, MTU: mtu}); err != nil {
		return err
	}
	st, err := r.Kernel.VF(ctx, v.PCI, "")
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if st.Link == nil || st.Link.MTU != mtu {
		return fmt.Errorf("MTU %d was set, but the interface does not have it: %w", mtu, vf.ErrUnable)
	}
	return nil
}
