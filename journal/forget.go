package journal

import (
	"errors"
	"fmt"
)

// Forget drops the record of a VF that is no longer there, with the addresses
// that hang on it, and tells who lost the VF by it.
func (t *Tx) Forget(r Record, why string) error {
	errs := []error{t.Delete(r.ID), t.FreeAddresses(r.ID)}
	if owner := r.Lease.Owner; !owner.IsZero() {
		errs = append(errs, t.Event(Event{
			Type: Warning, Reason: "LeaseEnded", Object: "VF " + r.PCI.String(),
			Text: fmt.Sprintf("%s no longer has it: %s", owner, why),
		}))
	}
	return errors.Join(errs...)
}
