package guard

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

func newFrame(source vf.MAC, kind uint16, payload ...byte) []byte {
	frame := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, source[:], binary.BigEndian.AppendUint16(nil, kind), payload)
	return append(frame, make([]byte, max(0, 60-len(frame)))...)
}

// newARP returns a gratuitous ARP request.
func newARP(source, sender vf.MAC, ip string) []byte {
	a := netip.MustParseAddr(ip).AsSlice()
	return newFrame(source, 0x0806, slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, 1}, sender[:], a, make([]byte, 6), a)...)
}

// newARPReply is arp as a reply.
func newARPReply(source, sender vf.MAC, ip string) []byte {
	f := newARP(source, sender, ip)
	f[21] = 2
	return f
}

// newIPv4 returns a packet of UDP to port 9.
func newIPv4(source vf.MAC, ip string) []byte {
	h := slices.Concat([]byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0}, netip.MustParseAddr(ip).AsSlice(), []byte{255, 255, 255, 255})
	return newFrame(source, 0x0800, append(h, 0, 9, 0, 9, 0, 8, 0, 0)...)
}

// newIPv6 returns a packet with a next header and a payload to all nodes of the link.
func newIPv6(source vf.MAC, ip string, next byte, payload ...byte) []byte {
	h := slices.Concat([]byte{0x60, 0, 0, 0}, binary.BigEndian.AppendUint16(nil, uint16(len(payload))), []byte{next, 255},
		netip.MustParseAddr(ip).AsSlice(), netip.MustParseAddr("ff02::1").AsSlice())
	return newFrame(source, 0x86dd, append(h, payload...)...)
}

// newICMP returns an ICMPv6 message.
func newICMP(kind byte, rest ...byte) []byte {
	return append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, rest...)
}

// newND returns a solicitation or an advertisement of a neighbour, with an option if kind is not 0.
func newND(message byte, target string, option byte, mac vf.MAC) []byte {
	out := newICMP(message, netip.MustParseAddr(target).AsSlice()...)
	if option != 0 {
		out = append(append(out, option, 1), mac[:]...)
	}
	return out
}
