package journal

import (
	"errors"
	"fmt"
)

// Forget deletes the record of a VF that no longer exists, frees the VF's addresses, and adds an
// event that names the owner who lost the VF. The addresses of a bond, which its other members
// still carry, become theirs.
func (t *Tx) Forget(r Record, why string) error {
	errs := []error{t.handOver(r), t.Delete(r.ID), t.FreeAddresses(r.ID)}
	if owner := r.Lease.Owner; !owner.IsZero() {
		errs = append(errs, t.Event(Event{
			Type: Warning, Reason: "LeaseEnded", Object: "VF " + r.PCI.String(),
			Text: fmt.Sprintf("%s no longer has it: %s", owner, why),
		}))
	}
	return errors.Join(errs...)
}
