package fake

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/culvert-net/culvert/internal/vf"
)

// hostMaster is a bond, a team or a bridge of the host that has ports of PFs as members
// (drivers/net/bonding/bond_main.c, drivers/net/team, net/bridge/br_if.c).
type hostMaster struct {
	name, kind string
	mode       vf.BondMode
	mac        vf.MAC
	mtu        int
	members    []*port // in the order in which they joined
	active     *port   // of a bond or team; nil: none works
}

// AddMaster makes an interface of the host without members, as the host's configuration does; mode
// is that of a bond.
func (k *Kernel) AddMaster(name, kind string, mode vf.BondMode) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	if k.findMaster(name) != nil || k.isNamed("", name, nil) {
		return fmt.Errorf("name %s: %w", name, syscall.EEXIST)
	}
	k.masters = append(k.masters, &hostMaster{name: name, kind: kind, mode: mode, mtu: 1500})
	return nil
}

func (k *Kernel) findMaster(name string) *hostMaster {
	for _, m := range k.masters {
		if m.name == name {
			return m
		}
	}
	return nil
}

// DownPF takes a PF's netdevice down.
func (k *Kernel) DownPF(a vf.PCIAddr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	return k.onPF(a, func(p *pf) error { p.up = false; k.chooseActives(); return nil })
}

// JoinMaster makes a PF's netdevice a member. A bond or team accepts only a netdevice that is down.
// It brings the netdevice up, and gives it the MTU of the bond or team and the MAC address of its
// first member. A bridge only follows the smallest MTU of its members.
func (k *Kernel) JoinMaster(a vf.PCIAddr, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	return k.onPF(a, func(p *pf) error {
		m := k.findMaster(name)
		switch {
		case m == nil:
			return fmt.Errorf("interface %s: %w", name, syscall.ENODEV)
		case p.master != nil:
			return syscall.EBUSY
		case m.kind == vf.MasterBond && p.up:
			return fmt.Errorf("it is up: %w", syscall.EPERM)
		case m.kind == vf.MasterTeam && p.up:
			return fmt.Errorf("it is up: %w", syscall.EBUSY)
		case m.bundles() && m.mtu > p.MaxMTU:
			return syscall.EINVAL
		}
		if len(m.members) == 0 {
			m.mac = p.MAC
		}
		p.master, p.ownMTU = m, p.mtu
		m.members = append(m.members, p.port)
		if m.bundles() {
			p.up, p.mtu = true, m.mtu
		}
		m.adjustMTU()
		m.chooseActive()
		return nil
	})
}

// LeaveMaster ends a membership.
func (k *Kernel) LeaveMaster(a vf.PCIAddr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	return k.onPF(a, func(p *pf) error { p.leaveMaster(); return nil })
}

// leaveMaster ends a membership. A member of a bond or team goes down, and has its own MTU again.
func (p *port) leaveMaster() {
	m := p.master
	if m == nil {
		return
	}
	p.master = nil
	m.members = slices.DeleteFunc(m.members, func(o *port) bool { return o == p })
	if m.bundles() {
		p.up, p.mtu = false, p.ownMTU
	}
	m.adjustMTU()
	m.chooseActive()
}

// SetMasterMTU sets the MTU of a master. A bond or team gives it to all members, or to none if one
// of them refuses it.
func (k *Kernel) SetMasterMTU(name string, mtu int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	m := k.findMaster(name)
	switch {
	case m == nil:
		return fmt.Errorf("interface %s: %w", name, syscall.ENODEV)
	case m.bundles() && mtu > k.profile.MaxMTU:
		return syscall.EINVAL
	}
	m.mtu = mtu
	if m.bundles() {
		for _, p := range m.members {
			p.mtu = mtu
		}
	}
	return nil
}

// setPortMTU sets the MTU of a port by itself. A team refuses it for its members, a bond accepts
// it and does not change its own, and a bridge follows.
func (p *port) setPortMTU(mtu, highest int) error {
	switch {
	case mtu > highest:
		return syscall.EINVAL
	case p.master != nil && p.master.kind == vf.MasterTeam:
		return syscall.EPERM
	}
	if p.mtu != mtu {
		p.resetLink()
	}
	p.mtu = mtu
	if p.master != nil {
		p.master.adjustMTU()
	}
	return nil
}

// bundles reports whether the members are one interface, as in a bond or a team.
func (m *hostMaster) bundles() bool { return (&vf.Master{Kind: m.kind}).IsLAG() }

// adjustMTU gives a bridge the smallest MTU of its members.
func (m *hostMaster) adjustMTU() {
	for i, p := range m.members {
		if !m.bundles() && (i == 0 || p.mtu < m.mtu) {
			m.mtu = p.mtu
		}
	}
}

// chooseActive chooses the member that is active: the present one if it has a link, else the first
// that has one.
func (m *hostMaster) chooseActive() {
	works := func(p *port) bool { return p != nil && p.master == m && p.linkSpeed() > 0 }
	if !m.bundles() || works(m.active) {
		return
	}
	m.active = nil
	if i := slices.IndexFunc(m.members, works); i >= 0 {
		m.active = m.members[i]
	}
}

// view returns the kernel's report. It names the active member of a bond whose mode has one
// (bond_uses_primary). It names none for a team, since only the daemon of the team knows it.
func (m *hostMaster) view() *vf.Master {
	out := &vf.Master{Name: m.name, Kind: m.kind}
	if m.kind != vf.MasterBond {
		return out
	}
	out.Mode = m.mode
	if m.active != nil && slices.Contains([]vf.BondMode{vf.BondActiveBackup, "balance-tlb", "balance-alb"}, m.mode) {
		out.Active = m.active.name
	}
	return out
}

// macOf returns the MAC address that a PF has as a member. All members of a bond or team have the
// same one, but for balance-tlb and balance-alb, where each keeps its own.
func (m *hostMaster) macOf(p *pf) vf.MAC {
	if !m.bundles() || m.mode == "balance-tlb" || m.mode == "balance-alb" {
		return p.MAC
	}
	return m.mac
}

func (m *hostMaster) String() string {
	var members []string
	for _, p := range m.members {
		name := p.name
		if p == m.active {
			name += "*"
		}
		members = append(members, name)
	}
	return fmt.Sprintf("%s %s %s members [%s] mtu %d\n", m.kind, m.name, m.mode, strings.Join(members, " "), m.mtu)
}
