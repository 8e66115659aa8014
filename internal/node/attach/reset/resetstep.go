package reset

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// roomBound is how long a reset waits for another VF to give up a name.
const roomBound = 10 * time.Second

// resetStep carries out one step of a reset. If another netdevice has the name that the VF has in
// its baseline, resetStep frees the name and tries once more.
//
// Without udev the kernel names the netdevice of a newly bound driver ethN, with the first N that
// is free. That can be the name of another VF, which is with its owner or is being bound at the
// same moment. Two VFs with each other's names could then never be reset (seen in the lab).
func (b *Resetter) resetStep(ctx context.Context, rec journal.Record, s step.Step) error {
	err := b.vfs.DoStep(ctx, s)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	switch s.(type) {
	case step.Rename:
		// A waiting rename must not occupy a name that another rename waits for.
		err = errors.Join(err, b.vfs.DoStep(ctx, step.Rename{VF: rec.PCI, Name: passingName(rec.PCI)}))
	case step.Move:
	default:
		return err
	}
	if roomErr := b.makeRoom(ctx, rec); roomErr != nil {
		return errors.Join(err, roomErr)
	}
	return b.vfs.DoStep(ctx, s)
}

// passingName returns the temporary name of a VF's netdevice, which no other VF has.
func passingName(pci vf.PCIAddr) string {
	return "cv" + strings.NewReplacer(":", "", ".", "").Replace(pci.String())
}

// makeRoom frees the name in rec's baseline if another VF's netdevice has it: it gives that
// netdevice a temporary name, and Tend restores its own. If other work has that VF locked,
// makeRoom waits for that work.
func (b *Resetter) makeRoom(ctx context.Context, rec journal.Record) error {
	records, err := b.vfs.ReadRecords()
	if err != nil {
		return err
	}
	for _, other := range records {
		if other.ID == rec.ID || other.Baseline.Name == rec.Baseline.Name {
			continue
		}
		st, err := b.vfs.Kernel.VF(ctx, other.PCI, "")
		if err != nil || st.Link == nil || st.Link.Name != rec.Baseline.Name {
			continue // a VF that cannot be read counts as without the name
		}
		unlock, busy := b.vfs.Locks.TryLock(other.ID, "a rename, which another VF needs")
		if busy == nil {
			err := b.vfs.DoStep(ctx, step.Rename{VF: other.PCI, Name: passingName(other.PCI)})
			unlock()
			return err
		}
		select {
		case <-busy.Done():
		case <-time.After(roomBound):
		case <-ctx.Done():
		}
		return nil
	}
	return nil
}
