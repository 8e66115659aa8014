package attach

import (
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// errGone says that a VF is not on the bus any more: it or its PF was removed, or another
// program wrote sriov_numvfs. Its netdevice went with it, wherever that was, so neither it nor
// its addresses have an owner.
var errGone = errors.New("gone from the bus")

// readVF reads a VF of the ledger. The error is errGone when the VF does not exist any more, or
// when its address belongs to another VF now. Any other error leaves open whether the VF exists.
func (e *Engine) readVF(ctx context.Context, rec journal.Record) (vf.State, error) {
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

// readFromHost reads a VF without looking into the netns of its owner, which can keep culvertd from
// reading it there. The interface is nil unless it is on the host.
func (e *Engine) readFromHost(ctx context.Context, rec journal.Record) (vf.State, error) {
	return e.readVF(ctx, journal.Record{ID: rec.ID, PCI: rec.PCI})
}

// readForReset is readVF for a VF that its owner has given back. If the owner's netns cannot be read,
// the VF counts as one without an interface, so that the reset binds its driver anew (I8).
func (e *Engine) readForReset(ctx context.Context, rec journal.Record) (vf.State, error) {
	st, err := e.readVF(ctx, rec)
	if err == nil || errors.Is(err, errGone) || rec.Lease.Netns == "" {
		return st, err
	}
	host, hostErr := e.readFromHost(ctx, rec)
	if hostErr != nil {
		return st, err
	}
	e.Log.Warn("read a VF in the netns of its owner; it is reset from the host", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	return host, nil
}

// forgetVF ends the lease on a VF that is gone, and with it the record: if the VF comes back,
// reconcile takes it over as a new one.
func (e *Engine) forgetVF(rec journal.Record, cause error) error {
	e.Log.Warn("VF is gone", "vf", rec.ID, "phase", rec.Phase, "owner", rec.Lease.Owner, "err", cause)
	err := e.Ledger.Update(func(tx *journal.Tx) error { return tx.Forget(rec.ID, cause.Error()) })
	if err == nil {
		e.forgetLease(rec.ID)
	}
	return err
}
