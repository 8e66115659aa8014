package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// hangPause is how long culvertd mends nothing of an attached VF after a call for it hung. Each
// call that hangs keeps a thread, and delays a DEL by stepBound.
const hangPause = 5 * time.Minute

// hang is a call to the kernel for an attached VF that did not return in time. It may yet take
// effect, so the release of the lease quarantines the VF (reset.findHang).
type hang struct {
	at  time.Time
	err error
}

// FindCall returns an error if a call that changes the VF, or makes the bond of its lease, has not
// returned from the kernel. The call may take effect at any time, so the VF gets no owner before
// the call has returned.
func (h *VFs) FindCall(at lease.Site, rec journal.Record) error {
	for _, s := range h.Kernel.Hung() {
		bond, _ := s.(step.AddBond)
		if step.TargetOf(s).IsVF(rec.PCI, at.PF, at.Index) || rec.Lease.BondMark != "" && bond.Mark == rec.Lease.BondMark {
			return fmt.Errorf("%w: %s is stuck in the kernel; dmesg may say where it hangs", vf.ErrTimeout, s)
		}
	}
	return nil
}

// FindCallFor is FindCall for a VF of a PF.
func (h *VFs) FindCallFor(pf vf.PF, rec journal.Record) error {
	return h.FindCall(lease.SiteOf(pf, rec), rec)
}

// MendSteps carries out steps for an attached VF. A step that fails does not stop the others. A
// step that hangs does, and MendSteps remembers the hang for the release of the lease.
func (h *VFs) MendSteps(ctx context.Context, rec journal.Record, steps []step.Step) error {
	var errs []error
	for _, s := range steps {
		err := h.DoStep(ctx, s)
		errs = append(errs, err)
		if errors.Is(err, vf.ErrTimeout) {
			h.hangs.Store(rec, hang{h.Now(), err})
			break
		}
	}
	return errors.Join(errs...)
}

// HungOfLate reports whether a call for an attached VF hung within hangPause.
func (h *VFs) HungOfLate(rec journal.Record) bool {
	last := h.hangs.Load(rec)
	since := h.Now().Sub(last.at)
	return last.err != nil && since >= 0 && since < hangPause
}

// LastHang returns the error of the last call for an attached VF that hung, nil if none has.
func (h *VFs) LastHang(rec journal.Record) error { return h.hangs.Load(rec).err }
