package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// planAddresses plans to add declared addresses that the PF lacks, and to remove addresses that
// culvertd added and that are no longer declared. Other addresses stay, and so do all while culvertd
// does not know all that is wanted of the PF.
func (p *PFPlan) planAddresses() {
	for _, a := range p.surplusAddresses() {
		p.addChange(ofPF, "address", a.String(), "none")
	}
	for _, a := range missingAddresses(p.Want.Addresses, p.PF) {
		p.addChange(ofPF, "address", "none", a.String())
	}
}

// surplusAddresses returns the addresses that culvertd added and that are not declared.
func (p *PFPlan) surplusAddresses() (all []netip.Prefix) {
	if p.mayWant {
		return nil
	}
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

// setAddresses applies a plan's changes to the PF's addresses. An address that fails delays no
// other address and no VF (I7). The caller has read the PF without an error.
func (r *Reconciler) setAddresses(ctx context.Context, p PFPlan) error {
	var errs []error
	for _, a := range p.surplusAddresses() {
		errs = append(errs, r.doStep(ctx, carrierBound, step.DelPFAddress{PF: p.PF.PCI, Address: a}))
	}
	for _, a := range missingAddresses(p.Want.Addresses, p.PF) {
		errs = append(errs, r.doStep(ctx, carrierBound, step.AddPFAddress{PF: p.PF.PCI, Address: a}))
	}
	return namePF(p.PF, errors.Join(errs...))
}

// checkAddresses returns an error that names the added addresses which the PF lacks when it is
// read again (I6).
func checkAddresses(want []netip.Prefix, pf vf.PF) error {
	if left := missingAddresses(want, pf); len(left) > 0 {
		return namePF(pf, fmt.Errorf("addresses %s were added, but the PF does not have them: %w", excerpt.Join(left), vf.ErrUnable))
	}
	return nil
}
