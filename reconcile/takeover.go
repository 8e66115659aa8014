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

// takeOver makes a VF that the ledger does not tell of ours, when the kernel
// shows that nobody uses it. Somebody else made it, or its record was lost:
// then its last owner's settings are still on it, and go.
func (r *Reconciler) takeOver(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State) error {
	if who := strangers(v); who != "" {
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

// strangers says who uses a VF that the ledger does not tell of, as far as the
// kernel shows; nothing for nobody.
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
