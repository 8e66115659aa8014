package hold

import (
	"errors"
	"slices"

	"github.com/culvert-net/culvert/internal/node/journal"
)

// Delegations returns the calls of IPAM plugins that still need their DEL. held has those of
// leases; owed has those of leases that have ended, or whose VF is in quarantine.
func (h *VFs) Delegations() (held, owed []journal.Delegation, err error) {
	records, err := h.ReadRecords()
	for _, r := range records {
		owed = append(owed, r.Owed...)
		d, has := r.Lease.Delegated()
		switch {
		case !has:
		case r.Held():
			held = append(held, d)
		default:
			owed = append(owed, d)
		}
	}
	return held, owed, err
}

// Undone records that an IPAM plugin has answered the DEL of an attachment with success.
func (h *VFs) Undone(d journal.Delegation) error {
	return h.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, r := range tx.Records() {
			leased, has := r.Lease.Delegated()
			has = has && leased.IsSame(d)
			if !has && !slices.ContainsFunc(r.Owed, d.IsSame) {
				continue
			}
			if has {
				r.Lease.Delegation = nil
			}
			r.Owed = slices.DeleteFunc(slices.Clone(r.Owed), d.IsSame)
			errs = append(errs, tx.Put(r))
		}
		return errors.Join(errs...)
	})
}
