package journal

import (
	"errors"
	"slices"
)

// IsMemberWith reports whether two records are leases on members of one bond. A quarantined VF of an
// earlier bond of the same owner and interface has another mark.
func (r Record) IsMemberWith(o Record) bool {
	a, b := r.Lease, o.Lease
	return r.ID != o.ID && a.Bond != nil && b.Bond != nil && a.BondMark == b.BondMark && a.Owner.UID == b.Owner.UID && a.Owner.Interface == b.Owner.Interface
}

// handOver gives the addresses of a member of a bond to another member, with everything in the
// lease that belongs to them. It does nothing if there is no other member.
func (t *Tx) handOver(from Record) error {
	if from.Lease.Bond == nil {
		return nil
	}
	for _, to := range t.Records() {
		if !to.IsMemberWith(from) {
			continue
		}
		l, w := &to.Lease, from.Lease.Wanted
		l.Wanted.Addresses, l.Wanted.Routes = slices.Concat(l.Wanted.Addresses, w.Addresses), slices.Concat(l.Wanted.Routes, w.Routes)
		if l.Delegation == nil {
			l.Delegation = from.Lease.Delegation
		}
		if len(l.Request) == 0 { // the DEL of the delegation needs it
			l.Request = from.Lease.Request
		}
		errs := []error{t.Put(to)}
		for _, a := range t.AddressesOf("") {
			if a.VF == from.ID && a.Damage == "" {
				a.VF = to.ID
				errs = append(errs, t.putJSON(bucketAddresses, a.entryKey(), a))
			}
		}
		return errors.Join(errs...)
	}
	return nil
}
