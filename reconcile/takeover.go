package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// newcomers returns the uses of the VFs of a PF that the ledger does not tell of, those
// that are not used left out. It asks nothing where there are none.
func (r *Reconciler) newcomers(ctx context.Context, pf vf.PF, records []journal.Record) (map[vf.PCIAddr]vf.Use, error) {
	var all []vf.PCIAddr
	for _, v := range pf.VFs {
		if isNewcomer(recordOf(records, v.ID)) {
			all = append(all, v.PCI)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return r.Keeper.Outside(ctx, all...)
}

func isNewcomer(rec *journal.Record) bool { return rec == nil || rec.Phase == journal.Damaged }

// takeOver makes a VF that the ledger does not tell of ours, when nobody uses it.
// Somebody else made it, or its record was lost: then its last owner's settings are
// still on it, and go. It keeps the driver that it is bound to (TestTakesOverAsBound).
func (r *Reconciler) takeOver(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State) error {
	if who := occupant(spec, pf, v); who != "" {
		return fmt.Errorf("%s: not taken over: end that first", who)
	}
	rec := journal.Record{ID: v.ID, PCI: v.PCI, Generation: 1, Phase: journal.Making}
	err := r.Ledger.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.FreeAddresses(v.ID), tx.Put(rec))
	})
	if err != nil {
		return err
	}
	return r.finish(ctx, spec, pf, v, rec)
}

// occupant says who uses a VF that no process has open and that the kubelet gave to no
// pod; nothing for nobody. An interface that is up is used where it has addresses, is a
// part of a bridge or bond, or is listened on.
func occupant(spec desired.Spec, pf vf.PF, v vf.State) string {
	pool, pooled := spec.PoolOf(pf, v.ID.Index, v)
	switch {
	case v.Driver == vf.DriverVFIO && pooled && pool.KindOf(v) != desired.VFIO:
		return fmt.Sprintf("bound to %s by somebody else, and pool %s gives out interfaces (write deviceType: vfio-pci, or unbind it)", v.Driver, pool.FullName())
	case v.Driver == vf.DriverVFIO, v.Link != nil && !v.Link.Up && len(v.Link.Addrs) == 0:
		return ""
	case v.Link == nil, len(v.Link.Addrs) > 0:
		return strangers(v)
	case v.Link.Promisc:
		return fmt.Sprintf("the host listens on it as %s", v.Link.Name)
	}
	if master := v.Link.Attributes.Value("master"); master != "" && master != "0" {
		return fmt.Sprintf("the host uses it as %s, a part of another interface", v.Link.Name)
	}
	return ""
}

// strangers says who may use a VF that the ledger does not tell of, as far as one look at
// the kernel shows; nothing for nobody. It is for those who would destroy the VF.
func strangers(v vf.State) string {
	switch {
	case v.Driver == vf.DriverVFIO:
		return "bound to " + v.Driver + " by somebody else, perhaps for a VM"
	case v.Driver != "" && v.Link == nil:
		return "its interface is not on the host, so a container has it"
	case v.Link != nil && (v.Link.Up || len(v.Link.Addrs) > 0):
		return fmt.Sprintf("the host uses it as %s (up %t, addresses %s)", v.Link.Name, v.Link.Up, excerpt.List(v.Link.Addrs, v.Link.MoreAddrs))
	}
	return ""
}

// reborn adds to the steps that make a VF ours those that give it a new
// netdevice, unless they do already. The one that is there may have the name and
// the MTU that its last owner gave it, or anybody while it was waiting; or udev
// had not named it yet when an earlier try timed out (seen on a busy machine).
func reborn(v vf.State, steps []step.Step) []step.Step {
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

// refuseNewcomer says why a VF cannot be looked at for taking over, or nil.
func refuseNewcomer(used map[vf.PCIAddr]vf.Use, unknown error, v vf.State) error {
	if unknown != nil {
		return fmt.Errorf("whether it is used is not known, so it is not taken over: %w", unknown)
	}
	if use, ok := used[v.PCI]; ok {
		return fmt.Errorf("%s: not taken over: end that first", use)
	}
	return nil
}
