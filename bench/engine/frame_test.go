package engine

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/bench"
)

func wayTo(v6 bool) route {
	r := route{name: "eth0", mtu: 1500, from: netip.MustParseAddr("192.0.2.1"), to: netip.MustParseAddrPort("192.0.2.2:9")}
	copy(r.ether[:], []byte{2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0})
	if v6 {
		r.from, r.to = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddrPort("[2001:db8::2]:9")
		copy(r.ether[12:], []byte{0x86, 0xdd})
	}
	return r
}

// TestFrames checks every frame of a workload as a receiver does. The frames are written over one
// another as in a ring.
func TestFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v6 := rapid.Bool().Draw(t, "v6")
		session := rapid.Uint64().Draw(t, "session")
		w := bench.Workload{
			Size:  rapid.IntRange(LeastFrame(v6), 1514).Draw(t, "size"),
			Flows: rapid.IntRange(1, maxFlows).Draw(t, "flows"), Sources: rapid.IntRange(1, maxSpread).Draw(t, "sources"),
			MACs: rapid.IntRange(1, maxSpread).Draw(t, "MACs"),
		}
		f, err := newFrames(wayTo(v6), session, w)
		if err != nil {
			t.Fatal(err)
		}
		b := append([]byte(nil), f.template...)
		for _, i := range rapid.SliceOfN(rapid.Uint64Range(0, 1<<40), 1, 20).Draw(t, "frames") {
			f.putFrame(b, i)
			checkFrame(t, b, v6)
			at := sessionAt(v6)
			if got := binary.BigEndian.Uint64(b[at:]); got != session {
				t.Fatalf("session %x, want %x", got, session)
			}
			if port := binary.BigEndian.Uint16(b[etherLength+f.ip:]); uint64(port) != firstPort+i%uint64(w.Flows) {
				t.Errorf("frame %d of %d flows is from port %d", i, w.Flows, port)
			}
		}
	})
}

// TestBursts cuts bursts as the kernel does (__udp_gso_segment), and checks each frame.
func TestBursts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v6 := rapid.Bool().Draw(t, "v6")
		session := rapid.Uint64().Draw(t, "session")
		w := bench.Workload{
			Size:  rapid.IntRange(LeastFrame(v6), 1514).Draw(t, "size"),
			Burst: rapid.IntRange(2, 11).Draw(t, "burst"),
			Flows: rapid.IntRange(1, maxFlows).Draw(t, "flows"), Sources: rapid.IntRange(1, maxSpread).Draw(t, "sources"),
			MACs: rapid.IntRange(1, maxSpread).Draw(t, "MACs"),
		}
		f, err := newFrames(wayTo(v6), session, w)
		if err != nil {
			t.Fatal(err)
		}
		b := append([]byte(nil), f.template...)
		for _, i := range rapid.SliceOfN(rapid.Uint64Range(0, 1<<40), 1, 5).Draw(t, "bursts") {
			f.putFrame(b, i)
			headers := etherLength + f.ip + udpLength
			for rest := b[headers:]; len(rest) > 0; rest = rest[f.payload:] {
				cut := append(append([]byte(nil), b[:headers]...), rest[:f.payload]...)
				l3, udp := cut[etherLength:], cut[etherLength+f.ip:]
				whole := binary.BigEndian.Uint16(udp[4:])
				binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
				begun := uint32(binary.BigEndian.Uint16(udp[6:])) + uint32(^whole) + uint32(len(udp))
				binary.BigEndian.PutUint16(udp[6:], 0)
				binary.BigEndian.PutUint16(udp[6:], ^foldSum(begun+sumWords(udp)))
				checkUDP(t, cut, v6)
				if v6 {
					binary.BigEndian.PutUint16(l3[4:], uint16(len(udp)))
				} else {
					binary.BigEndian.PutUint16(l3[2:], uint16(len(l3)))
					binary.BigEndian.PutUint16(l3[10:], 0)
					binary.BigEndian.PutUint16(l3[10:], ^foldSum(sumWords(l3[:ipv4Length])))
				}
				checkFrame(t, cut, v6)
				if got := binary.BigEndian.Uint64(cut[sessionAt(v6):]); got != session || len(cut) != w.Size {
					t.Fatalf("%d bytes of session %x, want %d of %x", len(cut), got, w.Size, session)
				}
			}
		}
	})
}

// checkUDP checks UDP's checksum, which over IPv4 no other frame here has.
func checkUDP(t *rapid.T, b []byte, v6 bool) {
	addresses, udp := b[etherLength+12:etherLength+ipv4Length], b[etherLength+ipv4Length:]
	if v6 {
		addresses, udp = b[etherLength+8:etherLength+ipv6Length], b[etherLength+ipv6Length:]
	}
	if sum := foldSum(sumWords(addresses) + protocolUDP + uint32(len(udp)) + sumWords(udp)); sum != 0xffff {
		t.Fatalf("UDP's checksum is wrong: %x", b)
	}
}

func TestBurstsThatAreTooLong(t *testing.T) {
	_, err := newFrames(wayTo(false), 1, bench.Workload{Size: 1514, Burst: 12, Flows: 1})
	if err == nil || !strings.Contains(err.Error(), "want 1 to 11 for frames of 1514 bytes") {
		t.Error(err)
	}
}

// checkFrame checks lengths and checksums.
func checkFrame(t *rapid.T, b []byte, v6 bool) {
	l3 := b[etherLength:]
	pseudo := uint32(0)
	covered, udp := l3[:ipv4Length], l3[ipv4Length:]
	length := int(binary.BigEndian.Uint16(l3[2:]))
	if v6 {
		udp = l3[ipv6Length:]
		covered = l3[8:]
		pseudo = uint32(len(udp)) + protocolUDP
		length = int(binary.BigEndian.Uint16(l3[4:])) + ipv6Length
	}
	if length != len(l3) || int(binary.BigEndian.Uint16(udp[4:])) != len(udp) {
		t.Fatalf("lengths are wrong: %x", b)
	}
	if len(covered)%2 == 1 {
		covered = append(append([]byte(nil), covered...), 0)
	}
	for i := 0; i < len(covered); i += 2 {
		pseudo += uint32(binary.BigEndian.Uint16(covered[i:]))
	}
	if foldSum(pseudo) != 0xffff {
		t.Fatalf("the checksum is wrong: %x", b)
	}
}

func TestFramesAreSpread(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		f, err := newFrames(wayTo(v6), 1, bench.Workload{Size: 100, Flows: 5, Sources: 7, MACs: 3})
		if err != nil {
			t.Fatal(err)
		}
		ports, sources, macs := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for i := range uint64(5 * 7 * 3) {
			f.putFrame(f.template, i)
			ports[string(f.template[etherLength+f.ip:][:2])] = true
			sources[string(f.sourceAddress(f.template))] = true
			macs[string(f.template[etherSource:][:6])] = true
		}
		if len(ports) != 5 || len(sources) != 7 || len(macs) != 3 {
			t.Errorf("v6 %t: %d flows, %d sources, %d MACs, want 5, 7, 3", v6, len(ports), len(sources), len(macs))
		}
	}
}
