package guard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/vf"
)

// world is a pod and a neighbour on one wire, each with an end of a pair of veth in its own
// network namespace.
type world struct {
	t              testing.TB
	pod, neighbour string // network namespaces
	index          int    // of the pod's interface
	seen           int    // a packet socket of the neighbour
	xdp            *xdpSocket
	packets        map[[2]bool]int // packet sockets of the pod, see packetSocket
	serial         byte
}

// The pod's interface and addresses, and those of the neighbour.
const device = "net1"

var (
	podMAC   = vf.MAC{0x52, 0x54, 0, 0, 0, 1}
	otherMAC = vf.MAC{0x52, 0x54, 0, 0, 0, 9}
	podPCI   = vf.PCIAddr{Bus: 1, Device: 0x10}
)

// limit bounds the wait for a frame that must arrive.
const limit = 30 * time.Second

func newWorld(t testing.TB) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	w := &world{t: t, pod: filepath.Join(t.TempDir(), "pod"), neighbour: filepath.Join(t.TempDir(), "neighbour"), packets: map[[2]bool]int{}}
	for _, path := range []string{w.pod, w.neighbour} {
		if err := netns.New(path); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := netns.Delete(path); err != nil {
				t.Error(err)
			}
		})
	}
	w.joinVeth()
	w.run(w.neighbour, func() error {
		link, err := netlink.LinkByName(device)
		if err == nil {
			w.seen, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		}
		if err != nil {
			return err
		}
		most := unix.NsecToTimeval(limit.Nanoseconds())
		return errors.Join(unix.Bind(w.seen, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: link.Attrs().Index}),
			unix.SetsockoptTimeval(w.seen, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &most))
	})
	t.Cleanup(func() { _ = unix.Close(w.seen) })
	w.run(w.pod, func() (err error) {
		if w.xdp, err = openXDP(w.index); err != nil {
			return lackError{err}
		}
		return nil
	})
	t.Cleanup(w.xdp.close)
	t.Cleanup(func() {
		for _, fd := range w.packets {
			_ = unix.Close(fd)
		}
	})
	return w
}

// joinVeth makes the pair of veth.
func (w *world) joinVeth() {
	f, err := netns.Open(w.neighbour)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	w.run(w.pod, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr, attrs.MTU = device, net.HardwareAddr(podMAC[:]), 1500
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: device, PeerHardwareAddr: net.HardwareAddr(otherMAC[:]), PeerNamespace: netlink.NsFd(f.Fd())})
		if err != nil {
			return lackError{fmt.Errorf("make a pair of veth: %w", err)}
		}
		return nil
	})
	for path, mac := range map[string]vf.MAC{w.pod: podMAC, w.neighbour: otherMAC} {
		w.run(path, func() error {
			link, err := netlink.LinkByName(device)
			if err != nil {
				return err
			}
			if path == w.pod {
				w.index = link.Attrs().Index
			}
			return errors.Join(netlink.LinkSetHardwareAddr(link, net.HardwareAddr(mac[:])), netlink.LinkSetUp(link))
		})
	}
}

// lackError says that the kernel lacks something that a test needs.
type lackError struct{ error }

// run calls fn in a network namespace, on one processor: frames that it sends arrive in order. It
// skips the test if fn returns a lackError, but not in a fast node of the lab, whose kernel has
// everything that a test needs. fn runs on a thread of its own, so it must not end the test itself.
func (w *world) run(path string, fn func() error) {
	w.t.Helper()
	err := netns.Run(path, func() error {
		var one unix.CPUSet
		one.Set(0)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			return err
		}
		return fn()
	})
	var lacks lackError
	if errors.As(err, &lacks) && os.Getenv("CULVERT_LAB_NODE") == "" {
		w.t.Skip(lacks)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// setGuard sets a guard at the pod's interface.
func (w *world) setGuard(g vf.Guard) {
	w.t.Helper()
	w.run(w.pod, func() error {
		err := Tables{}.Set(podPCI, device, g)
		if errors.Is(err, vf.ErrUnable) {
			return lackError{err}
		}
		return err
	})
}

// passes sends a frame and reports whether the neighbour gets it.
func (w *world) passes(send func(w *world, frame []byte) error, frame []byte) bool {
	w.t.Helper()
	return w.passesBy([]sender{{send: send}}, frame)
}

// passesBy sends a frame in several ways and reports whether the neighbour gets it by one. A mark follows the frame, so
// that passesBy need not wait for a frame that never comes. The mark is sent by AF_XDP, which no
// hook sees.
func (w *world) passesBy(all []sender, frame []byte) bool {
	w.t.Helper()
	w.serial++
	mark := newFrame(podMAC, 0x88b5, w.serial)
	w.run(w.pod, func() error {
		for _, s := range all {
			if err := s.send(w, frame); err != nil {
				return err
			}
		}
		return w.xdp.send(mark)
	})
	got := make([]byte, 4096)
	passed := false
	for {
		n, err := unix.Read(w.seen, got)
		if err != nil {
			w.t.Fatalf("wait for the mark: %v", err)
		}
		if bytes.HasPrefix(got[:n], mark) {
			return passed
		}
		passed = passed || bytes.HasPrefix(got[:n], frame) || bytes.HasPrefix(got[:n], withoutTag(frame))
	}
}

// withoutTag returns a frame as a packet socket gets it: the kernel takes a VLAN tag out.
func withoutTag(frame []byte) []byte {
	if kind := binary.BigEndian.Uint16(frame[atEtherType:]); kind != unix.ETH_P_8021Q && kind != unix.ETH_P_8021AD {
		return frame
	}
	return slices.Concat(frame[:atEtherType], frame[atEtherType+4:])
}
