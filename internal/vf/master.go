package vf

import (
	"fmt"
	"strings"
)

// Master is the interface of the host of which a PF is a member (IFLA_MASTER), such as a bond or
// a bridge. Culvert neither makes nor changes it.
type Master struct {
	Name string `json:"name"`
	// Kind is the kernel's name of its kind, such as MasterBond; empty if the kernel reports none.
	Kind string `json:"kind,omitempty"`
	// Mode is a bond's. Active is the bond's active member; empty if none works, and in the modes
	// that have no such member.
	Mode   BondMode `json:"mode,omitempty"`
	Active string   `json:"active,omitempty"`
	// IsMember is whether the master is itself a member of another interface, as a bond in a
	// bridge.
	IsMember bool `json:"-"`
}

// Kinds of Master, as IFLA_INFO_KIND has them.
const (
	MasterBond   = "bond"
	MasterTeam   = "team"
	MasterBridge = "bridge"
)

// IsLAG reports whether the master is a bond or a team, which the kernel calls LAGs
// (netif_is_lag_master). m may be nil.
func (m *Master) IsLAG() bool {
	return m != nil && (m.Kind == MasterBond || m.Kind == MasterTeam)
}

// TakesFrames reports whether a packet socket of one protocol on a member may hear no frame. The
// kernel hands a frame to the master's rx_handler before such sockets (__netif_receive_skb_core),
// and those of a bridge (br_handle_frame) and of Open vSwitch (netdev_frame_hook) consume it. A LAG
// hands it on, unless it is a member of such an interface itself. m may be nil.
func (m *Master) TakesFrames() bool {
	return m != nil && (!m.IsLAG() || m.IsMember)
}

// SetsMTU reports whether the MTU of a member is the master's, as in a bond or a team. The kernel
// gives a new MTU of the bond to all members (bond_change_mtu). It accepts another one for a
// member and overwrites it later; a team refuses that (team_device_event). A bridge leaves the MTU
// to its members. m may be nil.
func (m *Master) SetsMTU() bool { return m.IsLAG() }

// MTUCommand returns the command that gives the master and its members an MTU.
func (m Master) MTUCommand(mtu int) string {
	return fmt.Sprintf("ip link set %s mtu %d", m.Name, mtu)
}

// FailOver describes what a VF of a member does when the master, a bond or a team, fails over. The
// text is empty for other masters. m may be nil.
func (m *Master) FailOver() string {
	if !m.IsLAG() {
		return ""
	}
	s := fmt.Sprintf("when %s fails over, a VF stays on the wire of its PF: a pod that must keep its network needs a bond of its own (docs/bond.md)", m.Name)
	if m.Mode.needsPortGroup() {
		s += fmt.Sprintf("; in mode %s the switch may send a VF's packets to another port of the group, where they are lost", m.Mode)
	}
	return s
}

// String returns the name with the known details, as in "bond0 (bond, active-backup, enp1s0 is
// active)".
func (m Master) String() string {
	var more []string
	for _, s := range []string{m.Kind, string(m.Mode)} {
		if s != "" {
			more = append(more, s)
		}
	}
	if m.Active != "" {
		more = append(more, m.Active+" is active")
	}
	if len(more) == 0 {
		return m.Name
	}
	return fmt.Sprintf("%s (%s)", m.Name, strings.Join(more, ", "))
}
