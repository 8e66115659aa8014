package engine

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/culvert-net/culvert/bench"
)

// Lengths and places in a frame, bytes (RFC 894, 791, 8200, 768).
const (
	etherLength = 14
	ipv4Length  = 20
	ipv6Length  = 40
	udpLength   = 8
	etherSource = 6
	etherIPv4   = 0x0800
	etherIPv6   = 0x86dd
	protocolTCP = 6
	protocolUDP = 17
)

// burstBytes bounds the payload of a burst, so that a ring of them takes some 30 MiB.
const burstBytes = 16 << 10

// firstPort is the source port of the first flow.
const firstPort = 1024

// frames are the frames of one workload: UDP to the other end, with the session at the
// beginning of the payload, from source ports (flows), addresses and MACs that
// take turns.
type frames struct {
	// template is a frame, or a burst of them: one UDP packet, whose payload has that of each.
	template             []byte
	burst, payload       int    // how many, and bytes of each
	ip                   int    // length of the IP header
	base                 uint32 // sum of what the checksum covers, its changing words zero
	pseudo               uint32 // the same of UDP's pseudo-header, of a burst
	flows, sources, macs uint64
}

// LeastFrame returns the smallest size of a frame that holds the session; it is never below
// Ethernet's 60 bytes.
func LeastFrame(v6 bool) int {
	if v6 {
		return etherLength + ipv6Length + udpLength + 8
	}
	return 60
}

// LeastPktgenFrame returns the smallest size of a frame that the kernel's pktgen sends. It makes smaller ones larger
// (fill_packet_ipv6 in net/core/pktgen.c): its own header of 16 bytes is in each.
func LeastPktgenFrame(v6 bool) int {
	if v6 {
		return etherLength + ipv6Length + udpLength + 16
	}
	return 60
}

// newFrames makes the frames that go the way of r to its port.
func newFrames(r route, session uint64, w bench.Workload) (*frames, error) {
	v6 := r.to.Addr().Is6()
	if least := LeastFrame(v6); w.Size < least || w.Size > r.mtu+etherLength {
		return nil, fmt.Errorf("size %d of a frame: want %d to %d bytes: %s has an MTU of %d", w.Size, least, r.mtu+etherLength, r.name, r.mtu)
	}
	f := &frames{
		burst: max(w.Burst, 1), ip: ipv4Length,
		flows: uint64(w.Flows), sources: uint64(w.Sources), macs: uint64(w.MACs),
	}
	if v6 {
		f.ip = ipv6Length
	}
	headers := etherLength + f.ip + udpLength
	f.payload = w.Size - headers
	if most := max(1, burstBytes/f.payload); f.burst > most {
		return nil, fmt.Errorf("burst %d: want 1 to %d for frames of %d bytes", f.burst, most, w.Size)
	}
	f.template = make([]byte, headers+f.burst*f.payload)
	b := f.template
	copy(b, r.ether[:])
	l3 := b[etherLength:]
	if v6 {
		l3[0] = 6 << 4
		binary.BigEndian.PutUint16(l3[4:], uint16(len(l3)-ipv6Length))
		l3[6], l3[7] = protocolUDP, 64
		copy(l3[24:], r.to.Addr().AsSlice())
	} else {
		l3[0] = 4<<4 | ipv4Length/4
		binary.BigEndian.PutUint16(l3[2:], uint16(len(l3)))
		l3[8], l3[9] = 64, protocolUDP
		copy(l3[16:], r.to.Addr().AsSlice())
	}
	source := f.sourceAddress(b)
	copy(source, r.from.AsSlice())
	udp := l3[f.ip:]
	binary.BigEndian.PutUint16(udp[2:], r.to.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	for i := range f.burst {
		binary.BigEndian.PutUint64(udp[udpLength+i*f.payload:], session)
	}
	if w.MACs > 1 {
		copy(b[etherSource:], []byte{2, 0xc7, 0, 0, 0, 0}) // locally administered
	}
	if w.Sources > 1 {
		f.makeUp(source)
	}
	f.base = f.sumCovered(b)
	f.pseudo = sumWords(b[etherLength+f.ip-2*len(r.from.AsSlice()):etherLength+f.ip]) + protocolUDP + uint32(len(udp))
	return f, nil
}

// ManySources returns the IPv4 addresses that a workload with many sources sends from.
func ManySources() netip.Prefix { return netip.MustParsePrefix("198.18.0.0/15") }

// makeUp puts addresses for measurements in a frame (RFC 2544's 198.18.0.0/15, RFC
// 5180's 2001:2::/48).
func (f *frames) makeUp(source []byte) {
	if f.ip == ipv6Length {
		copy(source, netip.MustParseAddr("2001:2::").AsSlice())
		return
	}
	copy(source, ManySources().Addr().AsSlice())
}

// sourceAddress returns the frame's source address.
func (f *frames) sourceAddress(b []byte) []byte {
	if f.ip == ipv6Length {
		return b[etherLength+8 : etherLength+24]
	}
	return b[etherLength+12 : etherLength+16]
}

// sumCovered returns the sum of the words that the frame's checksum covers: IPv4's header, or
// what UDP over IPv6 must have (RFC 8200, section 8.1). UDP over IPv4 needs none.
func (f *frames) sumCovered(b []byte) (sum uint32) {
	covered := b[etherLength : etherLength+ipv4Length]
	if f.ip == ipv6Length {
		covered = b[etherLength+8:] // the addresses, and all after the header
		sum = protocolUDP + uint32(len(b)-etherLength-ipv6Length)
	}
	return sum + sumWords(covered)
}

// sumWords returns the sum of b's 16-bit words.
func sumWords(b []byte) (sum uint32) {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	return sum
}

// putFrame makes b, which holds the template or another of the frames, frame i.
func (f *frames) putFrame(b []byte, i uint64) {
	sum, pseudo := f.base, f.pseudo
	if f.macs > 1 {
		binary.BigEndian.PutUint32(b[etherSource+2:], uint32(i%f.macs))
	}
	if f.sources > 1 {
		source := f.sourceAddress(b)
		number := uint16(i % f.sources)
		binary.BigEndian.PutUint16(source[len(source)-2:], number)
		sum += uint32(number)
		pseudo += uint32(number)
	}
	port := uint16(firstPort + i%f.flows)
	udp := b[etherLength+f.ip:]
	binary.BigEndian.PutUint16(udp, port)
	if f.ip == ipv4Length {
		binary.BigEndian.PutUint16(b[etherLength+10:], ^foldSum(sum))
	}
	switch {
	case f.burst > 1: // the kernel makes each frame's sum from it (virtio 1.2, section 5.1.6.2)
		binary.BigEndian.PutUint16(udp[6:], foldSum(pseudo))
	case f.ip == ipv6Length:
		checksum := ^foldSum(sum + uint32(port))
		if checksum == 0 { // 0 means no checksum
			checksum = 0xffff
		}
		binary.BigEndian.PutUint16(udp[6:], checksum)
	}
}

// foldSum returns the ones' complement sum (RFC 1071).
func foldSum(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
