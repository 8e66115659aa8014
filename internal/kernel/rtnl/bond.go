package rtnl

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// Bond has the settings of a bond that Culvert makes or compares (linux/if_link.h IFLA_BOND_*).
type Bond struct {
	Mode        uint8
	FailOverMAC uint8  // linux/if_bonding.h: 0 none, 1 active, 2 follow
	Miimon      uint32 // milliseconds
	ARPInterval uint32 // milliseconds
	ARPTargets  []netip.Addr
	MissedMax   uint8 // intervals without a packet; 0 if the kernel does not report it, before Linux 5.17
	// Active and Primary are the indexes of the member that sends and of the preferred one; 0 if
	// there is none.
	Active, Primary int
}

const (
	failOverMACActive = 1
	carrierInterval   = 100 // milliseconds between two looks at the members' carrier (miimon)
)

// bondOf returns the settings of a wanted bond. The kernel takes miimon or arp_interval, not
// both.
func bondOf(b vf.Bond) Bond {
	out := Bond{Mode: b.Mode.Number(), ARPInterval: uint32(b.ARPInterval), ARPTargets: b.ARPTargets, MissedMax: uint8(b.ARPMissedMax)}
	if b.HasFailOverMAC() {
		out.FailOverMAC = failOverMACActive
	}
	if b.ARPInterval == 0 {
		out.Miimon = carrierInterval
	}
	return out
}

// appendLinkInfo appends IFLA_LINKINFO with data of a bond.
func appendLinkInfo(b []byte, data []byte) []byte {
	info := AppendString(nil, unix.IFLA_INFO_KIND, vf.MasterBond)
	return AppendNested(b, unix.IFLA_LINKINFO, AppendNested(info, unix.IFLA_INFO_DATA, data))
}

func (b Bond) encodeData() []byte {
	data := AppendAttr(nil, unix.IFLA_BOND_MODE, []byte{b.Mode})
	data = AppendAttr(data, unix.IFLA_BOND_FAIL_OVER_MAC, []byte{b.FailOverMAC})
	if b.Miimon != 0 {
		data = AppendUint32(data, unix.IFLA_BOND_MIIMON, b.Miimon)
	}
	if b.ARPInterval == 0 {
		return data
	}
	var targets []byte
	for i, t := range b.ARPTargets {
		targets = AppendAttr(targets, uint16(i), t.AsSlice())
	}
	data = AppendUint32(data, unix.IFLA_BOND_ARP_INTERVAL, b.ARPInterval)
	if b.MissedMax != 0 {
		data = AppendAttr(data, unix.IFLA_BOND_MISSED_MAX, []byte{b.MissedMax})
	}
	return AppendNested(data, unix.IFLA_BOND_ARP_IP_TARGET, targets)
}

// AddBond makes a bond in a group of links. unix.EEXIST: the name is taken; unix.EOPNOTSUPP: the kernel
// has no bonds.
func (c *Conn) AddBond(name string, group uint32, mtu int, b vf.Bond) error {
	_, err := c.Do(Request{
		Type: unix.RTM_NEWLINK, Flags: unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL,
		Body: encodeBond(name, group, mtu, b),
	})
	return err
}

func encodeBond(name string, group uint32, mtu int, b vf.Bond) []byte {
	body := AppendString(linkHeader(0, 0, 0), unix.IFLA_IFNAME, name)
	body = AppendUint32(body, unix.IFLA_GROUP, group)
	if mtu != 0 {
		body = AppendUint32(body, unix.IFLA_MTU, uint32(mtu))
	}
	return appendLinkInfo(body, bondOf(b).encodeData())
}

// MarkBond gives a bond an alias and the default group, in one message. A kill does not divide it:
// the kernel looks at signals only after do_setlink.
func (c *Conn) MarkBond(bond int, alias string) error {
	attrs := AppendUint32(nil, unix.IFLA_GROUP, 0)
	return c.SetLink(bond, 0, 0, AppendString(attrs, unix.IFLA_IFALIAS, alias))
}

// SetPrimary makes a member of a bond the preferred one. Only RTM_NEWLINK changes the settings
// of a kind of link.
func (c *Conn) SetPrimary(bond, member int) error {
	data := AppendUint32(nil, unix.IFLA_BOND_PRIMARY, uint32(member))
	_, err := c.Do(Request{Type: unix.RTM_NEWLINK, Flags: unix.NLM_F_ACK, Body: appendLinkInfo(linkHeader(bond, 0, 0), data)})
	return err
}

// SetActive lets a member of a bond send in place of the present sender. unix.EINVAL: the kernel
// counts the member as down, or no member sends (bond_option_active_slave_set).
func (c *Conn) SetActive(bond, member int) error {
	data := AppendUint32(nil, unix.IFLA_BOND_ACTIVE_SLAVE, uint32(member))
	_, err := c.Do(Request{Type: unix.RTM_NEWLINK, Flags: unix.NLM_F_ACK, Body: appendLinkInfo(linkHeader(bond, 0, 0), data)})
	return err
}

// DelLink removes a link; unix.ENODEV when there is none.
func (c *Conn) DelLink(index int) error {
	_, err := c.Do(Request{Type: unix.RTM_DELLINK, Flags: unix.NLM_F_ACK, Body: linkHeader(index, 0, 0)})
	return err
}

// parseLinkInfo returns the kind of a link, and the settings of a bond.
func parseLinkInfo(info []byte) (kind string, b *Bond, err error) {
	attrs, err := Attrs(info)
	if err != nil {
		return "", nil, err
	}
	var data []byte
	for _, a := range attrs {
		switch a.Type {
		case unix.IFLA_INFO_KIND:
			kind = a.Text()
		case unix.IFLA_INFO_DATA:
			data = a.Value
		}
	}
	if kind != vf.MasterBond {
		return kind, nil, nil
	}
	if attrs, err = Attrs(data); err != nil {
		return kind, nil, err
	}
	b = &Bond{}
	for _, a := range attrs {
		if err := b.takeAttr(a); err != nil {
			return kind, nil, err
		}
	}
	return kind, b, nil
}

func (b *Bond) takeAttr(a Attr) error {
	switch a.Type {
	case unix.IFLA_BOND_MODE:
		b.Mode = byteOf(a)
	case unix.IFLA_BOND_FAIL_OVER_MAC:
		b.FailOverMAC = byteOf(a)
	case unix.IFLA_BOND_MIIMON:
		b.Miimon = a.Uint32()
	case unix.IFLA_BOND_ARP_INTERVAL:
		b.ARPInterval = a.Uint32()
	case unix.IFLA_BOND_MISSED_MAX:
		b.MissedMax = byteOf(a)
	case unix.IFLA_BOND_ACTIVE_SLAVE:
		b.Active = int(a.Uint32())
	case unix.IFLA_BOND_PRIMARY:
		b.Primary = int(a.Uint32())
	case unix.IFLA_BOND_ARP_IP_TARGET:
		return b.takeTargets(a.Value)
	}
	return nil
}

func (b *Bond) takeTargets(value []byte) error {
	targets, err := Attrs(value)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if len(t.Value) != 4 || len(b.ARPTargets) == vf.MaxARPTargets {
			return fmt.Errorf("target of ARP requests of %d bytes, after %d others", len(t.Value), len(b.ARPTargets))
		}
		b.ARPTargets = append(b.ARPTargets, netip.AddrFrom4([4]byte(t.Value)))
	}
	return nil
}

func byteOf(a Attr) uint8 {
	if len(a.Value) == 0 {
		return 0
	}
	return a.Value[0]
}

// State returns the report about the bond for one of its members.
func (b Bond) State(member int) vf.BondState {
	return vf.BondState{
		Mode: vf.BondModeOf(b.Mode), FailOverMAC: b.FailOverMAC == failOverMACActive, ARPInterval: int(b.ARPInterval), ARPTargets: b.ARPTargets,
		ARPMissedMax: int(b.MissedMax), Active: member == b.Active, Primary: member == b.Primary,
	}
}
