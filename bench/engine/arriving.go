package engine

import (
	"encoding/binary"
	"net/netip"
)

// arriving names the frames of one session at the end that receives them.
type arriving struct {
	to      netip.AddrPort // that they go to
	session uint64
}

// field is a part of a frame, from its beginning in bytes, that has a value under a mask.
type field struct {
	at, size    uint32
	mask, value uint32
}

// vlanID are the bits of a VLAN tag that number the VLAN. The kernel takes the tag out of a frame
// before programs and packet sockets see it. A tag of VLAN 0 has a priority alone
// (IEEE 802.1Q, section 9.6).
const vlanID = 0x0fff

// listFields returns the fields that distinguish the session's frames from all others: EtherType,
// an IP header without options or extension headers, no fragment, UDP, the address and port, and
// the session.
func (a arriving) listFields() []field {
	ip, address := uint32(ipv4Length), a.to.Addr().AsSlice()
	all := []field{
		{etherLength - 2, 2, 0xffff, etherIPv4},
		{etherLength, 1, 0xff, 4<<4 | ipv4Length/4},
		{etherLength + 6, 2, 0x3fff, 0}, // more fragments, and the fragment's place
		{etherLength + 9, 1, 0xff, protocolUDP},
	}
	if a.to.Addr().Is6() {
		ip = ipv6Length
		all = []field{
			{etherLength - 2, 2, 0xffff, etherIPv6},
			{etherLength, 1, 0xf0, 6 << 4},
			{etherLength + 6, 1, 0xff, protocolUDP},
		}
	}
	word := func(at uint32, value []byte) {
		all = append(all, field{at, 4, 0xffffffff, binary.BigEndian.Uint32(value)})
	}
	for i := 0; i < len(address); i += 4 {
		word(etherLength+ip-uint32(len(address)-i), address[i:])
	}
	all = append(all, field{etherLength + ip + 2, 2, 0xffff, uint32(a.to.Port())})
	session := binary.BigEndian.AppendUint64(nil, a.session)
	at := sessionAt(a.to.Addr().Is6())
	word(at, session)
	word(at+4, session[4:])
	return all
}

// sessionAt returns the offset of the session in a frame.
func sessionAt(v6 bool) uint32 {
	if v6 {
		return etherLength + ipv6Length + udpLength
	}
	return etherLength + ipv4Length + udpLength
}
