package fake

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// Do carries out one step.
func (k *Kernel) Do(ctx context.Context, s step.Step) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	if err := k.locked(s); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

func (k *Kernel) locked(s step.Step) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.changed()
	switch s := s.(type) {
	case step.SetAutoprobe:
		return k.onPF(s.PF, func(p *pf) error { p.Autoprobe = vf.TriOf(s.On); return nil })
	case step.SetNumVFs:
		return k.onPF(s.PF, func(p *pf) error { return k.setNumVFs(p, s.N) })
	case step.SetPFUp:
		return k.onPF(s.PF, func(p *pf) error { p.Up = true; return nil })
	case step.WaitCarrier:
		return k.onPF(s.PF, func(p *pf) error {
			if !p.Up || !p.Carrier {
				return vf.ErrTimeout
			}
			return nil
		})
	case step.SetPFMTU:
		return k.onPF(s.PF, func(p *pf) error {
			if s.MTU > p.MaxMTU {
				return syscall.EINVAL
			}
			p.MTU = s.MTU
			return nil
		})
	case step.Bind:
		return k.bind(s)
	case step.Unbind:
		return k.onVF(s.VF, func(f *function) error { f.Driver, f.Link = "", nil; return nil })
	case step.Announce:
		k.told = append(k.told, s)
		return nil
	case step.SetVFMAC, step.SetVFVLAN, step.SetVFSpoofChk, step.SetVFTrust, step.SetVFRSSQuery, step.SetVFLinkState, step.SetVFRate:
		return k.admin(s)
	}
	return k.link(s)
}

func (k *Kernel) onPF(a vf.PCIAddr, f func(*pf) error) error {
	p, err := k.pf(a)
	if err != nil {
		return err
	}
	return f(p)
}

func (k *Kernel) onVF(a vf.PCIAddr, do func(*function) error) error {
	_, f, err := k.function(a)
	if err != nil {
		return err
	}
	return do(f)
}

func (k *Kernel) setNumVFs(p *pf, n int) error {
	switch {
	case n == p.numVFs:
		return nil
	case n > p.TotalVFs:
		return syscall.ERANGE
	case n > 0 && p.numVFs > 0:
		return syscall.EBUSY
	}
	p.vfs, p.gone, p.numVFs = nil, nil, n
	for i := range n {
		f := &function{State: vf.State{
			ID:     vf.ID{PF: p.ID, Index: i},
			PCI:    vf.PCIAddr{Bus: p.PCI.Bus, Device: uint8(0x10 + i/4), Function: uint8(2 * (i % 4) & 7)},
			Vendor: k.profile.Vendor, Device: k.profile.VFDevice, NUMA: -1, IOMMUGroup: 20 + 10*int(p.PCI.Bus) + i,
			Admin: vf.Admin{SpoofChk: vf.Yes, Trust: vf.No, RSSQuery: vf.Unknown},
		}}
		p.vfs = append(p.vfs, f)
		if p.Autoprobe == vf.Yes {
			if err := k.probe(p, f, k.profile.VFDriver); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *Kernel) bind(s step.Bind) error {
	p, f, err := k.function(s.VF)
	if err != nil {
		return err
	}
	driver := s.Driver
	if driver == vf.DriverDefault {
		driver = k.profile.VFDriver
	}
	if f.Driver == driver {
		return nil
	}
	if f.Driver != "" {
		return fmt.Errorf("%s is bound: %w", f.Driver, syscall.EBUSY)
	}
	return k.probe(p, f, driver)
}

// probe binds a driver. The netdevice takes the admin MAC, or a random one
// where none is set, and the name that udev would give it.
func (k *Kernel) probe(p *pf, f *function, driver string) error {
	f.Driver = driver
	if driver == vf.DriverVFIO {
		return nil
	}
	k.next++
	mac := f.Admin.MAC
	if mac.IsZero() {
		mac = vf.MAC{0x06, 0, 0, 0, byte(k.next >> 8), byte(k.next)}
	}
	name := fmt.Sprintf("%sv%d", p.Name, f.ID.Index)
	if k.named("", name) != nil {
		name = fmt.Sprintf("eth%d", k.next)
	}
	f.Link = &vf.Link{Index: k.next, Name: name, MAC: mac, MTU: 1500}
	return nil
}

func (k *Kernel) named(netns, name string) *function {
	for _, p := range k.pfs {
		for _, f := range p.vfs {
			if f.Link != nil && f.Link.Netns == netns && f.Link.Name == name {
				return f
			}
		}
	}
	return nil
}

func (k *Kernel) admin(s step.Step) error {
	switch s := s.(type) {
	case step.SetVFMAC:
		return k.set(s.PF, s.Index, vf.SetMAC, func(a *vf.Admin) { a.MAC = s.MAC })
	case step.SetVFVLAN:
		ability := vf.SetVLAN
		if s.VLAN.Proto == vf.Dot1AD {
			ability = vf.SetVLANProto
		}
		return k.set(s.PF, s.Index, ability, func(a *vf.Admin) { a.VLAN = s.VLAN })
	case step.SetVFSpoofChk:
		return k.set(s.PF, s.Index, vf.SetSpoofChk, func(a *vf.Admin) { a.SpoofChk = vf.TriOf(s.On) })
	case step.SetVFTrust:
		return k.set(s.PF, s.Index, vf.SetTrust, func(a *vf.Admin) { a.Trust = vf.TriOf(s.On) })
	case step.SetVFRSSQuery:
		return k.set(s.PF, s.Index, vf.SetRSSQuery, func(a *vf.Admin) { a.RSSQuery = vf.TriOf(s.On) })
	case step.SetVFLinkState:
		return k.set(s.PF, s.Index, vf.SetLinkState, func(a *vf.Admin) { a.LinkState = s.State })
	case step.SetVFRate:
		ability := vf.SetMaxTxRate
		if s.Min != 0 {
			ability = vf.SetMinTxRate
		}
		return k.set(s.PF, s.Index, ability, func(a *vf.Admin) { a.MinTxRate, a.MaxTxRate = s.Min, s.Max })
	}
	return fmt.Errorf("the fake kernel has no %T", s)
}

func (k *Kernel) set(a vf.PCIAddr, index int, ability vf.Setting, change func(*vf.Admin)) error {
	p, err := k.pf(a)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(p.vfs, func(f *function) bool { return f.ID.Index == index })
	if i < 0 {
		return fmt.Errorf("vf %d: %w", index, vf.ErrNotFound)
	}
	if k.profile.Abilities[ability] == vf.No {
		return fmt.Errorf("%s: %w", ability, vf.ErrUnable)
	}
	change(&p.vfs[i].Admin)
	return nil
}
