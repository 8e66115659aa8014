package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// addresses adds what changes of a PF's addresses: those that are declared and not there,
// and those that culvertd added and that are not declared any more. Others stay.
func (p *PFPlan) addresses() {
	for _, a := range p.surplus() {
		p.add(ofPF, "address", a.String(), "none")
	}
	for _, a := range missingAddresses(p.Want.Addresses, p.PF) {
		p.add(ofPF, "address", "none", a.String())
	}
}

// surplus returns the addresses that culvertd added and that are not declared.
func (p *PFPlan) surplus() (all []netip.Prefix) {
	for _, a := range p.PF.OwnAddrs {
		if !slices.Contains(p.Want.Addresses, a) {
			all = append(all, a)
		}
	}
	return all
}

func missingAddresses(want []netip.Prefix, pf vf.PF) (all []netip.Prefix) {
	for _, a := range want {
		if !slices.Contains(pf.Addrs, a) {
			all = append(all, a)
		}
	}
	return all
}

// setAddresses carries out what a plan changes of the PF's addresses. One that fails keeps
// no other, and no VF, from being done (I7). The PF was read without an error.
func (r *Reconciler) setAddresses(ctx context.Context, p PFPlan) error {
	var errs []error
	for _, a := range p.surplus() {
		errs = append(errs, r.do(ctx, carrierBound, step.DelPFAddress{PF: p.PF.PCI, Address: a}))
	}
	for _, a := range missingAddresses(p.Want.Addresses, p.PF) {
		errs = append(errs, r.do(ctx, carrierBound, step.AddPFAddress{PF: p.PF.PCI, Address: a}))
	}
	return about(p.PF, errors.Join(errs...))
}

// checkAddresses reports addresses that were added and are not there when the PF is read
// again (I6).
func checkAddresses(want []netip.Prefix, pf vf.PF) error {
	if left := missingAddresses(want, pf); len(left) > 0 {
		return about(pf, fmt.Errorf("addresses %v were added and it does not have them: %w", left, vf.ErrUnable))
	}
	return nil
}
