package engine

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	classic "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/bpf"
)

// foreign changes a frame of a session into one of other traffic that keeps the session's bytes
// at their place.
type foreign struct {
	name   string
	change func(b []byte) []byte
}

// foreignFrames are of IPv4 or IPv6.
func foreignFrames(v6 bool) []foreign {
	set := func(at int, value ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			copy(b[at:], value)
			return b
		}
	}
	l4, next := etherLength+ipv4Length, etherLength+9
	if v6 {
		l4, next = etherLength+ipv6Length, etherLength+6
	}
	all := []foreign{
		{"TCP's first segment", func(b []byte) []byte {
			b[next] = protocolTCP
			b[l4+13] = 2 // SYN: in the session, which the test chooses so
			return b
		}},
		{"ICMP", set(next, 1)},
		{"another port", set(l4+2, 0, 22)},
		{"another address", func(b []byte) []byte { b[l4-1]++; return b }},
		{"another network's address", func(b []byte) []byte { b[l4-4]++; return b }},
		{"ARP", set(etherLength-2, 0x08, 0x06)},
		{"the other IP by its EtherType", set(etherLength-2, map[bool][]byte{false: {0x86, 0xdd}, true: {0x08, 0x00}}[v6]...)},
		{"a VLAN's EtherType", set(etherLength-2, 0x81, 0x00)},
		{"a frame of a VLAN", func(b []byte) []byte { return slices.Insert(b, etherLength-2, 0x81, 0, 0, 5) }},
		{"another session", func(b []byte) []byte { b[sessionAt(v6)+7]++; return b }},
		{"another IP version", func(b []byte) []byte { b[etherLength] ^= 0x20; return b }},
		{"a frame that ends in its session", func(b []byte) []byte { return b[:sessionAt(v6)+7] }},
	}
	if v6 {
		return append(all, foreign{"a fragment", set(next, 44)})
	}
	return append(all,
		foreign{"IP options", set(etherLength, 0x46)},
		foreign{"a first fragment", set(etherLength+6, 0x20)},
		foreign{"a later fragment", set(etherLength+7, 1)})
}

// sessionOfSYN has TCP's flag SYN where TCP has its flags.
const sessionOfSYN = 0xffff_ffff_ff02_ffff

// TestDiscardMatchesExactly has the kernel run the program that discards frames, and the
// interpreter the filter that counts them: the session's own frame is dropped and counted, every
// other one passes.
func TestDiscardMatchesExactly(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		r := wayTo(v6)
		f, err := newFrames(r, sessionOfSYN, bench.Workload{Size: 100, Flows: 1, Sources: 1, MACs: 1})
		if err != nil {
			t.Fatal(err)
		}
		f.putFrame(f.template, 0)
		a := arriving{r.to, sessionOfSYN}
		filter, err := classic.NewVM(a.matchFields())
		if err != nil {
			t.Fatal(err)
		}
		discards := loadDiscard(t, a)
		check := func(name string, frame []byte, own bool) {
			if n, err := filter.Run(frame); err != nil || (n > 0) != own {
				t.Errorf("IPv6 %t, %s: the filter counts %d, want %t: %v", v6, name, n, own, err)
			}
			if action := discards(frame); (action == bpf.Drop) != own || !own && action != bpf.Next {
				t.Errorf("IPv6 %t, %s: the program returns %d, want it dropped: %t", v6, name, action, own)
			}
		}
		check("the session's frame", f.template, true)
		for _, o := range foreignFrames(v6) {
			check(o.name, o.change(slices.Clone(f.template)), false)
		}
	}
}

// loadDiscard loads the program that discards, and returns a function that has the kernel run it on a frame
// (BPF_PROG_TEST_RUN).
func loadDiscard(t *testing.T, a arriving) func(frame []byte) bpf.Action {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: this test loads an eBPF program")
	}
	counter, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counter.Close() })
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: discardProgram(bpf.Counter(counter.FD()), a)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return func(frame []byte) bpf.Action {
		action, _, err := program.Test(frame)
		if err != nil {
			t.Fatal(err)
		}
		return bpf.Action(int32(action))
	}
}

// TestDiscardLeavesVLANs sends the session's frame with VLAN tags, which the kernel takes out before
// it counts: frames of another VLAN belong to another interface and are not counted; one with a
// priority alone is.
func TestDiscardLeavesVLANs(t *testing.T) {
	p := newPair(t)
	way := p.findWay(t)
	f, err := newFrames(way, 7, bench.Workload{Size: 60, Flows: 1})
	if err != nil {
		t.Fatal(err)
	}
	f.putFrame(f.template, 0)
	var counters []frameCounter
	p.runIn(t, 1, func() error {
		at, err := net.InterfaceByName(wire)
		if err != nil {
			return err
		}
		socket, err := countFrames(at.Index, arriving{way.to, 7})
		if err != nil {
			return err
		}
		counters = append(counters, socket)
		program, err := discardFrames(at.Index, arriving{way.to, 7})
		if errors.Is(err, ebpf.ErrNotSupported) { // before Linux 6.6
			return nil
		}
		counters = append(counters, program)
		return err
	})
	p.runIn(t, 0, func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, tag := range []uint16{5, 4095, 3 << 13, 3<<13 | 5} {
			b := slices.Insert(slices.Clone(f.template), etherLength-2, binary.BigEndian.AppendUint16([]byte{0x81, 0}, tag)...)
			if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: way.index}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range counters {
		n, err := c.countFrames()
		for end := time.Now().Add(30 * time.Second); n == 0 && err == nil && time.Now().Before(end); n, err = c.countFrames() {
			time.Sleep(time.Millisecond) // a busy kernel delivers later
		}
	}
	time.Sleep(300 * time.Millisecond) // as long as no other may come
	for i, c := range counters {
		if n, err := c.countFrames(); n != 1 || err != nil {
			t.Errorf("counter %d: %d frames, want the one without a VLAN: %v", i, n, err)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}
