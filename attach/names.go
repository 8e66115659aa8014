package attach

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// roomBound is how long a reset waits for another VF to give up a name.
const roomBound = 10 * time.Second

// resetStep carries out one step of a reset. Where the name is taken that the
// VF has at home, it makes room and tries once more.
//
// Without udev a VF whose driver is bound anew is called ethN, the first that is
// free: that of another VF which is with its owner, or is bound anew at the same
// moment. Two VFs that sit on each other's names would never come home (seen in
// the lab).
func (e *Engine) resetStep(ctx context.Context, rec journal.Record, s step.Step) error {
	err := e.do(ctx, s)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	switch s.(type) {
	case step.Rename:
		// Whoever waits must not sit on a name that another one waits for.
		err = errors.Join(err, e.do(ctx, step.Rename{VF: rec.PCI, Name: passing(rec.PCI)}))
	case step.Move:
	default:
		return err
	}
	if roomErr := e.makeRoom(ctx, rec); roomErr != nil {
		return errors.Join(err, roomErr)
	}
	return e.do(ctx, s)
}

// passing is the name of a netdevice that has none for the moment. Each VF has
// another.
func passing(pci vf.PCIAddr) string {
	return "cv" + strings.NewReplacer(":", "", ".", "").Replace(pci.String())
}

// makeRoom takes the name that rec's VF has at home from another VF, which
// gets its own back when it is tended; or waits for the one that works on it.
func (e *Engine) makeRoom(ctx context.Context, rec journal.Record) error {
	records, err := e.records()
	if err != nil {
		return err
	}
	for _, other := range records {
		if other.ID == rec.ID || other.Baseline.Name == rec.Baseline.Name {
			continue
		}
		st, err := e.Kernel.VF(ctx, other.PCI, "")
		if err != nil || st.Link == nil || st.Link.Name != rec.Baseline.Name {
			continue // one that cannot be read is not known to have it
		}
		unlock, busy := e.vfs.TryLock(other.ID, "a rename, which another VF needs")
		if busy == nil {
			err := e.do(ctx, step.Rename{VF: other.PCI, Name: passing(other.PCI)})
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
