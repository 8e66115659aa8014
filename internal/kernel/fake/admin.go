package fake

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// doAdmin carries out the steps that change the PF's settings for a VF.
func (k *Kernel) doAdmin(s step.Step) error {
	switch s := s.(type) {
	case step.SetVFMAC:
		return k.setMAC(s)
	case step.SetVFVLAN:
		return k.setVLAN(s)
	case step.SetVFSwitch:
		return k.setAdmin(s.PF, s.Index, s.Setting, func(_ *pf, f *function) error { *f.Admin.Switch(s.Setting) = vf.TriOf(s.On); return nil })
	case step.SetVFLinkState:
		return k.setAdmin(s.PF, s.Index, vf.SetLinkState, func(_ *pf, f *function) error { f.Admin.LinkState = s.State; return nil })
	case step.SetVFRate:
		return k.setRate(s)
	}
	return fmt.Errorf("the fake kernel has no %T", s)
}

func (k *Kernel) setMAC(s step.SetVFMAC) error {
	return k.setAdmin(s.PF, s.Index, vf.SetMAC, func(_ *pf, f *function) error {
		if err := k.profile.refusesMAC(f.Admin.MAC, s.MAC); err != nil {
			return err
		}
		f.Admin.MAC = s.MAC
		return nil
	})
}

func (k *Kernel) setVLAN(s step.SetVFVLAN) error {
	ability := vf.SetVLAN
	if s.VLAN.Proto == vf.Dot1AD {
		ability = vf.SetVLANProto
	}
	return k.setAdmin(s.PF, s.Index, ability, func(_ *pf, f *function) error {
		if err := k.profile.refusesVLAN(s.VLAN); err != nil {
			return err
		}
		f.Admin.VLAN = s.VLAN
		return nil
	})
}

// setRate sets a rate. As on Linux, reads show the requested rate, although the hardware may use a
// rounded one.
func (k *Kernel) setRate(s step.SetVFRate) error {
	ability := vf.SetMaxTxRate
	if s.Min != 0 {
		ability = vf.SetMinTxRate
	}
	return k.setAdmin(s.PF, s.Index, ability, func(p *pf, f *function) error {
		if err := refusesRates(p.withLink(), s.Min, s.Max); err != nil {
			return err
		}
		f.Admin.MinTxRate, f.Admin.MaxTxRate, f.rate = s.Min, s.Max, k.profile.effectiveRate(s.Max)
		return nil
	})
}

func (k *Kernel) setAdmin(a vf.PCIAddr, index int, ability vf.Setting, change func(*pf, *function) error) error {
	p, err := k.findPF(a)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(p.vfs, func(f *function) bool { return f.ID.Index == index })
	if i < 0 {
		return fmt.Errorf("vf %d: %w", index, vf.ErrNotFound)
	}
	if k.profile.Abilities[ability] == vf.No {
		return fmt.Errorf("%s: %w: %w", ability, vf.ErrUnable, syscall.EOPNOTSUPP)
	}
	return change(p, p.vfs[i])
}
