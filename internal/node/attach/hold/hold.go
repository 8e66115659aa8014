// Package hold has what every work on one VF needs: the lock of that VF, its lease in the ledger, its
// state in the kernel, the calls to the kernel that hang, and the answer to the question who uses
// it. The kernel, the ledger, the listed hardware and the wanted Spec enter. Packages reset, attach,
// loan and upkeep build on it, and reconcile asks it who uses a VF.
package hold

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Kernel is the part of kernel.Kernel that work on VFs needs.
type Kernel interface {
	steps
	users
	VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error)
	Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error)
}

// users are the reads of who uses VFs.
type users interface {
	Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error)
	Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error)
}

// steps are the steps of the kernel; Hung returns those whose calls have not come back.
type steps interface {
	Do(context.Context, step.Step) error
	Hung() []step.Step
}

// Ledger is the part of journal.Ledger that work on VFs needs.
type Ledger interface {
	Update(func(*journal.Tx) error) error
	View(func(*journal.Tx) error) error
	// Changed returns a channel that is closed at the next commit.
	Changed() <-chan struct{}
}

// Hardware is inventory.Inventory: the PFs as they were last listed.
type Hardware interface {
	PFs() []vf.PF
}

// Bounds of the time that steps may take. A step that hangs longer fails. Then the attach that it
// belongs to is undone, or the VF is quarantined.
const (
	stepBound     = 30 * time.Second
	UndoBound     = 2 * time.Minute  // of all steps of an undo or a release
	AnnounceBound = 20 * time.Second // in the background, for carrier
	// detectBound is how long an attach waits for the result of duplicate address detection,
	// including for carrier. The kernel needs 0.3 s (kernel.detectionSettings).
	detectBound = 5 * time.Second
)

// Config has what VFs is made of. All fields but Given, Observe, Now and Log are needed.
type Config struct {
	Kernel   Kernel
	Ledger   Ledger
	Hardware Hardware
	// Spec is the host's pools at the moment.
	Spec func() desired.Spec
	// Given returns a function that names the pod to which the kubelet gave a VF, as alloc.Want's
	// Given. Attach calls Given for each request, and again after each wait. It calls the
	// returned function while it chooses the VF, so that function must not block. Given is nil on
	// a host without a kubelet.
	Given func(context.Context) (func(vf.PCIAddr) string, error)
	// Observe takes durations and outcomes, for metrics. It may be nil.
	Observe observer
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger // nil discards
}

// VFs are the VFs of a host as all work on them sees them. Its methods may be called concurrently.
type VFs struct {
	Config
	Locks keylock.Locks[vf.ID]
	Dark  *Memory[Darkness]
	// Background has the work that goes on after the answers to callers: announcements, late results
	// of detection, and VFs that take long to mend.
	Background sync.WaitGroup

	hangs  *Memory[hang]
	uses   *Memory[vf.Use]  // outside Culvert, at the last look; see anyLease
	forget []func(id vf.ID) // of all memories

	kubelet kubelet
}

// New returns the VFs of a host.
func New(c Config) *VFs {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = unobserved{}
	}
	h := &VFs{Config: c}
	h.Dark, h.hangs, h.uses = NewMemory[Darkness](h), NewMemory[hang](h), NewMemory[vf.Use](h)
	return h
}

// Wait returns when all work has ended that goes on after the answers to callers, such as
// announcements.
func (h *VFs) Wait() { h.Background.Wait() }

// DoStep carries out one step within its bound.
func (h *VFs) DoStep(ctx context.Context, s step.Step) error {
	bound := stepBound
	if _, ok := s.(step.DetectDuplicates); ok {
		bound = detectBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	h.Log.Debug("step", "do", s)
	return h.Kernel.Do(ctx, s)
}

// AnnounceAddresses announces the addresses to the neighbours. An announcement needs carrier,
// which may come seconds later, so it runs in the background.
func (h *VFs) AnnounceAddresses(ctx context.Context, at lease.Site, rec journal.Record) {
	w := rec.Lease.Wanted
	if len(w.Addresses) == 0 || w.Driver == vf.DriverVFIO {
		return
	}
	s := step.Announce{VF: rec.PCI, Netns: rec.Lease.Netns, Bond: lease.BondOf(rec)}
	for _, a := range w.Addresses {
		s.Addresses = append(s.Addresses, a.Prefix)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AnnounceBound)
	h.Background.Add(1)
	go func() {
		defer h.Background.Done()
		defer cancel()
		if err := h.Kernel.Do(ctx, s); err != nil {
			h.Log.Warn("announce", "pf", at.Label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "err", err)
		}
	}()
}
