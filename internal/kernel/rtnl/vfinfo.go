package rtnl

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// linux/if_link.h, IFLA_VF_*.
const (
	iflaVFInfo      = 1
	iflaVFMAC       = 1
	iflaVFVLAN      = 2
	iflaVFTxRate    = 3
	iflaVFSpoofChk  = 4
	iflaVFLinkState = 5
	iflaVFRate      = 6
	iflaVFRSSQuery  = 7
	iflaVFTrust     = 9
	iflaVFVLANList  = 12
	iflaVFVLANInfo  = 1

	vfMACBytes = 32 // MAX_ADDR_LEN, as struct ifla_vf_mac has it
	absent     = 0xffffffff
)

// ParseVFInfoList reads IFLA_VFINFO_LIST: the PF's settings for each VF, by index.
func ParseVFInfoList(b []byte) (map[int]vf.Admin, error) {
	list, err := Attrs(b)
	if err != nil {
		return nil, fmt.Errorf("list of VFs: %w", err)
	}
	out := make(map[int]vf.Admin, len(list))
	for _, info := range list {
		if info.Type != iflaVFInfo {
			continue
		}
		index, admin, err := parseVFInfo(info.Value)
		if err != nil {
			return nil, fmt.Errorf("list of VFs: %w", err)
		}
		out[index] = admin
	}
	return out, nil
}

// parseVFInfo reads one IFLA_VF_INFO. Every attribute in it starts with the
// VF's index.
func parseVFInfo(b []byte) (int, vf.Admin, error) {
	var admin vf.Admin
	index := -1
	attrs, err := Attrs(b)
	if err != nil {
		return 0, admin, err
	}
	for _, a := range attrs {
		if a.Type == iflaVFMAC && len(a.Value) >= 4 {
			index = int(a.Uint32())
		}
		if err := takeVFAttr(&admin, a); err != nil {
			return 0, admin, err
		}
	}
	if index < 0 || index > 0xffff {
		return 0, admin, fmt.Errorf("a VF without its index")
	}
	return index, admin, nil
}

func takeVFAttr(admin *vf.Admin, a Attr) error {
	switch a.Type {
	case iflaVFMAC:
		if len(a.Value) >= 4+len(vf.MAC{}) {
			admin.MAC = vf.MAC(a.Value[4 : 4+len(vf.MAC{})])
		}
	case iflaVFVLAN:
		// The kernel sends the list too, which knows the protocol; an old one
		// does not.
		if admin.VLAN.Proto == 0 {
			return takeVLAN(admin, wordAt(a.Value, 1), wordAt(a.Value, 2), vf.Dot1Q)
		}
	case iflaVFVLANList:
		return takeVLANList(admin, a.Value)
	case iflaVFRate:
		admin.MinTxRate, admin.MaxTxRate = wordAt(a.Value, 1), wordAt(a.Value, 2)
	case iflaVFLinkState:
		if s := wordAt(a.Value, 1); s <= uint32(vf.LinkDisable) {
			admin.LinkState = vf.LinkState(s)
		}
	default:
		if s := admin.Switch(switchOf(a.Type)); s != nil {
			*s = triOf(wordAt(a.Value, 1))
		}
	}
	return nil
}

// switches are the attributes of the settings that are on or off.
var switches = map[vf.Setting]uint16{vf.SetSpoofChk: iflaVFSpoofChk, vf.SetTrust: iflaVFTrust, vf.SetRSSQuery: iflaVFRSSQuery}

// switchOf returns the setting that an attribute switches. It is empty if the attribute is no
// switch.
func switchOf(typ uint16) vf.Setting {
	for s, t := range switches {
		if t == typ {
			return s
		}
	}
	return ""
}

// takeVLANList reads the first entry of IFLA_VF_VLAN_LIST; the kernel never
// sends more (MAX_VLAN_LIST_LEN is 1).
func takeVLANList(admin *vf.Admin, b []byte) error {
	entries, err := Attrs(b)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type == iflaVFVLANInfo && len(e.Value) >= 14 {
			proto := vf.VLANProto(binary.BigEndian.Uint16(e.Value[12:]))
			return takeVLAN(admin, wordAt(e.Value, 1), wordAt(e.Value, 2), proto)
		}
	}
	return nil
}

// takeVLAN leaves protocol and priority out where there is no VLAN, as vf.VLAN
// wants it. A tag has 12 bits for the VLAN and 3 for the priority (802.1Q).
func takeVLAN(admin *vf.Admin, id, qos uint32, proto vf.VLANProto) error {
	if id > 0xfff || qos > 7 {
		return fmt.Errorf("vlan %d qos %d, which no tag can have", id, qos)
	}
	if proto != vf.Dot1AD {
		proto = vf.Dot1Q // there is no third (net/core/rtnetlink.c, handle_vf_vlan)
	}
	admin.VLAN = vf.VLAN{}
	if id != 0 || qos != 0 {
		admin.VLAN = vf.VLAN{ID: uint16(id), QoS: uint8(qos), Proto: proto}
	}
	return nil
}

// triOf reads a switch. A driver without it leaves the -1 that
// rtnl_fill_vfinfo put there.
func triOf(v uint32) vf.Tri {
	if v == absent {
		return vf.Unknown
	}
	return vf.TriOf(v != 0)
}

// VFSetting is one IFLA_VF_* attribute to write.
type VFSetting struct {
	typ   uint16
	value []byte
}

// String returns the attribute's name.
func (s VFSetting) String() string {
	names := map[uint16]string{
		iflaVFMAC: "mac", iflaVFVLAN: "vlan", iflaVFSpoofChk: "spoofchk", iflaVFLinkState: "link_state", iflaVFRate: "rate",
		iflaVFRSSQuery: "rss_query", iflaVFTrust: "trust", iflaVFVLANList: "vlan list",
	}
	return names[s.typ&attrType]
}

// appendWords returns a structure of 32-bit numbers.
func appendWords(vs ...uint32) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

func onOff(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// VFMAC sets the admin MAC; the zero address clears it.
func VFMAC(index int, mac vf.MAC) VFSetting {
	b := append(appendWords(uint32(index)), make([]byte, vfMACBytes)...)
	copy(b[4:], mac[:])
	return VFSetting{iflaVFMAC, b}
}

// VFVLAN sets or clears the VLAN. 802.1q goes in the old attribute, which
// every kernel and driver knows.
func VFVLAN(index int, v vf.VLAN) VFSetting {
	base := appendWords(uint32(index), uint32(v.ID), uint32(v.QoS))
	if v.Proto != vf.Dot1AD {
		return VFSetting{iflaVFVLAN, base}
	}
	info := binary.BigEndian.AppendUint16(base, uint16(v.Proto))
	info = append(info, 0, 0) // struct padding
	return VFSetting{iflaVFVLANList | attrNested, AppendAttr(nil, iflaVFVLANInfo, info)}
}

// VFSwitch switches a setting of vf.Switches.
func VFSwitch(index int, s vf.Setting, on bool) VFSetting {
	return VFSetting{switches[s], appendWords(uint32(index), onOff(on))}
}

// VFLinkState sets whether the VF's carrier follows the PF's, or is always on or off.
func VFLinkState(index int, s vf.LinkState) VFSetting {
	return VFSetting{iflaVFLinkState, appendWords(uint32(index), uint32(s))}
}

// VFRate sets both send rates, Mb/s.
func VFRate(index int, lowest, highest uint32) VFSetting {
	return VFSetting{iflaVFRate, appendWords(uint32(index), lowest, highest)}
}

// SetVF writes one setting of one VF of the PF with the given link index.
func (c *Conn) SetVF(index int, s VFSetting) error {
	info := AppendNested(nil, iflaVFInfo, AppendAttr(nil, s.typ, s.value))
	return c.SetLink(index, 0, 0, AppendNested(nil, unix.IFLA_VFINFO_LIST, info))
}
