package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// guards is guard.Tables. It is not linked here: programs that set no guard need no nftables.
type guards interface {
	Set(pci vf.PCIAddr, device string, g vf.Guard) error
	Remove(pci vf.PCIAddr) error
	Read(pci vf.PCIAddr) (vf.Guard, error)
}

// noGuards is the guards of a program that has none.
type noGuards struct{}

func (noGuards) Set(vf.PCIAddr, string, vf.Guard) error {
	return fmt.Errorf("%w: this program sets no guards, culvertd does", vf.ErrUnable)
}
func (noGuards) Remove(vf.PCIAddr) error           { return nil }
func (noGuards) Read(vf.PCIAddr) (vf.Guard, error) { return vf.Guard{}, nil }

func (k *Kernel) setGuard(s step.SetGuard) error {
	return k.onLink(s.VF, s.Netns, func(_ *rtnl.Conn, l rtnl.Link) error {
		return netns.Run(k.netnsFile(s.Netns), func() error {
			if err := k.guards.Set(s.VF, l.Name, s.Guard); err != nil {
				return err
			}
			seen, err := k.guards.Read(s.VF)
			if err != nil {
				return err
			}
			return checkWritten("guard", s.Guard.String(), seen.String())
		})
	})
}

func (k *Kernel) delGuard(s step.DelGuard) error {
	err := netns.Run(k.netnsFile(s.Netns), func() error { return k.guards.Remove(s.VF) })
	if errors.Is(err, vf.ErrNetnsGone) {
		return nil // the guard has ended with the netns
	}
	return err
}

// Guard reads the guard of a VF in the netns at path. It is the zero value if there is none, and
// if the netns is gone. The error is vf.ErrTimeout if the kernel does not answer in time.
func (k *Kernel) Guard(ctx context.Context, addr vf.PCIAddr, path string) (vf.Guard, error) {
	return readBounded(ctx, &k.hangs, "the guard of VF "+addr.String(), func() (g vf.Guard, err error) {
		err = netns.Run(k.netnsFile(path), func() error {
			g, err = k.guards.Read(addr)
			return err
		})
		if errors.Is(err, vf.ErrNetnsGone) {
			return vf.Guard{}, nil
		}
		if err != nil {
			return g, fmt.Errorf("read the guard of VF %s: %w", addr, err)
		}
		return g, nil
	})
}
