package faulty

import (
	"context"
	"fmt"

	"github.com/culvert-net/culvert/internal/vf"
)

// A Reading is a question to the kernel about VFs.
type Reading struct {
	Kind ReadingKind
	VFs  []vf.PCIAddr
}

// ReadingKind is one of the kernel's methods that read VFs.
type ReadingKind string

// The readings that may fail.
const (
	ReadVF    ReadingKind = "VF"
	ReadGuard ReadingKind = "Guard"
	ReadUsers ReadingKind = "Users"
	ReadUses  ReadingKind = "Uses"

	ReadVFTraffic ReadingKind = "VFTraffic" // of a PF
)

func (r Reading) String() string { return fmt.Sprintf("read %s of %v", r.Kind, r.VFs) }

// ReadHook is called before each reading. The reading fails with the error that it returns. A hook
// that waits until the context ends makes the reading slow.
type ReadHook func(context.Context, Reading) error

// FailReads makes every later reading call h. If h is nil, no reading fails.
func (k *Kernel) FailReads(h ReadHook) {
	if h == nil {
		k.readHook.Store(nil)
		return
	}
	k.readHook.Store(&h)
}

func (k *Kernel) askReadHook(ctx context.Context, kind ReadingKind, vfs ...vf.PCIAddr) error {
	h := k.readHook.Load()
	if h == nil {
		return nil
	}
	r := Reading{Kind: kind, VFs: vfs}
	if err := (*h)(ctx, r); err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	return nil
}

// VF reads one VF, unless the ReadHook returns an error.
func (k *Kernel) VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error) {
	if err := k.askReadHook(ctx, ReadVF, pci); err != nil {
		return vf.State{}, err
	}
	return k.under.VF(ctx, pci, netns)
}

// Guard reads the guard of a VF, unless the ReadHook returns an error.
func (k *Kernel) Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error) {
	if err := k.askReadHook(ctx, ReadGuard, pci); err != nil {
		return vf.Guard{}, err
	}
	return k.under.Guard(ctx, pci, netns)
}

// Users reads who has VFs open, unless the ReadHook returns an error.
func (k *Kernel) Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error) {
	if err := k.askReadHook(ctx, ReadUsers, vfs...); err != nil {
		return nil, err
	}
	return k.under.Users(ctx, vfs...)
}

// Uses reads how VFs are used, unless the ReadHook returns an error.
func (k *Kernel) Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	if err := k.askReadHook(ctx, ReadUses, vfs...); err != nil {
		return nil, err
	}
	return k.under.Uses(ctx, vfs...)
}

// VFTraffic reads the counters of a PF's VFs, unless the ReadHook returns an error.
func (k *Kernel) VFTraffic(ctx context.Context, pf vf.PCIAddr) (map[int]vf.Traffic, error) {
	if err := k.askReadHook(ctx, ReadVFTraffic, pf); err != nil {
		return nil, err
	}
	return k.under.VFTraffic(ctx, pf)
}
