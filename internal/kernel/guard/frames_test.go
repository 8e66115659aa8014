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

// newProbe returns a probe of an address by ARP (RFC 5227).
func newProbe(target string) []byte {
	f := newARP(podMAC, podMAC, "0.0.0.0")
	copy(f[atARPTarget:], netip.MustParseAddr(target).AsSlice())
	return f
}

// newOwnIPv4 returns a packet of the pod's own address. Its options have a multiple of four bytes.
func newOwnIPv4(protocol byte, options []byte, fragment uint16, payload ...byte) []byte {
	h := []byte{byte(0x45 + len(options)/4), 0}
	h = binary.BigEndian.AppendUint16(h, uint16(20+len(options)+len(payload)))
	h = binary.BigEndian.AppendUint16(append(h, 0, 1), fragment)
	h = append(h, 64, protocol, 0, 0)
	h = append(append(h, 172, 16, 91, 5), 255, 255, 255, 255)
	return newFrame(podMAC, 0x0800, slices.Concat(h, options, payload)...)
}

func newUDP(from, to uint16) []byte {
	h := binary.BigEndian.AppendUint16(nil, from)
	h = binary.BigEndian.AppendUint16(h, to)
	return append(h, 0, 8, 0, 0)
}

// newOwnIPv6 returns a packet of the pod's own link-local address.
func newOwnIPv6(next byte, payload ...byte) []byte {
	return newIPv6(podMAC, ownLocal, next, payload...)
}

// newJumbo returns a packet as the kernel makes one that the NIC cuts up: its length is in an option.
func newJumbo(next byte) []byte {
	f := newOwnIPv6(0, append([]byte{next, 0, 0xc2, 4, 0, 1, 0, 0}, newUDP(9, 9)...)...)
	copy(f[atIPv6Length:], []byte{0, 0})
	return f
}

// newToSwitch returns a frame to one of the addresses that no bridge forwards.
func newToSwitch(last byte, kind uint16) []byte {
	f := toSwitch(newFrame(podMAC, kind))
	f[5] = last
	return f
}

func toSwitch(f []byte) []byte {
	copy(f, []byte{0x01, 0x80, 0xc2, 0, 0, 0x0e})
	return f
}

// framesOfRouters are messages of servers, routers and switches from the pod's own addresses, and
// harmless frames that look like them.
func framesOfRouters() []verdict {
	const more = 0x2000 // fragments follow
	first := func(next byte, payload []byte) []byte { return append([]byte{next, 0, 0, 1, 0, 0, 0, 1}, payload...) }
	later := func(next byte, payload []byte) []byte {
		return append([]byte{next, 0, 0x05, 0xa8, 0, 0, 0, 1}, payload...)
	}
	query := append([]byte{58, 0, 5, 2, 0, 0, 1, 0}, newICMP(130)...)
	noOptions := []byte{1, 1, 1, 1}
	return []verdict{
		{"TCP of IPv6 larger than 64 KiB", newJumbo(6), true, true, ""},
		{"UDP of IPv6 larger than 64 KiB", newJumbo(17), false, false, ""},
		{"TCP behind hop-by-hop options", newOwnIPv6(0, append([]byte{6, 0, 0xc2, 4, 0, 1, 0, 0}, newUDP(9, 9)...)...), false, false, ""},
		{"TCP", newOwnIPv4(6, nil, 0, newUDP(9, 68)...), true, true, ""},
		{"SCTP", newOwnIPv4(132, nil, 0, newUDP(9, 68)...), true, true, ""},
		{"TCP behind options", newOwnIPv4(6, noOptions, 0, newUDP(9, 9)...), true, true, ""},
		{"DHCP to a server", newOwnIPv4(17, nil, 0, newUDP(68, 67)...), true, true, ""},
		{"DHCP to a client", newOwnIPv4(17, nil, 0, newUDP(67, 68)...), false, false, vf.AllowDHCPServer},
		{"DHCP to a client from another port", newOwnIPv4(17, nil, 0, newUDP(4011, 68)...), false, false, vf.AllowDHCPServer},
		{"DHCP to a client in a first fragment", newOwnIPv4(17, nil, more, newUDP(67, 68)...), false, false, vf.AllowDHCPServer},
		{"a later fragment with the same bytes", newOwnIPv4(17, nil, more|185, newUDP(67, 68)...), true, true, ""},
		{"DHCP to a client behind options", newOwnIPv4(17, noOptions, 0, newUDP(67, 68)...), false, false, ""},
		{"DHCPv6 to a server", newOwnIPv6(17, newUDP(546, 547)...), true, true, ""},
		{"DHCPv6 to a client", newOwnIPv6(17, newUDP(547, 546)...), false, false, vf.AllowDHCPServer},
		{"DHCPv6 to a client in a first fragment", newOwnIPv6(44, first(17, newUDP(547, 546))...), false, false, vf.AllowDHCPServer},
		{"a later fragment of UDP with the same bytes", newOwnIPv6(44, later(17, newUDP(547, 546))...), true, true, ""},

		{"echo request of IPv4", newOwnIPv4(1, nil, 0, newICMP(8)...), true, true, ""},
		{"error message of IPv4", newOwnIPv4(1, nil, 0, newICMP(3)...), true, true, ""},
		{"packet too big of IPv4", newOwnIPv4(1, nil, 0, 3, 4, 0, 0, 0, 0, 2, 0x28), false, false, vf.AllowRouter},
		{"packet too big of IPv4 in a first fragment", newOwnIPv4(1, nil, more, 3, 4, 0, 0, 0, 0, 2, 0x28), false, false, vf.AllowRouter},
		{"packet too big of IPv6", newOwnIPv6(58, newICMP(2)...), false, false, vf.AllowRouter},
		{"redirect of IPv4", newOwnIPv4(1, nil, 0, newICMP(5)...), false, false, vf.AllowRouter},
		{"redirect of IPv4 in a first fragment", newOwnIPv4(1, nil, more, newICMP(5)...), false, false, vf.AllowRouter},
		{"a later fragment of ICMP with the same bytes", newOwnIPv4(1, nil, 185, newICMP(5)...), true, true, ""},
		{"router advertisement of IPv4", newOwnIPv4(1, nil, 0, newICMP(9)...), false, false, vf.AllowRouter},

		{"report of IGMP", newOwnIPv4(2, nil, 0, 0x16, 0, 0, 0, 224, 0, 0, 9), true, true, ""},
		{"report of IGMPv3", newOwnIPv4(2, routerAlert, 0, 0x22, 0, 0, 0, 0, 0, 0, 0), true, true, ""},
		{"leave of IGMP", newOwnIPv4(2, routerAlert, 0, 0x17, 0, 0, 0, 224, 0, 0, 9), true, true, ""},
		{"report of IGMP behind another option", newOwnIPv4(2, noOptions, 0, 0x16, 0, 0, 0, 224, 0, 0, 9), false, false, ""},
		{"query of IGMP", newOwnIPv4(2, nil, 0, 0x11, 0, 0, 0, 0, 0, 0, 0), false, false, vf.AllowMulticastRouter},
		{"query of IGMPv3", newOwnIPv4(2, routerAlert, 0, 0x11, 0, 0, 0, 0, 0, 0, 0), false, false, vf.AllowMulticastRouter},
		{"query of MLD", newOwnIPv6(0, query...), false, false, vf.AllowMulticastRouter},
		{"query of MLD without the option", newOwnIPv6(58, newICMP(130)...), false, false, vf.AllowMulticastRouter},
		{"done of MLD", newOwnIPv6(0, append([]byte{58, 0, 5, 2, 0, 0, 1, 0}, newICMP(132)...)...), true, true, ""},

		{"VRRP", newOwnIPv4(112, nil, 0, 0x31, 1, 255, 0), false, false, vf.AllowVRRP},
		{"VRRP of IPv6", newOwnIPv6(112, 0x31, 1, 255, 0), false, false, vf.AllowVRRP},
		{"VRRP of IPv6 in a fragment", newOwnIPv6(44, first(112, []byte{0x31, 1, 255, 0})...), false, false, vf.AllowVRRP},

		{"LLDP", newToSwitch(0x0e, 0x88cc), false, false, vf.AllowLLDP},
		{"LLDP to a host", newFrame(podMAC, 0x88cc), false, false, vf.AllowLLDP},
		{"LACP", newToSwitch(2, 0x8809), false, false, vf.AllowLACP},
		{"EAPOL", newToSwitch(3, 0x888e), false, false, vf.AllowEAPOL},
		{"PPPoE discovery", newFrame(podMAC, 0x8863), false, false, vf.AllowPPPoE},
		{"PPPoE session", newFrame(podMAC, 0x8864), false, false, vf.AllowPPPoE},
		{"MPLS", newFrame(podMAC, 0x8847), false, false, vf.AllowMPLS},
		{"MPLS multicast", newFrame(podMAC, 0x8848), false, false, vf.AllowMPLS},
		{"PBB", newFrame(podMAC, 0x88e7), false, false, vf.AllowPBB},
		{"MAC control", newToSwitch(1, 0x8808), false, false, ""},
		{"MAC control to a host", newFrame(podMAC, 0x8808), false, false, ""},
		{"another protocol to a switch", newToSwitch(0x0e, 0x88f7), false, false, ""},
		{"registration of bridges", newToSwitch(0x21, 0x88f7), false, false, ""},
		{"MVRP", newFrame(podMAC, 0x88f5), false, false, ""},
		{"MMRP", newFrame(podMAC, 0x88f6), false, false, ""},
		{"MSRP", newFrame(podMAC, 0x22ea), false, false, ""},
		{"ring of bridges (MRP)", newFrame(podMAC, 0x88e3), false, false, ""},
		{"ring of bridges (CFM, ERPS)", newFrame(podMAC, 0x8902), false, false, ""},
		{"TRILL", newFrame(podMAC, 0x22f3), false, false, ""},
		{"TRILL's IS-IS", newFrame(podMAC, 0x22f4), false, false, ""},
		{"IEEE 802.2 in a jumbo frame", newFrame(podMAC, 0x8870), false, false, ""},
		{"IPv4 to a switch", toSwitch(newIPv4(podMAC, "172.16.91.5")), true, true, ""},
		{"VN-Tag", newFrame(podMAC, 0x8926), false, false, ""},
		{"tag of IEEE 802.1BR", newFrame(podMAC, 0x893f), false, false, ""},
		{"LLDP from a foreign MAC", newFrame(otherMAC, 0x88cc), false, false, ""},
	}
}
