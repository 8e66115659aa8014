package reset

import (
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// RemoveGuard removes the guard of a lease from the owner's netns, after the VF has left it. So
// the owner never sends without it. A table that stays would hold the next interface of that name
// there to the old addresses.
func (b *Resetter) RemoveGuard(ctx context.Context, rec journal.Record) error {
	if rec.Lease.Wanted.Guard == "" || rec.Lease.Netns == "" {
		return nil
	}
	if err := b.vfs.DoStep(ctx, step.DelGuard{VF: rec.PCI, Netns: rec.Lease.Netns}); err != nil {
		return err
	}
	left, err := b.vfs.Kernel.Guard(ctx, rec.PCI, rec.Lease.Netns)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if text := left.String(); text != (vf.Guard{}).String() {
		return fmt.Errorf("the guard of VF %s is still in %s: %s", rec.PCI, rec.Lease.Netns, text)
	}
	return nil
}

// RemoveGuardAfter removes the guard of a lease after a reset that gave the error err, and returns
// what is wrong with the VF. It leaves the guard of a VF that may still be with its owner; a later
// retry removes it.
func (b *Resetter) RemoveGuardAfter(ctx context.Context, rec journal.Record, err error) error {
	if err != nil && !errors.Is(err, hold.ErrGone) {
		return err
	}
	if left := b.RemoveGuard(ctx, rec); left != nil {
		return left
	}
	return err
}
