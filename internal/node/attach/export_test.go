package attach

import (
	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/journal"
)

// AllocateAddresses holds the addresses of a request in the ledger, as an attach to a VF of
// the record does.
func (e *Engine) AllocateAddresses(tx *journal.Tx, rec *journal.Record, req Request) error {
	return e.addresses.leaseAddresses(tx, alloc.Choice{PF: e.vfs.Hardware.PFs()[0], Record: *rec}, rec, req)
}
