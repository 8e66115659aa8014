package attach

import (
	"context"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/vf"
)

// Room describes, for messages, how full the pool of a VF is and who has its VFs. It returns ""
// if that is not known.
func (e *Engine) Room(ctx context.Context, pci vf.PCIAddr) string {
	records, err := e.vfs.ReadRecords()
	if err != nil {
		return ""
	}
	var given func(vf.PCIAddr) string
	if e.vfs.Given != nil {
		ctx, cancel := context.WithTimeout(ctx, hold.GivenBound)
		defer cancel()
		if given, err = e.vfs.Given(ctx); err != nil {
			given = nil // the ledger's part of the report is complete without it
		}
	}
	return alloc.Host{PFs: e.vfs.Hardware.PFs(), Records: records, Spec: e.vfs.Spec()}.Room(pci, given)
}

// PFs returns the PFs of the host as they were last listed.
func (e *Engine) PFs() []vf.PF { return e.vfs.Hardware.PFs() }
