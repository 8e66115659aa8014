package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

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
	return r.Keeper.Outside(ctx, all...)
}

func isNewcomer(rec *journal.Record) bool { return rec == nil || rec.Phase == journal.Damaged }

// takeOver takes over an unused VF that is not in the ledger. Another program made it, or its
// record was lost, so it may still have its last owner's settings, which takeOver removes. The VF
// keeps the driver that it is bound to (TestTakesOverAsBound).
func (r *Reconciler) takeOver(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State) error {
	if who := findOccupant(spec, pf, v); who != "" {
		return fmt.Errorf("%s: not taken over: end that first", who)
	}
	rec := journal.Record{ID: v.ID, PCI: v.PCI, Generation: 1, Phase: journal.Making}
	err := r.Ledger.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.FreeAddresses(v.ID), tx.Put(rec))
	})
	if err != nil {
		return err
	}
	return r.finishVF(ctx, spec, pf, v, rec)
}

// findOccupant describes the use of a VF that no process has open and that the kubelet gave to no
// pod; it returns "" if the VF is unused. An interface that is up counts as used if it has
// addresses, is part of a bridge or bond, or if a program listens on it.
func findOccupant(spec desired.Spec, pf vf.PF, v vf.State) string {
	pool, pooled := spec.PoolOf(pf, v.ID.Index, v)
	switch {
	case v.Driver == vf.DriverVFIO && pooled && pool.KindOf(v) != desired.VFIO:
		return fmt.Sprintf("bound to %s by another program, and pool %s gives out interfaces (write deviceType: vfio-pci, or unbind it)", v.Driver, pool.FullName())
	case v.Driver == vf.DriverVFIO, v.Link != nil && !v.Link.Up && len(v.Link.Addrs) == 0:
		return ""
	case v.Link == nil, len(v.Link.Addrs) > 0:
		return FindStrangers(v)
	case v.Link.Promisc:
		return fmt.Sprintf("the host listens on it as %s", v.Link.Name)
	}
	if master := v.Link.Attributes.Value("master"); master != "" && master != "0" {
		return fmt.Sprintf("the host uses it as %s, a part of another interface", v.Link.Name)
	}
	return ""
}

// FindStrangers describes a possible use of a VF that is not in the ledger, as far as one listing
// shows; it returns "" if there is none. Callers ask before they destroy the VF.
func FindStrangers(v vf.State) string {
	switch {
	case v.Driver == vf.DriverVFIO:
		return "bound to " + v.Driver + " by another program, perhaps for a VM"
	case v.Driver != "" && v.Link == nil:
		return "its interface is not on the host, so a container has it"
	case v.Link != nil && (v.Link.Up || len(v.Link.Addrs) > 0):
		return fmt.Sprintf("the host uses it as %s (up %t, addresses %s)", v.Link.Name, v.Link.Up, excerpt.List(v.Link.Addrs, v.Link.MoreAddrs))
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
	if unknown != nil {
		return fmt.Errorf("culvertd cannot tell whether it is in use, so it does not take the VF over: %w", unknown)
	}
	if use, ok := used[v.PCI]; ok {
		return fmt.Errorf("%s: not taken over: end that first", use)
	}
	return nil
}
