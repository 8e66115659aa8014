package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// table has the rules of a guard, in a netns. It stays there when the netdevice leaves, and applies
// to the next netdevice of that name (nf_tables since Linux 6.16).
type table struct {
	netns  string
	pci    vf.PCIAddr
	device string
	vf.Guard
}

// Guard reads the guard of a VF in a netns.
func (k *Kernel) Guard(ctx context.Context, a vf.PCIAddr, netns string) (vf.Guard, error) {
	if err := ctx.Err(); err != nil {
		return vf.Guard{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := k.findGuard(a, netns); i >= 0 {
		return k.guards[i].Guard, nil
	}
	return vf.Guard{}, nil
}

func (k *Kernel) findGuard(a vf.PCIAddr, netns string) int {
	return slices.IndexFunc(k.guards, func(t table) bool { return t.pci == a && t.netns == netns })
}

func (k *Kernel) setGuard(s step.SetGuard) error {
	return k.onLink(s.VF, s.Netns, func(l *vf.Link) error {
		if k.noGuards {
			return fmt.Errorf("%w: the kernel has no hook at the egress of an interface", vf.ErrUnable)
		}
		k.dropGuard(s.VF, s.Netns)
		k.guards = append(k.guards, table{s.Netns, s.VF, l.Name, s.Guard})
		slices.SortFunc(k.guards, func(a, b table) int { return cmp.Or(strings.Compare(a.netns, b.netns), a.pci.Compare(b.pci)) })
		return nil
	})
}

func (k *Kernel) dropGuard(a vf.PCIAddr, netns string) {
	k.guards = slices.DeleteFunc(k.guards, func(t table) bool { return t.pci == a && t.netns == netns })
}

// MeddleGuard changes the guard of a VF outside Culvert, or removes it with nil.
func (k *Kernel) MeddleGuard(a vf.PCIAddr, netns string, change func(*vf.Guard)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	switch i := k.findGuard(a, netns); {
	case i < 0:
	case change == nil:
		k.dropGuard(a, netns)
	default:
		change(&k.guards[i].Guard)
	}
}

// RefuseGuards makes the kernel behave as if it lacked the hook that a guard needs.
func (k *Kernel) RefuseGuards() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.noGuards = true
}
