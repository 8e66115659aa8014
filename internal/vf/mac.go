package vf

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// MAC is a 48-bit Ethernet address. It is comparable, unlike
// net.HardwareAddr. The zero value means "unset".
type MAC [6]byte

// ParseMAC accepts the forms of net.ParseMAC that are 48 bits long.
func ParseMAC(s string) (MAC, error) {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != len(MAC{}) {
		return MAC{}, fmt.Errorf("MAC address %q: want six bytes in hexadecimal, e.g. 02:00:5e:10:00:01", s)
	}
	return MAC(hw), nil
}

// wantUnicast describes the MACs that an interface can have.
const wantUnicast = "want a unicast address: not zero, and the first byte even"

// ParseUnicastMAC parses like ParseMAC, for an interface's own address.
func ParseUnicastMAC(s string) (MAC, error) {
	m, err := ParseMAC(s)
	if err == nil && !m.IsUnicast() {
		err = fmt.Errorf("MAC address %q: %s", s, wantUnicast)
	}
	return m, err
}

// IsZero reports whether m is unset.
func (m MAC) IsZero() bool { return m == MAC{} }

// IsUnicast reports whether m can be an interface's own address: the group
// bit is clear and m is not zero.
func (m MAC) IsUnicast() bool { return m[0]&1 == 0 && !m.IsZero() }

// HardwareAddr returns m for net and netlink calls.
func (m MAC) HardwareAddr() net.HardwareAddr { return net.HardwareAddr(m[:]) }

// LinkLocal returns the link-local address of IPv6 that the kernel makes of the MAC address (RFC 4291,
// appendix A).
func (m MAC) LinkLocal() netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

// MACOfLinkLocal returns the MAC address of which LinkLocal makes an address, and whether there is
// one.
func MACOfLinkLocal(a netip.Addr) (m MAC, is bool) {
	b := a.As16()
	m = MAC{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]}
	return m, !a.Is4() && m.LinkLocal() == a
}

func (m MAC) String() string {
	if m.IsZero() {
		return ""
	}
	return m.HardwareAddr().String()
}

// MarshalText writes the address as String does.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText wrote; the empty text is the zero value.
func (m *MAC) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*m = MAC{}
		return nil
	}
	*m, err = ParseMAC(string(b))
	return err
}

// StableMAC returns the address of VF index of PF id unless a request names another: the same
// on every boot and in every slot, locally administered, unicast. 38 bits come from a SHA-256
// of the PF's identity; the last byte counts the VFs (and carries into the one before it past
// 255), so VF 3 ends in :03 and two PFs share an address with probability 2^-38.
func StableMAC(id PFID, index int) MAC {
	sum := sha256.Sum256([]byte("culvert vf mac\x00" + id.String()))
	var m MAC
	copy(m[:], sum[:6])
	m[0] = m[0]&^0x03 | 0x02
	low := binary.BigEndian.Uint16(m[4:]) &^ 0x00ff // start at ...:00, so that VF 3 ends in :03
	binary.BigEndian.PutUint16(m[4:], low+uint16(index))
	return m
}
