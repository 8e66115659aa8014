package attach

import (
	"context"

	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// AllocateAddresses holds the addresses of a request in the ledger, as an attach to a VF of
// the record does.
func (e *Engine) AllocateAddresses(tx *journal.Tx, rec *journal.Record, req Request) error {
	return e.addresses.leaseAddresses(tx, alloc.Choice{PF: e.vfs.Hardware.PFs()[0], Record: *rec}, rec, req)
}

// ErrAgain is errAgain.
var ErrAgain = errAgain

// ReserveAfter is reserveVF once, with other work between the choice of VFs and the rest.
func (e *Engine) ReserveAfter(ctx context.Context, req Request, other func()) error {
	got, err := e.chooseVFs(req, map[vf.ID]*keylock.Work{}, nil)
	if err != nil {
		return err
	}
	other()
	_, err = e.reserveChosen(ctx, req, got, nil)
	return err
}
