package attach

import (
	"context"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// A reset waits so long for who has the VF open, and looks so often: a QEMU that was
// killed gives its memory back before its files.
const (
	openBound = 3 * time.Second
	openLook  = 100 * time.Millisecond
)

// InUse is an error that names who has the VF of a record open through vfio
// (vf.ErrHeld), nil when nobody has.
func (e *Engine) InUse(ctx context.Context, rec journal.Record) error {
	all, err := e.Kernel.Users(ctx, rec.PCI)
	users := all[rec.PCI]
	if err != nil || len(users) == 0 {
		return err
	}
	text := users[0].String()
	if more := len(users) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("VF %s: %w open by %s", rec.PCI, vf.ErrHeld, text)
}

// letGo waits until nobody has a VF open that is bound to vfio-pci. To reset it
// before would take it out of a guest that runs, or hang until that ends.
func (e *Engine) letGo(ctx context.Context, rec journal.Record, st vf.State) error {
	if st.Driver != vf.DriverVFIO {
		return nil
	}
	late := time.NewTimer(openBound)
	defer late.Stop()
	for {
		err := e.InUse(ctx, rec)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(openLook):
		case <-late.C:
			return fmt.Errorf("%w: it is reset when that lets go", err)
		case <-ctx.Done():
			return err
		}
	}
}
