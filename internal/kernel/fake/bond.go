package fake

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// master is the attribute of a netdevice that names its bond.
const master = "master"

// bond is a bond of VFs in a netns (drivers/net/bonding/bond_main.c).
type bond struct {
	mark    string
	half    bool // AddBond was cut short: the mark is in the group of the link, not in its alias
	spec    vf.Bond
	link    vf.Link
	members []*function // in the order in which they joined
	active  *function   // nil: none works
	primary *function
}

// doBond carries out the steps on bonds.
func (k *Kernel) doBond(s step.Step) error {
	switch s := s.(type) {
	case step.AddBond:
		return k.addBond(s)
	case step.DelBond:
		k.delBonds(func(b *bond) bool {
			isMaster := slices.ContainsFunc(b.members, func(f *function) bool { return f.PCI == s.VF })
			return b.link.Netns == s.Netns && (b.mark == s.Mark || b.mark == "" && isMaster)
		})
		return nil
	case step.Enslave:
		return k.onMember(s.VF, s.Netns, s.Bond, k.enslave)
	case step.SetBondPrimary:
		return k.onMember(s.VF, s.Netns, s.Bond, func(f *function, b *bond) error {
			if f.bond != b {
				return fmt.Errorf("VF %s is no member of %s: %w", f.PCI, b.link.Name, syscall.EINVAL)
			}
			b.primary = f
			b.chooseActive()
			return nil
		})
	case step.SetBondActive:
		return k.onMember(s.VF, s.Netns, s.Bond, func(f *function, b *bond) error { return b.setActive(f, s.From) })
	}
	return fmt.Errorf("the fake kernel has no %T", s)
}

// setActive lets a member send in place of one of others. As on Linux, a member that is down can
// become the primary one, and cannot send.
func (b *bond) setActive(f *function, others []vf.PCIAddr) error {
	isOther := func(o *function) bool { return o != nil && slices.Contains(others, o.PCI) }
	if f.bond != b {
		return fmt.Errorf("VF %s is no member of bond %s: %w", f.PCI, b.link.Name, vf.ErrNotFound)
	}
	wasSending := isOther(b.active)
	if isOther(b.primary) {
		b.primary = f
		b.chooseActive()
	}
	switch {
	case !wasSending:
		return vf.ErrUnchanged
	case !isOther(b.active):
		return nil
	case f.Link == nil || !f.Link.Up:
		return fmt.Errorf("%w: VF %s is down: %w", vf.ErrUnable, f.PCI, syscall.EINVAL)
	}
	b.active = f
	b.chooseActive()
	return nil
}

func (k *Kernel) addBond(s step.AddBond) error {
	if !k.netns[s.Netns] {
		return fmt.Errorf("netns %s: %w", s.Netns, vf.ErrNetnsGone)
	}
	k.delBonds(func(b *bond) bool { return b.link.Netns == s.Netns && b.link.Name == s.Name && len(b.members) == 0 })
	if k.isNamed(s.Netns, s.Name, nil) {
		return fmt.Errorf("name %s is taken there: %w", s.Name, syscall.EEXIST)
	}
	k.next++
	mac := vf.MAC{0x06, 0xb0, 0, 0, byte(k.next >> 8), byte(k.next)}
	b := &bond{mark: s.Mark, spec: s.Bond, link: vf.Link{Netns: s.Netns, Index: k.next, Name: s.Name, MAC: mac, MTU: 1500}}
	if s.MTU != 0 {
		b.link.MTU = s.MTU
	}
	k.bonds = append(k.bonds, b)
	return nil
}

// CutAddBond leaves the bond that a culvertd leaves if it is killed within AddBond: the alias is missing.
func (k *Kernel) CutAddBond(s step.AddBond) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.addBond(s); err != nil {
		return err
	}
	k.bonds[len(k.bonds)-1].half = true
	return nil
}

// delBonds removes the bonds for which isOver holds. Their members stay.
func (k *Kernel) delBonds(isOver func(*bond) bool) {
	k.bonds = slices.DeleteFunc(k.bonds, func(b *bond) bool {
		if !isOver(b) {
			return false
		}
		for _, f := range slices.Clone(b.members) {
			f.leaveBond()
		}
		return true
	})
}

// DropEmptyBonds removes the bonds that have lost all their members. Otherwise these stay until
// their netns ends.
func (k *Kernel) DropEmptyBonds() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.delBonds(func(b *bond) bool { return len(b.members) == 0 })
}

// onMember calls do with a VF and a bond of the same netns.
func (k *Kernel) onMember(a vf.PCIAddr, netns, name string, do func(*function, *bond) error) error {
	return k.onLink(a, netns, func(*vf.Link) error {
		_, f, err := k.findVF(a)
		if err != nil {
			return err
		}
		b := cmp.Or(k.findBond(netns, name), f.bond)
		if b == nil {
			return fmt.Errorf("bond %s: %w", name, vf.ErrNotFound)
		}
		return do(f, b)
	})
}

// onDevice calls do with a VF's netdevice, or with a bond if name is not empty.
func (k *Kernel) onDevice(a vf.PCIAddr, netns, name string, do func(*vf.Link) error) error {
	if name == "" {
		return k.onLink(a, netns, do)
	}
	if !k.netns[netns] {
		return fmt.Errorf("netns %s: %w", netns, vf.ErrNetnsGone)
	}
	b := k.findBond(netns, name)
	if _, f, err := k.findVF(a); b == nil && err == nil && f.bond != nil && f.bond.link.Netns == netns {
		b = f.bond // the pod has renamed it
	}
	if b == nil {
		return fmt.Errorf("bond %s in netns %q: %w", name, netns, vf.ErrNotFound)
	}
	return do(&b.link)
}

func (k *Kernel) findBond(netns, name string) *bond {
	for _, b := range k.bonds {
		if b.link.Netns == netns && b.link.Name == name {
			return b
		}
	}
	return nil
}

// isNamed reports whether a netdevice other than except, or a bond, has a name in a netns.
func (k *Kernel) isNamed(netns, name string, except *vf.Link) bool {
	f := k.findNamed(netns, name)
	return f != nil && f.Link != except || k.findBond(netns, name) != nil
}

// enslave makes a netdevice a member of a bond, which brings it up and gives it its MTU. The
// first member gives the bond its MAC address. Without fail_over_mac the later ones get the
// bond's, which a VF with an admin MAC refuses.
func (k *Kernel) enslave(f *function, b *bond) error {
	switch {
	case f.bond == b:
		return nil
	case f.bond != nil:
		return syscall.EBUSY
	case f.Link.Up:
		return fmt.Errorf("it is up: %w", syscall.EPERM)
	case b.link.MTU > k.profile.MaxMTU:
		return syscall.EINVAL
	case len(b.members) > 0 && !b.spec.HasFailOverMAC() && f.Link.MAC != b.link.MAC && !f.Admin.MAC.IsZero():
		return syscall.EADDRNOTAVAIL
	}
	if len(b.members) == 0 {
		b.link.MAC = f.Link.MAC
	}
	f.bond, f.ownMTU = b, f.Link.MTU
	f.Link.MTU, f.Link.Addrs, f.Link.Routes = b.link.MTU, nil, nil
	setUp(f.Link, true)
	f.setAttribute(master, b.link.Name)
	b.members = append(b.members, f)
	b.chooseActive()
	return nil
}

// leaveBond ends a netdevice's membership of its bond. The netdevice goes down, and has its own MTU
// again (__bond_release_one).
func (f *function) leaveBond() {
	b := f.bond
	if b == nil {
		return
	}
	f.bond = nil
	b.members = slices.DeleteFunc(b.members, func(o *function) bool { return o == f })
	if b.primary == f {
		b.primary = nil
	}
	b.chooseActive()
	if f.Link == nil {
		return
	}
	f.Link.MTU = f.ownMTU
	setUp(f.Link, false)
	f.setAttribute(master, "")
}

// chooseActive chooses the member that sends: the primary one if it works, else the present one,
// else the first that works. The bond then has its MAC address (fail_over_mac active).
func (b *bond) chooseActive() {
	works := func(f *function) bool { return f != nil && f.bond == b && f.Link != nil && f.Link.Up }
	switch i := slices.IndexFunc(b.members, works); {
	case works(b.primary):
		b.active = b.primary
	case works(b.active):
	case i >= 0:
		b.active = b.members[i]
	default:
		b.active = nil
	}
	if b.active != nil && b.spec.HasFailOverMAC() {
		b.link.MAC = b.active.Link.MAC
	}
	b.link.Carrier = b.link.Up && b.active != nil
}

// chooseActives chooses the sending member of each bond anew, after a netdevice went up or down.
func (k *Kernel) chooseActives() {
	for _, b := range k.bonds {
		b.chooseActive()
	}
	for _, m := range k.masters {
		m.chooseActive()
	}
}

// leaveBonds ends the memberships of all VFs of a PF, which are about to be removed.
func (p *pf) leaveBonds() {
	for _, f := range p.vfs {
		f.leaveBond()
	}
}

// state returns what the kernel reports about the bond for one of its members.
func (b *bond) state(f *function) *vf.BondState {
	out := &vf.BondState{
		Link: b.link, Mark: b.mark, Mode: b.spec.Mode, FailOverMAC: b.spec.HasFailOverMAC(), ARPInterval: b.spec.ARPInterval,
		ARPTargets: b.spec.ARPTargets, ARPMissedMax: b.missedMax(), Active: b.active == f, Primary: b.primary == f,
	}
	out.Link.Addrs, out.Link.Routes = slices.Clone(b.link.Addrs), slices.Clone(b.link.Routes)
	out.Link.Tentative, out.Link.Duplicates = slices.Clone(b.link.Tentative), slices.Clone(b.link.Duplicates)
	return out
}

// missedMax returns what Linux 5.17 and later reports: 2 unless the bond was made with another value
// (bond_check_params of drivers/net/bonding/bond_main.c).
func (b *bond) missedMax() int { return cmp.Or(b.spec.ARPMissedMax, 2) }

func (b *bond) String() string {
	var members []string
	for _, f := range b.members {
		name := f.Link.Name
		if f == b.active {
			name += "*"
		}
		members = append(members, name)
	}
	l := b.link
	mark := b.mark
	if b.half {
		mark += " (no alias)"
	}
	return fmt.Sprintf("bond %q %s of %s %s members [%s] mac %s mtu %d up %t addrs %v routes %v\n",
		l.Netns, l.Name, mark, b.spec.Mode, strings.Join(members, " "), l.MAC, l.MTU, l.Up, joinPrefixes(l.Addrs), l.Routes)
}

// RenameBond gives the bond of a VF another name, as its pod may do. If strip is set, the pod removes the
// mark as well.
func (k *Kernel) RenameBond(a vf.PCIAddr, name string, strip bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.onVF(a, func(f *function) error {
		if f.bond == nil {
			return fmt.Errorf("VF %s is in no bond: %w", a, vf.ErrNotFound)
		}
		f.bond.link.Name = name
		if strip {
			f.bond.mark = ""
		}
		return nil
	})
}

// Activate makes a VF the member that sends, as the kernel does when the previous sender has
// failed.
func (k *Kernel) Activate(a vf.PCIAddr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.onVF(a, func(f *function) error {
		if f.bond == nil {
			return fmt.Errorf("VF %s is in no bond: %w", a, vf.ErrNotFound)
		}
		f.bond.active = f
		f.bond.chooseActive()
		return nil
	})
}
