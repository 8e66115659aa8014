package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// errNotTaken marks a VF that another user keeps, perhaps for ever.
var errNotTaken = errors.New("not taken over")

// findNewcomers returns the uses of those VFs of a PF that are not in the ledger; unused VFs are
// left out. If all VFs are in the ledger, it asks neither the kernel nor the kubelet.
func (r *Reconciler) findNewcomers(ctx context.Context, pf vf.PF, records []journal.Record) (map[vf.PCIAddr]vf.Use, error) {
	var all []vf.PCIAddr
	for _, v := range pf.VFs {
		if isNewcomer(recordOf(records, v.ID)) {
			all = append(all, v.PCI)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return r.VFs.Outside(ctx, all...)
}

func isNewcomer(rec *journal.Record) bool { return rec == nil || rec.Phase == vf.PhaseDamaged }

// takeOver takes over an unused VF that is not in the ledger. Another program made it, or its
// record was lost, so it may still have its last owner's settings, which takeOver removes. The VF
// keeps the driver that it is bound to (TestTakesOverAsBound).
func (r *Reconciler) takeOver(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State) error {
	if err := checkBinding(spec, pf, v); err != nil {
		return err
	}
	rec := journal.Record{ID: v.ID, PCI: v.PCI, Generation: 1, Phase: vf.PhaseMaking}
	err := r.Ledger.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.FreeAddresses(v.ID), tx.Put(rec))
	})
	if err != nil {
		return err
	}
	return r.finishVF(ctx, spec, pf, v, rec)
}

// checkBinding returns an error if another program bound a VF to a driver of UIO, or to vfio-pci
// while the VF's pool gives out interfaces.
func checkBinding(spec desired.Spec, pf vf.PF, v vf.State) error {
	if vf.IsUIO(v.Driver) {
		return fmt.Errorf("bound to %s by another program, whose /dev/uio Culvert gives to no pod (bind %s, or unbind it): %w: end that first", v.Driver, vf.DriverVFIO, errNotTaken)
	}
	pool, pooled := spec.PoolOf(pf, v.ID.Index, v)
	if v.Driver == vf.DriverVFIO && pooled && pool.KindOf(v) != desired.VFIO {
		return fmt.Errorf("bound to %s by another program, and pool %s gives out interfaces (write deviceType: vfio-pci, or unbind it): %w: end that first", v.Driver, pool.FullName(), errNotTaken)
	}
	return nil
}

// DescribePlans returns a reason not to destroy a VF that is not in the ledger and is not
// used now: another program prepared it, as for a guest that is shut down. It returns "" if there is
// none.
func DescribePlans(v vf.State) string {
	switch {
	case v.Driver == vf.DriverVFIO, vf.IsUIO(v.Driver):
		return "bound to " + v.Driver + " by another program, perhaps for a VM"
	case v.Link != nil && v.Link.Up:
		return fmt.Sprintf("set up as %s by another program", v.Link.Name)
	}
	return ""
}

// withRebind adds the steps that give a VF a new netdevice to the steps that take it over, unless
// these already bind its driver. The present netdevice may have a name and MTU from the VF's last
// owner, or from another program. udev may also not have named it yet when an earlier try timed
// out (seen on a busy machine).
func withRebind(v vf.State, steps []step.Step) []step.Step {
	for _, s := range steps {
		if _, anew := s.(step.Bind); anew {
			return steps
		}
	}
	if v.Driver == "" || v.Driver == vf.DriverVFIO {
		return steps
	}
	return append([]step.Step{step.Unbind{VF: v.PCI}}, append(steps, step.Bind{VF: v.PCI})...)
}

// refuseNewcomer returns the reason why a VF must not be taken over, or nil.
func refuseNewcomer(used map[vf.PCIAddr]vf.Use, unknown error, v vf.State) error {
	if use, ok := used[v.PCI]; ok {
		return fmt.Errorf("%s: %w: end that first", use, errNotTaken)
	}
	if unknown != nil {
		return fmt.Errorf("culvertd cannot tell whether it is in use, so it does not take the VF over: %w", unknown)
	}
	return nil
}
