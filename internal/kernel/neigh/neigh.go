// Package neigh builds the frames that tell neighbours where an address is now: gratuitous ARP (RFC
// 5227, section 3) and unsolicited neighbour advertisements (RFC 4861, section 7.2.6). It does no
// I/O; package kernel sends the frames.
package neigh

import (
	"encoding/binary"
	"net/netip"

	"github.com/culvert-net/culvert/internal/vf"
)

const (
	etherARP  = 0x0806
	etherIPv6 = 0x86dd

	protoICMPv6    = 58
	advertisement  = 136
	overrideFlag   = 0x20 // take this over what you have cached
	targetLinkAddr = 2    // option: target link-layer address
)

var broadcast = vf.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Frame announces that a is at mac: an ARP request for IPv4, a neighbour
// advertisement to all nodes for IPv6.
func Frame(mac vf.MAC, a netip.Addr) []byte {
	if a = a.Unmap(); a.Is4() {
		return encodeARP(mac, a)
	}
	return encodeAdvertisement(mac, a)
}

func ethernetHeader(dst, src vf.MAC, proto uint16) []byte {
	b := append(append(make([]byte, 0, 96), dst[:]...), src[:]...)
	return binary.BigEndian.AppendUint16(b, proto)
}

// encodeARP returns a request for the sender's own address: every host that has an entry for the
// address updates it. Some hosts ignore replies that they did not ask for, but not requests.
func encodeARP(mac vf.MAC, a netip.Addr) []byte {
	b := ethernetHeader(broadcast, mac, etherARP)
	b = append(b, 0, 1, 8, 0, 6, 4, 0, 1) // Ethernet, IPv4, lengths, request
	b = append(append(b, mac[:]...), a.AsSlice()...)
	return append(append(b, make([]byte, 6)...), a.AsSlice()...)
}

func encodeAdvertisement(mac vf.MAC, a netip.Addr) []byte {
	allNodes := netip.MustParseAddr("ff02::1")
	icmp := []byte{advertisement, 0, 0, 0, overrideFlag, 0, 0, 0}
	icmp = append(icmp, a.AsSlice()...)
	icmp = append(append(icmp, targetLinkAddr, 1), mac[:]...)
	binary.BigEndian.PutUint16(icmp[2:], sumICMPv6(a, allNodes, icmp))

	b := ethernetHeader(vf.MAC{0x33, 0x33, 0, 0, 0, 1}, mac, etherIPv6)
	b = append(b, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(icmp)))
	b = append(b, protoICMPv6, 255)
	b = append(append(b, a.AsSlice()...), allNodes.AsSlice()...)
	return append(b, icmp...)
}

// sumICMPv6 returns the Internet checksum over the IPv6 pseudo header and payload
// (RFC 8200, section 8.1).
func sumICMPv6(src, dst netip.Addr, payload []byte) uint16 {
	b := append(append([]byte(nil), src.AsSlice()...), dst.AsSlice()...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(append(b, 0, 0, 0, protoICMPv6), payload...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
