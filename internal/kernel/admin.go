package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// setAdmin carries out a step that changes the PF's settings for a VF; it returns false for any
// other step.
func (k *Kernel) setAdmin(ctx context.Context, s step.Step) (bool, error) {
	switch s := s.(type) {
	case step.SetVFMAC:
		return true, k.adminMAC(ctx, s)
	case step.SetVFVLAN:
		return true, k.writeAdmin(ctx, s.PF, s.Index, rtnl.VFVLAN(s.Index, s.VLAN), func(a vf.Admin) error {
			if s.VLAN.Same(a.VLAN) {
				return nil
			}
			return checkWritten("vlan", s.VLAN.String(), a.VLAN.String())
		})
	case step.SetVFSwitch:
		return true, k.writeAdmin(ctx, s.PF, s.Index, rtnl.VFSwitch(s.Index, s.Setting, s.On), func(a vf.Admin) error {
			return checkWritten(string(s.Setting), vf.TriOf(s.On), *a.Switch(s.Setting))
		})
	case step.SetVFLinkState:
		return true, k.writeAdmin(ctx, s.PF, s.Index, rtnl.VFLinkState(s.Index, s.State), func(a vf.Admin) error {
			return checkWritten("link_state", s.State, a.LinkState)
		})
	case step.SetVFRate:
		// The rate is not compared, since the driver may round it. Kernel.VF returns the
		// effective rate.
		return true, k.writeAdmin(ctx, s.PF, s.Index, rtnl.VFRate(s.Index, s.Min, s.Max), func(vf.Admin) error { return nil })
	}
	return false, nil
}

// checkWritten returns an error if a setting does not have the value that was written.
func checkWritten[T comparable](what string, want, have T) error {
	if want == have {
		return nil
	}
	return fmt.Errorf("the driver took %s %v, but it is %v", what, want, have)
}

// writeAdmin writes one setting of a VF, reads the VF back and checks it. It does not check a
// setting that the driver cannot report.
func (k *Kernel) writeAdmin(ctx context.Context, pf vf.PCIAddr, index int, s rtnl.VFSetting, check func(vf.Admin) error) error {
	return k.onPF(pf, func(c *rtnl.Conn, n netdev) error {
		if err := retryBusy(ctx, func() error { return c.SetVF(n.Index, s) }); err != nil {
			return k.explainVF(c, pf, n, index, err)
		}
		a, err := readVFAdmin(c, n, index)
		if err != nil {
			return fmt.Errorf("written, but not read back: %w", err)
		}
		return check(a)
	})
}

// A VF that is in reset, as after its MAC was set or its driver bound, accepts no settings for a
// moment: i40e answers EAGAIN (i40e_check_vf_init_timeout) and ice EBUSY
// (ice_check_vf_ready_for_cfg).
const (
	resetBound = 5 * time.Second
	resetPoll  = 50 * time.Millisecond
)

// retryBusy repeats a call while the VF is in reset. There is no event to wait for.
func retryBusy(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, resetBound)
	defer cancel()
	for {
		err := call()
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the VF is still in reset: %w", err)
		case <-time.After(resetPoll):
		}
	}
}

// adminMAC sets the MAC of a VF that does not have it yet. ixgbe answers ENOMEM to a request to
// clear a MAC that is clear already (ixgbe_set_vf_mac finds no filter to delete).
func (k *Kernel) adminMAC(ctx context.Context, s step.SetVFMAC) error {
	if s.MAC.IsZero() {
		unset := false
		err := k.onPF(s.PF, func(c *rtnl.Conn, n netdev) error {
			a, err := readVFAdmin(c, n, s.Index)
			unset = err == nil && a.MAC.IsZero()
			return err
		})
		if err != nil || unset {
			return err
		}
	}
	return k.writeAdmin(ctx, s.PF, s.Index, rtnl.VFMAC(s.Index, s.MAC), func(a vf.Admin) error {
		return checkWritten("mac", s.MAC, a.MAC)
	})
}

// readVFAdmin reads the PF's settings for one VF. The kernel has only a request for all VFs of
// the PF.
func readVFAdmin(c *rtnl.Conn, n netdev, index int) (vf.Admin, error) {
	l, err := c.Link(n.Index, true)
	if err != nil {
		return vf.Admin{}, err
	}
	a, ok := l.VFs[index]
	if !ok {
		return a, fmt.Errorf("%s reports %s and no vf %d: %w", n.Name, vf.CountText(l.NumVFs), index, vf.ErrNotFound)
	}
	return a, nil
}

// explainVF finds out whether err means that the VF does not exist, for which drivers answer
// EINVAL too, or that the driver refuses the value.
func (k *Kernel) explainVF(c *rtnl.Conn, pf vf.PCIAddr, n netdev, index int, err error) error {
	if _, missing := readVFAdmin(c, n, index); errors.Is(missing, vf.ErrNotFound) {
		return fmt.Errorf("%w (%w)", missing, err)
	}
	driver, _ := linkTarget(k.sys.pciPath(pf, "driver")) // only for a message
	return explainRefusal(driver, err)
}
