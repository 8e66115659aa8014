package fake

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// RemovePF unplugs a PF, and with it its VFs, held or free. AddPF plugs it in again.
func (k *Kernel) RemovePF(a vf.PCIAddr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	p, err := k.findPF(a)
	if err != nil {
		return err
	}
	k.pfs = slices.DeleteFunc(k.pfs, func(o *pf) bool { return o == p })
	p.resetPF()
	k.gone = append(k.gone, p)
	return nil
}

// AddPF plugs a PF that was unplugged at address a in again, at slot. slot is a if the PF returns
// to its old place. The PF is as after power-on: down, without VFs. Its name follows from the slot,
// and it keeps its identity.
func (k *Kernel) AddPF(a, slot vf.PCIAddr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	i := slices.IndexFunc(k.gone, func(p *pf) bool { return p.PCI == a })
	if i < 0 {
		return fmt.Errorf("unplugged PF %s: %w", a, vf.ErrNotFound)
	}
	if p, err := k.findPF(slot); err == nil {
		return fmt.Errorf("PF %s is in slot %s: %w", p.Label(), slot, vf.ErrHeld)
	}
	p := k.gone[i]
	k.gone = slices.Delete(k.gone, i, i+1)
	p.nameAfterSlot(slot)
	k.pfs = append(k.pfs, p)
	slices.SortFunc(k.pfs, func(a, b *pf) int { return a.PCI.Compare(b.PCI) })
	return nil
}

// resetPF removes the state of a PF that a reboot or an unplugging ends: VFs, memberships, link
// state and MTU.
func (p *pf) resetPF() {
	p.leaveBonds()
	p.leaveMaster()
	p.vfs, p.gone, p.numVFs, p.Autoprobe = nil, nil, 0, vf.Yes
	p.up, p.mtu = false, 1500
	p.hadLink, p.losses = false, 0
}

// RemoveVF takes one VF off the bus, as writing its sysfs file remove does. The PF keeps its count
// of VFs and its settings for the VF. On most machines the VF appears again only when sriov_numvfs
// is written anew (a rescan does not find VFs). On machines where each VF is a hot-plug slot of its
// own (s390), it can also appear again as ReturnVF makes it.
func (k *Kernel) RemoveVF(a vf.PCIAddr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	p, f, err := k.findVF(a)
	if err != nil {
		return err
	}
	p.vfs = slices.DeleteFunc(p.vfs, func(o *function) bool { return o == f })
	f.leaveBond()
	f.Driver, f.Link = "", nil
	p.gone = append(p.gone, f)
	return nil
}

// ReturnVF brings a VF back that RemoveVF took, with its driver bound where
// autoprobe is on.
func (k *Kernel) ReturnVF(a vf.PCIAddr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	for _, p := range k.pfs {
		i := slices.IndexFunc(p.gone, func(f *function) bool { return f.PCI == a })
		if i < 0 {
			continue
		}
		f := p.gone[i]
		p.gone = slices.Delete(p.gone, i, i+1)
		p.vfs = append(p.vfs, f)
		slices.SortFunc(p.vfs, func(a, b *function) int { return a.ID.Compare(b.ID) })
		if p.Autoprobe == vf.Yes {
			return k.probeDriver(p, f, k.profile.VFDriver())
		}
		return nil
	}
	return fmt.Errorf("unplugged VF %s: %w", a, vf.ErrNotFound)
}

// WriteNumVFs acts as another program that writes 0 and then n to sriov_numvfs, as
// NetworkManager, networkd and netplan do. It destroys every VF of the PF, held or free. The
// new VFs are the driver's own: no admin settings, and a MAC address that the VF driver makes
// up.
func (k *Kernel) WriteNumVFs(a vf.PCIAddr, n int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	p, err := k.findPF(a)
	if err != nil {
		return err
	}
	if err := k.setNumVFs(p, 0); err != nil {
		return err
	}
	return k.setNumVFs(p, n)
}

// SetLinkSpeed makes the PF's link come up at another speed, in Mb/s: another
// switch at the other end. igb and ixgbe then clear all rates.
func (k *Kernel) SetLinkSpeed(a vf.PCIAddr, mbps int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	p, err := k.findPF(a)
	if err != nil {
		return err
	}
	if vf.DriverOf(p.Driver).DropsRates && p.speed != mbps {
		for _, f := range p.vfs {
			f.Admin.MinTxRate, f.Admin.MaxTxRate, f.rate = 0, 0, 0
		}
	}
	p.speed = mbps
	return nil
}
