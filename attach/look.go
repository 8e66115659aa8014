package attach

import (
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// errGone is a VF that is not on the bus any more: it or its PF was removed, or
// somebody wrote sriov_numvfs. Its netdevice went with it, wherever that was, so
// nobody has it and nobody has its addresses.
var errGone = errors.New("gone from the bus")

// look reads a VF of the ledger. errGone when it is not there, or when its
// address belongs to another VF now. Another error says nothing about that.
func (e *Engine) look(ctx context.Context, rec journal.Record) (vf.State, error) {
	st, err := e.Kernel.VF(ctx, rec.PCI, rec.Lease.Netns)
	switch {
	case errors.Is(err, vf.ErrNotFound):
		return st, fmt.Errorf("%w: %w", errGone, err)
	case err != nil:
		return st, err
	case st.ID != rec.ID:
		return st, fmt.Errorf("%w: %s is VF %s now", errGone, rec.PCI, st.ID)
	}
	return st, nil
}

// forget ends the lease on a VF that is gone, and with it the record: should
// the VF come back, reconcile makes it Culvert's anew.
func (e *Engine) forget(rec journal.Record, cause error) error {
	e.Log.Warn("VF is gone", "vf", rec.ID, "phase", rec.Phase, "owner", rec.Lease.Owner, "err", cause)
	return e.Ledger.Update(func(tx *journal.Tx) error { return tx.Forget(rec, cause.Error()) })
}
