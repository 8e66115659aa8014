package fake

import (
	"context"
	"fmt"
	"maps"
	"syscall"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// Do carries out one step.
func (k *Kernel) Do(ctx context.Context, s step.Step) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	if err := k.doLocked(s); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// Hung returns no steps: the steps of the fake return at once. Package faulty has steps that hang.
func (k *Kernel) Hung() []step.Step { return nil }

func (k *Kernel) doLocked(s step.Step) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	switch s := s.(type) {
	case step.SetAutoprobe:
		return k.onPF(s.PF, func(p *pf) error { p.Autoprobe = vf.TriOf(s.On); return nil })
	case step.SetNumVFs:
		return k.onPF(s.PF, func(p *pf) error { return k.setNumVFs(p, s.N) })
	case step.SetPFUp:
		return k.onPF(s.PF, func(p *pf) error { p.up = true; k.chooseActives(); return nil })
	case step.WaitCarrier:
		return k.onPF(s.PF, func(p *pf) error {
			if p.linkSpeed() == 0 {
				return vf.ErrTimeout
			}
			return nil
		})
	case step.SetPFMTU:
		return k.onPF(s.PF, func(p *pf) error {
			return p.setPortMTU(s.MTU, p.MaxMTU)
		})
	case step.AddPFAddress, step.DelPFAddress:
		return k.pfAddress(s)
	case step.Bind:
		return k.bindDriver(s)
	case step.Unbind:
		return k.onVF(s.VF, func(f *function) error {
			if len(f.users) > 0 { // the kernel waits until the processes close the VF
				return fmt.Errorf("%s has it open: %w", f.users[0], vf.ErrTimeout)
			}
			f.leaveBond()
			f.Driver, f.Link = "", nil
			return nil
		})
	case step.Reset:
		return k.onVF(s.VF, func(*function) error { return nil }) // all that the fake knows of a VF is the PF's or its driver's
	case step.SetGuard:
		return k.setGuard(s)
	case step.DelGuard:
		k.dropGuard(s.VF, s.Netns)
		return nil
	case step.SetDefaultRoute:
		return k.setDefaultRoute(s)
	case step.AddBond, step.DelBond, step.Enslave, step.SetBondPrimary, step.SetBondActive:
		return k.doBond(s)
	case step.Announce:
		k.announced = append(k.announced, s)
		return nil
	case step.SetVFMAC, step.SetVFVLAN, step.SetVFSwitch, step.SetVFLinkState, step.SetVFRate:
		return k.doAdmin(s)
	}
	return k.doLink(s)
}

func (k *Kernel) onPF(a vf.PCIAddr, f func(*pf) error) error {
	p, err := k.findPF(a)
	if err != nil {
		return err
	}
	return f(p)
}

func (k *Kernel) onVF(a vf.PCIAddr, do func(*function) error) error {
	_, f, err := k.findVF(a)
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
	case k.profile.deaf:
		return fmt.Errorf("the driver took the write, but sriov_numvfs is %d: %w", p.numVFs, vf.ErrUnable)
	}
	p.leaveBonds()
	p.resetLink()
	for i, f := range p.vfs {
		p.kept[i] = f.Admin
	}
	p.vfs, p.gone, p.numVFs = nil, nil, n
	for i := range n {
		f := &function{State: vf.State{
			ID: vf.ID{PF: p.ID, Index: i}, PCI: k.profile.placeOf(p.PCI, i),
			Vendor: k.profile.Vendor, Device: k.profile.VFDevice, NUMA: -1, IOMMUGroup: 1000*(int(p.PCI.Bus)+int(p.PCI.Function)) + i,
			Admin: k.profile.newAdmin(p.PCI, i),
		}}
		if a, isKept := p.kept[i]; isKept && vf.DriverOf(k.profile.Driver).KeepsSettings {
			f.Admin = a
		}
		p.vfs = append(p.vfs, f)
		if p.Autoprobe == vf.Yes {
			if err := k.probeDriver(p, f, k.profile.VFDriver()); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeOf returns the address of VF index on the bus (PCIe base specification, 9.2.1.2).
func (p Profile) placeOf(pf vf.PCIAddr, index int) vf.PCIAddr {
	rid := int(pf.Bus)<<8 | int(pf.Device)<<3 | int(pf.Function)
	rid += p.Offset + index*p.Stride
	return vf.PCIAddr{Domain: pf.Domain, Bus: uint8(rid >> 8), Device: uint8(rid >> 3 & 31), Function: uint8(rid & 7)}
}

// newAdmin returns the PF's settings for a VF that was just made.
func (p Profile) newAdmin(pf vf.PCIAddr, index int) vf.Admin {
	a := vf.Admin{MaxTxRate: p.constantRate}
	for _, s := range vf.Switches() {
		if p.Abilities[s] == vf.Yes {
			*a.Switch(s) = vf.TriOf(s == vf.SetSpoofChk && p.SpoofChk)
		}
	}
	if vf.DriverOf(p.Driver).Split { // the firmware gives each VF an address
		a.MAC = vf.MAC{0x06, 0x44, 0, 0xc0, pf.Bus, pf.Function*byte(p.TotalVFs) + byte(index)}
	}
	return a
}

func (k *Kernel) bindDriver(s step.Bind) error {
	p, f, err := k.findVF(s.VF)
	if err != nil {
		return err
	}
	driver := s.Driver
	if driver == vf.DriverDefault {
		driver = k.profile.VFDriver()
	}
	if f.Driver == driver {
		return nil
	}
	if f.Driver != "" {
		return fmt.Errorf("%s is bound: %w", f.Driver, syscall.EBUSY)
	}
	return k.probeDriver(p, f, driver)
}

// probeDriver binds a driver. The netdevice takes the admin MAC, or a random one
// where none is set, and the name that udev would give it.
func (k *Kernel) probeDriver(p *pf, f *function, driver string) error {
	f.Driver = driver
	if driver == vf.DriverVFIO {
		return nil
	}
	k.next++
	mac := f.Admin.MAC
	if mac.IsZero() || p.mute {
		mac = vf.MAC{0x06, 0, 0, 0, byte(k.next >> 8), byte(k.next)}
	}
	name := fmt.Sprintf("enp%ds%d", p.PCI.Bus, p.PCI.Device)
	if p.PCI.Function > 0 {
		name += fmt.Sprintf("f%d", p.PCI.Function)
	}
	name += fmt.Sprintf("v%d", f.ID.Index)
	if k.isNamed("", name, nil) {
		name = fmt.Sprintf("eth%d", k.next)
	}
	f.Link = &vf.Link{Index: k.next, Name: name, MAC: mac, MTU: 1500}
	f.made = newAttributes(k.next)
	maps.Copy(f.made, k.newer)
	f.attributes, f.text = f.made, [2]vf.Attributes{}
	k.shown++
	return nil
}

func (k *Kernel) findNamed(netns, name string) *function {
	for _, p := range k.pfs {
		for _, f := range p.vfs {
			if f.hasName(netns, name) {
				return f
			}
		}
	}
	return nil
}
