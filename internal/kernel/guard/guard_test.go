package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

func guardOf(mode vf.GuardMode) vf.Guard {
	return vf.Guard{Mode: mode, MAC: podMAC, Addresses: []netip.Addr{netip.MustParseAddr("172.16.91.5"), netip.MustParseAddr("172.16.92.5"), netip.MustParseAddr("fd00::5")}}
}

// ownLocal is the pod's link-local address.
const ownLocal = "fe80::5054:ff:fe00:1"

// verdict is the expected fate of a frame under each mode.
type verdict struct {
	name    string
	frame   []byte
	arp, ip bool        // passes
	key     vf.GuardKey // that lets the frame pass in each mode
}

// passes reports whether a frame passes a guard.
func (v verdict) passes(g vf.Guard) bool {
	return g.Mode == vf.GuardARP && v.arp || g.Mode == vf.GuardIP && v.ip || g.Allows(v.key)
}

func allFrames() []verdict {
	ownNS := newND(135, "fd00::9", 1, podMAC)
	hidden := func(next byte, message []byte) []byte { // behind an extension header of 8 bytes
		return append([]byte{58, 0, 1, 4, 0, 0, 0, 0}, message...)
	}
	fragment := func(next byte, offset uint16, rest ...byte) []byte {
		return slices.Concat([]byte{next, 0}, binary.BigEndian.AppendUint16(nil, offset|1), []byte{0, 0, 0, 1}, rest)
	}
	return append(framesOfRouters(), []verdict{
		{"own ARP", newARP(podMAC, podMAC, "172.16.91.5"), true, true, ""},
		{"second own address in ARP", newARPReply(podMAC, podMAC, "172.16.92.5"), true, true, ""},
		{"probe of the own address in ARP", newProbe("172.16.91.5"), true, true, ""},
		{"probe of a foreign address in ARP", newProbe("172.16.91.1"), false, false, ""},
		{"ARP reply from no address", newARPReply(podMAC, podMAC, "0.0.0.0"), false, false, ""},
		{"foreign address in ARP", newARP(podMAC, podMAC, "172.16.91.1"), false, false, ""},
		{"foreign address in an ARP reply", newARPReply(podMAC, podMAC, "172.16.91.1"), false, false, ""},
		{"foreign sender MAC in ARP", newARP(podMAC, otherMAC, "172.16.91.5"), false, false, ""},
		{"foreign source MAC", newARP(otherMAC, podMAC, "172.16.91.5"), false, false, ""},
		{"ARP of token ring", func() []byte { f := newARP(podMAC, podMAC, "172.16.91.5"); f[15] = 6; return f }(), false, false, ""},
		{"own IPv4", newIPv4(podMAC, "172.16.91.5"), true, true, ""},
		{"foreign IPv4", newIPv4(podMAC, "172.16.91.1"), true, false, ""},
		{"IPv4 from no address", newIPv4(podMAC, "0.0.0.0"), true, false, ""},
		{"own IPv4 from a foreign MAC", newIPv4(otherMAC, "172.16.91.5"), false, false, ""},
		{"own IPv6", newIPv6(podMAC, "fd00::5", 17, 0, 9, 0, 9, 0, 8, 0, 0), true, true, ""},
		{"own link-local IPv6", newIPv6(podMAC, ownLocal, 17, 0, 9, 0, 9, 0, 8, 0, 0), true, true, ""},
		{"foreign IPv6", newIPv6(podMAC, "fd00::1", 17, 0, 9, 0, 9, 0, 8, 0, 0), true, false, ""},
		{"foreign link-local IPv6", newIPv6(podMAC, "fe80::1", 17, 0, 9, 0, 9, 0, 8, 0, 0), true, false, ""},
		{"UDP from ::", newIPv6(podMAC, "::", 17, 0, 9, 0, 9, 0, 8, 0, 0), true, false, ""},
		{"echo request", newIPv6(podMAC, "fd00::5", 58, newICMP(128)...), true, true, ""},
		{"error message", newIPv6(podMAC, "fd00::5", 58, newICMP(1)...), true, true, ""},

		{"own solicitation", newIPv6(podMAC, "fd00::5", 58, ownNS...), true, true, ""},
		{"own solicitation without an option", newIPv6(podMAC, ownLocal, 58, newND(135, "fd00::9", 0, vf.MAC{})...), true, true, ""},
		{"solicitation with a foreign MAC", newIPv6(podMAC, "fd00::5", 58, newND(135, "fd00::9", 1, otherMAC)...), false, false, ""},
		{"solicitation from a foreign address", newIPv6(podMAC, "fd00::1", 58, ownNS...), false, false, ""},
		{"detection of the own address", newIPv6(podMAC, "::", 58, newND(135, "fd00::5", 0, vf.MAC{})...), true, true, ""},
		{"detection with a nonce", newIPv6(podMAC, "::", 58, newND(135, ownLocal, 14, otherMAC)...), true, true, ""},
		{"detection of a foreign address", newIPv6(podMAC, "::", 58, newND(135, "fd00::1", 0, vf.MAC{})...), false, false, ""},
		{"own advertisement", newIPv6(podMAC, "fd00::5", 58, newND(136, "fd00::5", 2, podMAC)...), true, true, ""},
		{"advertisement of the own link-local address", newIPv6(podMAC, "fd00::5", 58, newND(136, ownLocal, 0, vf.MAC{})...), true, true, ""},
		{"advertisement of a foreign address", newIPv6(podMAC, "fd00::5", 58, newND(136, "fd00::1", 2, podMAC)...), false, false, ""},
		{"advertisement with a foreign MAC", newIPv6(podMAC, "fd00::5", 58, newND(136, "fd00::5", 2, otherMAC)...), false, false, ""},
		{"advertisement with a second option", newIPv6(podMAC, "fd00::5", 58, append(newND(136, "fd00::5", 2, podMAC), 2, 1, 1, 2, 3, 4, 5, 6)...), false, false, ""},
		{"advertisement behind destination options", newIPv6(podMAC, "fd00::5", 60, hidden(58, newND(136, "fd00::1", 2, podMAC))...), false, false, ""},
		{"advertisement behind hop-by-hop options", newIPv6(podMAC, "fd00::5", 0, hidden(58, newND(136, "fd00::1", 2, podMAC))...), false, false, ""},
		{"advertisement in a fragment", newIPv6(podMAC, "fd00::5", 44, fragment(58, 0, newND(136, "fd00::1", 2, podMAC)...)...), false, false, ""},
		{"destination options in a fragment", newIPv6(podMAC, "fd00::5", 44, fragment(60, 0, hidden(58, newND(136, "fd00::1", 2, podMAC))...)...), false, false, ""},
		{"first fragment of an echo request", newIPv6(podMAC, "fd00::5", 44, fragment(58, 0, newICMP(128)...)...), true, true, ""},
		{"later fragment of an echo request", newIPv6(podMAC, "fd00::5", 44, fragment(58, 1448, newICMP(136)...)...), true, true, ""},
		{"fragment of UDP", newIPv6(podMAC, "fd00::5", 44, fragment(17, 0, 0, 9, 0, 9, 0, 8, 0, 0)...), true, true, ""},
		{"report of a multicast listener", newIPv6(podMAC, "::", 0, append([]byte{58, 0, 5, 2, 0, 0, 1, 0}, newICMP(143)...)...), true, true, ""},
		{"router solicitation", newIPv6(podMAC, ownLocal, 58, append(newICMP(133), append([]byte{1, 1}, podMAC[:]...)...)...), true, true, ""},
		{"router solicitation with a foreign MAC", newIPv6(podMAC, ownLocal, 58, append(newICMP(133), append([]byte{1, 1}, otherMAC[:]...)...)...), false, false, ""},
		{"router solicitation from ::", newIPv6(podMAC, "::", 58, newICMP(133)...), true, true, ""},
		{"router advertisement", newIPv6(podMAC, ownLocal, 58, append(newICMP(134), make([]byte, 8)...)...), false, false, vf.AllowRouter},
		{"redirect", newIPv6(podMAC, "fd00::5", 58, append(newICMP(137), make([]byte, 32)...)...), false, false, vf.AllowRouter},

		{"ARP in a VLAN", newFrame(podMAC, 0x8100, append([]byte{0, 0}, newARP(podMAC, podMAC, "172.16.91.1")[12:]...)...), false, false, ""},
		{"ARP in an 802.1ad VLAN", newFrame(podMAC, 0x88a8, append([]byte{0, 0}, newARP(podMAC, podMAC, "172.16.91.1")[12:]...)...), false, false, ""},
		{"IEEE 802.2", newFrame(podMAC, 38, 0xaa, 0xaa, 3, 0, 0, 0, 8, 6), false, false, ""},
		{"router advertisement from a foreign address", newIPv6(podMAC, "fe80::1", 58, append(newICMP(134), make([]byte, 8)...)...), false, false, ""},
		{"another protocol", newFrame(podMAC, 0x88f7), true, false, ""},
		{"a short IPv4 packet", newFrame(podMAC, 0x0800)[:14], true, false, ""},
	}...)
}

// P12, R4: of the frames that a pod with NET_RAW can make, each mode lets the frames pass that name
// the pod's own addresses, and that are no message of a router or a switch. A key of guardAllow lets
// its own messages pass. The guard holds against packet sockets with every option except one
// (TestChecksumPasses), whatever EtherType the sender claims.
func TestFrames(t *testing.T) {
	for _, mode := range []vf.GuardMode{vf.GuardARP, vf.GuardIP} {
		for _, allow := range [][]vf.GuardKey{nil, vf.GuardKeys()} {
			w := newWorld(t)
			g := guardOf(mode)
			g.Allow = allow
			w.setGuard(g)
			for _, f := range allFrames() {
				want := f.passes(g)
				for _, s := range allSenders()[:2] {
					if got := w.passes(s.send, f.frame); got != want {
						t.Errorf("guard %s, %s: %s passes: %t", vf.GuardName(mode, allow), s.name, f.name, got)
					}
				}
				if !want && w.passesBy(claimingSenders(), f.frame) {
					t.Errorf("guard %s: %s passes if the sender claims another EtherType", vf.GuardName(mode, allow), f.name)
				}
			}
		}
	}
}

// claimingSenders are packet sockets whose sender says that the frame has another EtherType.
func claimingSenders() (out []sender) {
	for _, bypass := range []bool{false, true} {
		for _, protocol := range []uint16{0x0800, 0x86dd, 0x0806, 0x88b5, unix.ETH_P_ALL} {
			o := packetOptions{bypass: bypass, protocol: protocol}
			out = append(out, sender{send: func(w *world, frame []byte) error { return sendPacket(w, frame, o) }})
		}
	}
	return out
}

// Each key of guardAllow lets its own messages pass, and those of no other key.
func TestGuardKeys(t *testing.T) {
	for i, key := range vf.GuardKeys() {
		w := newWorld(t)
		g := guardOf([]vf.GuardMode{vf.GuardARP, vf.GuardIP}[i%2])
		g.Allow = []vf.GuardKey{key}
		w.setGuard(g)
		own := 0
		for _, f := range allFrames() {
			if f.key == "" {
				continue
			}
			if f.key == key {
				own++
			}
			if got := w.passes(allSenders()[0].send, f.frame); got != (f.key == key) {
				t.Errorf("guard %s: %s passes: %t", vf.GuardName(g.Mode, g.Allow), f.name, got)
			}
		}
		if own == 0 {
			t.Errorf("no frame of key %s", key)
		}
	}
}

// A guard is not enforced in a pod with NET_RAW, since AF_XDP passes by it.
func TestXDPPasses(t *testing.T) {
	w := newWorld(t)
	w.setGuard(guardOf(vf.GuardIP))
	if !w.passes(allSenders()[2].send, newARP(podMAC, podMAC, "172.16.91.1")) {
		t.Error("AF_XDP does not pass by the guard: the documents and vf.Guard's verdict may say so")
	}
}

// A packet socket may have the kernel write a checksum into the frame after the hook, at any
// offset: in this test over the last two bytes of the sender address in ARP. This is the second
// reason why a guard is not enforced in a pod with NET_RAW.
func TestChecksumPasses(t *testing.T) {
	w := newWorld(t)
	w.setGuard(guardOf(vf.GuardIP))
	const flagNeedsChecksum, lastOfSender = 1, 30
	frame := newARP(podMAC, podMAC, "172.16.91.5")
	vnet := []byte{flagNeedsChecksum, 0, 0, 0, 0, 0}
	vnet = binary.NativeEndian.AppendUint16(vnet, lastOfSender)
	vnet = append(vnet, 0, 0) // the offset of the checksum
	spoofed := slices.Clone(frame)
	sum := uint32(0)
	for i := lastOfSender; i < len(frame); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(frame[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(spoofed[lastOfSender:], ^uint16(sum))
	w.run(w.pod, withoutOffload)
	seen := w.passes(func(w *world, _ []byte) error { return sendPacket(w, frame, packetOptions{vnet: vnet}) }, spoofed)
	if !seen {
		t.Errorf("no frame with ARP sender % x arrives: the documents may say that a packet socket's checksum cannot change it", spoofed[28:32])
	}
}

// withoutOffload has the kernel write checksums. A NIC does that for TCP and UDP alone, and veth
// for no frame.
func withoutOffload() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := [2]uint32{unix.ETHTOOL_STXCSUM, 0} // struct ethtool_value
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:], device)
	request.data = unsafe.Pointer(&value)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// A process without NET_RAW has none of the senders, so a guard is enforced in its pod.
func TestWithoutRaw(t *testing.T) {
	w := newWorld(t)
	w.setGuard(guardOf(vf.GuardIP))
	w.run(w.pod, func() error {
		return withoutRaw(t, func() error {
			for _, family := range []int{unix.AF_PACKET, unix.AF_XDP} {
				if fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); !errors.Is(err, unix.EPERM) {
					t.Errorf("a socket of family %d opens: %d, %v", family, fd, err)
				}
			}
			for _, err := range []error{Tables{}.Set(podPCI, device, guardOf(vf.GuardIP)), Tables{}.Remove(podPCI)} {
				if !errors.Is(err, unix.EPERM) {
					t.Errorf("change of a guard: %v", err)
				}
			}
			return nil
		})
	})
}

// TestSetReadRemove: Read returns what Set wrote, a second Set replaces it, each change from
// outside shows, and Remove leaves nothing.
func TestSetReadRemove(t *testing.T) {
	w := newWorld(t)
	want := guardOf(vf.GuardARP)
	w.setGuard(want)
	read := func() (g vf.Guard) {
		t.Helper()
		w.run(w.pod, func() (err error) { g, err = Tables{}.Read(podPCI); return err })
		return g
	}
	if got := read(); got.String() != want.String() {
		t.Errorf("read %s, not %s", got, want)
	}
	want = guardOf(vf.GuardIP)
	w.setGuard(want)
	if got := read(); got.String() != want.String() {
		t.Errorf("read %s, not %s, after a change", got, want)
	}
	const long, short = "fd12:3456:789a:bcde:f012:3456:789a:%x", "fd00::%x"
	many := func(count int, format string) vf.Guard {
		g := guardOf(vf.GuardIP)
		for i := range count {
			g.Addresses = append(g.Addresses, netip.MustParseAddr(fmt.Sprintf(format, 0x10+i)))
		}
		return g
	}
	for _, g := range []vf.Guard{many(4, long), many(5, long), many(6, long), many(7, long), many(66, long), many(250, short)} {
		w.setGuard(g)
		if got := read(); got.String() != g.String() {
			t.Errorf("read %s of a guard with %d addresses, not %s", got, len(g.Addresses), g)
		}
	}
	w.run(w.pod, func() error {
		if err := (Tables{}).Set(podPCI, device, many(72, long)); !errors.Is(err, vf.ErrUnable) || !strings.Contains(err.Error(), "fewer addresses") {
			t.Errorf("a guard that is too long: %v", err)
		}
		return nil
	})
	w.setGuard(want)
	for _, c := range chainsOf(want) {
		for name, change := range map[string]func(*nftables.Conn, *nftables.Table){
			"flushed": func(n *nftables.Conn, table *nftables.Table) {
				n.FlushChain(&nftables.Chain{Name: c.name, Table: table})
			},
			"with a rule more": func(n *nftables.Conn, table *nftables.Table) {
				n.InsertRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: c.name, Table: table}, Exprs: newRule(accept)})
			},
		} {
			w.run(w.pod, func() error {
				n, err := nftables.New()
				if err == nil {
					change(n, tableOf(podPCI))
					err = n.Flush()
				}
				return err
			})
			if got := read(); !got.Altered {
				t.Errorf("chain %s %s: read %s", c.name, name, got)
			}
			w.setGuard(want)
		}
	}
	policy := nftables.ChainPolicyAccept
	w.run(w.pod, func() error {
		n, err := nftables.New()
		if err == nil {
			n.AddChain(&nftables.Chain{Name: baseChain, Table: tableOf(podPCI), Policy: &policy})
			err = n.Flush()
		}
		return err
	})
	if got := read(); !got.Altered {
		t.Errorf("with policy accept: read %s", got)
	}
	for range 2 { // the second has nothing to remove
		w.run(w.pod, func() error { return Tables{}.Remove(podPCI) })
		if got := read(); got.String() != "none" {
			t.Errorf("read %s after Remove", got)
		}
	}
}
