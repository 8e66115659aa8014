package vf

import (
	"fmt"
	"net/netip"
	"slices"
)

// Bond is the wanted settings of a bond: one interface made of several VFs, so that the owner
// keeps its network when the wire of one PF fails.
type Bond struct {
	Links int      `json:"links"`
	Mode  BondMode `json:"mode"`
	// ARPInterval is the time in milliseconds between two ARP requests by which the kernel finds
	// out whether a member works. If it is 0, the kernel looks at the carrier of the members
	// (miimon); it does one or the other.
	ARPInterval int          `json:"arpInterval,omitempty"`
	ARPTargets  []netip.Addr `json:"arpIPTargets,omitempty"`
	// ARPMissedMax is how many intervals without a packet the member that sends may have
	// (arp_missed_max of Documentation/networking/bonding.rst, Linux 5.17). If it is 0, the kernel's
	// own value stays.
	ARPMissedMax int `json:"arpMissedMax,omitempty"`
	// Primary names the PF whose VF sends as long as it works; it is empty if no PF is preferred.
	Primary      string       `json:"primary,omitempty"`
	AntiAffinity AntiAffinity `json:"antiAffinity"`
}

// Bounds of a bond. The kernel has room for 16 targets of ARP requests (BOND_MAX_ARP_TARGETS).
// The names of the members are one character longer than the bond's, and a name of an interface
// has at most 15.
const (
	MinLinks        = 2
	MaxLinks        = 8
	MaxARPTargets   = 16
	MaxARPInterval  = 60_000 // milliseconds
	MaxARPMissed    = 255    // drivers/net/bonding/bond_netlink.c: one byte
	LongestBondName = 14
)

// BondMode is the mode of a bond by its name in the kernel (Documentation/networking/bonding.rst).
type BondMode string

// BondActiveBackup is the mode in which one member sends and the others wait.
const BondActiveBackup BondMode = "active-backup"

// bondModes lists the modes in the order of their numbers (linux/if_bonding.h).
var bondModes = []BondMode{"balance-rr", BondActiveBackup, "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}

// ParseBondMode accepts the names of the kernel's modes.
func ParseBondMode(s string) (BondMode, error) {
	if m := BondMode(s); slices.Contains(bondModes, m) {
		return m, nil
	}
	return "", fmt.Errorf("%q: want %s", s, BondActiveBackup)
}

// BondModeOf returns the mode with a number of the kernel.
func BondModeOf(number uint8) BondMode {
	if int(number) < len(bondModes) {
		return bondModes[number]
	}
	return BondMode(fmt.Sprintf("mode %d", number))
}

// Number returns the kernel's number of the mode.
func (m BondMode) Number() uint8 { return uint8(max(0, slices.Index(bondModes, m))) }

// CheckVFs returns the reason why a bond of VFs does not work in this mode, or nil. The MAC
// address of a VF is pinned by its PF, and the switch sees the PFs as separate ports.
func (m BondMode) CheckVFs() error {
	switch {
	case m == BondActiveBackup:
		return nil
	case !m.needsPortGroup():
		return fmt.Errorf("mode %s moves MAC addresses between the members, and the PF pins the MAC address of a VF: want %s", m, BondActiveBackup)
	}
	return fmt.Errorf("mode %s needs a port group on the switch over the ports of all PFs, for the VFs alone: want %s", m, BondActiveBackup)
}

// CheckGuard returns the reason why a guard with these keys does not work at the members of a bond in
// this mode, or nil. A guard pins the MAC address of each member, and drops the frames of LACP
// without its key (bond_alb.c, bond_3ad.c of drivers/net/bonding).
func (m BondMode) CheckGuard(allow []GuardKey) error {
	switch {
	case m == "balance-tlb" || m == "balance-alb":
		return fmt.Errorf("does not work with a bond in mode %s, which changes the MAC addresses of its members: take guard out, or use mode %s", m, BondActiveBackup)
	case m == "802.3ad" && !slices.Contains(allow, AllowLACP):
		return fmt.Errorf("drops the LACP frames of a bond in mode %s: add \"guardAllow\": [%q], or use mode %s", m, AllowLACP, BondActiveBackup)
	}
	return nil
}

// needsPortGroup reports whether the switch must know the ports of the bond's members as one group
// (Documentation/networking/bonding.rst).
func (m BondMode) needsPortGroup() bool {
	return slices.Contains([]BondMode{"balance-rr", "balance-xor", "broadcast", "802.3ad"}, m)
}

// HasFailOverMAC reports whether the bond takes the MAC address of the member that sends
// (fail_over_mac active), so that no member needs another address than its own.
func (b Bond) HasFailOverMAC() bool { return b.Mode == BondActiveBackup }

// AntiAffinity names the part that the members of a bond must not share.
type AntiAffinity string

// Kinds of anti-affinity.
const (
	ApartPF   AntiAffinity = "pf"   // no two members are on one PF or one port
	ApartNIC  AntiAffinity = "nic"  // nor on one card
	ApartNUMA AntiAffinity = "numa" // nor on cards of one NUMA node
	ApartNone AntiAffinity = "none" // any VFs
)

// ParseAntiAffinity accepts pf, nic, numa and none.
func ParseAntiAffinity(s string) (AntiAffinity, error) {
	a := AntiAffinity(s)
	if !slices.Contains([]AntiAffinity{ApartPF, ApartNIC, ApartNUMA, ApartNone}, a) {
		return "", fmt.Errorf("%q: want pf, nic, numa or none", s)
	}
	return a, nil
}

// PrefersPF reports whether p is the primary PF of the bond, by any of its names or its PCI address,
// or the bond has no primary PF.
func (b Bond) PrefersPF(p PF) bool {
	return b.Primary == "" || b.Primary == p.PCI.String() || slices.Contains(p.Names(), b.Primary)
}

// SharedPart returns the part that two PFs share and VFs of a bond must not have in common, such
// as "PF enp1s0". It returns "" if VFs of both may be in one bond.
func (a AntiAffinity) SharedPart(p, q PF) string {
	switch {
	case a == ApartNone:
		return ""
	case p.ID == q.ID:
		return "PF " + p.Label()
	case p.Port != "" && p.Port == q.Port:
		return "port " + p.Port
	case a != ApartPF && p.IsOnCardOf(q):
		return fmt.Sprintf("the card of PFs %s and %s", p.Label(), q.Label())
	case a == ApartNUMA && p.NUMA == q.NUMA:
		return fmt.Sprintf("NUMA node %d of PFs %s and %s", p.NUMA, p.Label(), q.Label())
	}
	return ""
}

// CountApart returns how many VFs that share no part two or more PFs can give to one bond. With
// ApartNone, each PF can give any number.
func (a AntiAffinity) CountApart(pfs []PF) int {
	var chosen []PF // any choice will do: a part of a PF does not overlap another
	for _, p := range pfs {
		if !slices.ContainsFunc(chosen, func(q PF) bool { return a.SharedPart(p, q) != "" }) {
			chosen = append(chosen, p)
		}
	}
	return len(chosen)
}

// IsOnCardOf reports whether two PFs are functions of one card.
func (p PF) IsOnCardOf(q PF) bool {
	return p.PCI.Domain == q.PCI.Domain && p.PCI.Bus == q.PCI.Bus && p.PCI.Device == q.PCI.Device
}

// MemberName returns the name of a member of a bond in the owner's netns: net1a and net1b of net1.
func MemberName(bond string, index int) string { return bond + string(rune('a'+index)) }

// BondState is the kernel's report about the bond of a netdevice.
type BondState struct {
	// Link is the bond's own interface.
	Link        Link         `json:"link"`
	Mark        string       `json:"mark,omitempty"` // that Culvert gave it
	Mode        BondMode     `json:"mode"`
	FailOverMAC bool         `json:"failOverMAC"`
	ARPInterval int          `json:"arpInterval,omitempty"` // in milliseconds
	ARPTargets  []netip.Addr `json:"arpIPTargets,omitempty"`
	// ARPMissedMax is 0 if the kernel does not report it.
	ARPMissedMax int `json:"arpMissedMax,omitempty"`
	// Active and Primary report whether the netdevice sends, and whether the bond prefers it.
	Active  bool `json:"active"`
	Primary bool `json:"primary,omitempty"`
}

// Diff lists the differences between the wanted bond, of this name and MTU, and the bond in which
// a member is. The state is nil if the member is in no bond. Diff does not compare which
// member sends: the kernel chooses it.
func (b Bond) Diff(name string, mtu *int, s *BondState) []Difference {
	var c comparison
	if s == nil {
		c.compareValue("bond", name, "")
		return c.out
	}
	c.compareValue("bond", name, s.Link.Name)
	c.compareValue("bond mode", b.Mode, s.Mode)
	if b.HasFailOverMAC() {
		c.compareValue("fail_over_mac", true, s.FailOverMAC)
	}
	c.compareValue("arp_interval", b.ARPInterval, s.ARPInterval)
	if !slices.Equal(b.ARPTargets, s.ARPTargets) {
		c.compareValue("arp_ip_target", fmt.Sprint(b.ARPTargets), fmt.Sprint(s.ARPTargets))
	}
	if b.ARPMissedMax != 0 && s.ARPMissedMax != 0 {
		c.compareValue("arp_missed_max", b.ARPMissedMax, s.ARPMissedMax)
	}
	if mtu != nil {
		c.compareValue("bond mtu", *mtu, s.Link.MTU)
	}
	c.compareValue("bond up", true, s.Link.Up)
	return c.out
}
