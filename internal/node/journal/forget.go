package journal

import (
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// Forget deletes the record of a VF that no longer exists, frees the VF's addresses, and adds an
// event that names the owner who lost the VF. The addresses of a bond, which its other members
// still carry, go to another member. Forget reads the record itself: an earlier Forget of the
// transaction may have given it the addresses of its bond. Without a record, it does nothing.
func (t *Tx) Forget(id vf.ID, why string) error {
	r, err := t.Record(id)
	if errors.Is(err, vf.ErrNotFound) {
		return nil
	}
	errs := []error{err, t.handOver(r), t.Delete(id), t.FreeAddresses(id)}
	if owner := r.OwnerOrClaim(); !owner.IsZero() {
		e := r.MakeEvent(Warning, reasons.LeaseEnded, fmt.Sprintf("%s no longer has it: %s", owner, why))
		e.Phase = "" // it has none any more
		errs = append(errs, t.Event(e))
	}
	return errors.Join(errs...)
}
