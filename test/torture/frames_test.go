package torture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/vf"
)

var broadcast = vf.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// arpLength is the length of an Ethernet header and an ARP message.
const arpLength = 42

// newARP returns a frame with a request for the MAC address of target.
func newARP(source, sender vf.MAC, from, target netip.Addr) []byte {
	f := slices.Concat(broadcast[:], source[:], []byte{0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1}, sender[:], from.AsSlice(), make([]byte, 6), target.AsSlice())
	return append(f, make([]byte, 18)...) // padding to the minimum length of a frame
}

// newIPv4 returns a frame with a UDP datagram of a few bytes.
func newIPv4(source vf.MAC, from, to netip.Addr) []byte {
	header := slices.Concat([]byte{0x45, 0, 0, 46, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}, from.AsSlice(), to.AsSlice())
	var sum uint32
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(header[10:], ^uint16(sum))
	return slices.Concat(broadcast[:], source[:], []byte{0x08, 0x00}, header, []byte{0, 9, 0, 9, 0, 26, 0, 0}, make([]byte, 18))
}

// networkOrder returns a number whose bytes in memory are in network order, as the sockets
// of linux/if_packet.h expect it.
func networkOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// sendFrames sends frames by a packet socket at an interface of a netns.
func sendFrames(t *testing.T, path, name string, frames ...[]byte) {
	t.Helper()
	err := netns.Run(path, func() error {
		link, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, f := range frames {
			err := unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: link.Index})
			if err != nil && !errors.Is(err, unix.ENOBUFS) { // ENOBUFS: a hook dropped the frame
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// listener is a packet socket at a netdevice of the host.
type listener int

func listenAt(t *testing.T, name string) listener {
	t.Helper()
	link, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(networkOrder(unix.ETH_P_ALL)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	most := unix.NsecToTimeval(time.Minute.Nanoseconds())
	err = errors.Join(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: link.Index}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &most))
	if err != nil {
		t.Fatal(err)
	}
	return listener(fd)
}

// seesBefore reports whether frame arrives before mark. It fails the test if mark does not
// arrive.
func (l listener) seesBefore(t *testing.T, frame, mark []byte) bool {
	t.Helper()
	got, seen := make([]byte, 4096), false
	for {
		n, err := unix.Read(int(l), got)
		if err != nil {
			t.Fatalf("wait for a frame that may pass: %v", err)
		}
		if bytes.HasPrefix(got[:n], mark) {
			return seen
		}
		seen = seen || bytes.HasPrefix(got[:n], frame)
	}
}

// drain reads all frames that have arrived, and reports whether one of them starts with
// beginning.
func (l listener) drain(beginning []byte) (seen bool) {
	got := make([]byte, 4096)
	for {
		n, _, err := unix.Recvfrom(int(l), got, unix.MSG_DONTWAIT)
		if err != nil {
			return seen
		}
		seen = seen || bytes.HasPrefix(got[:n], beginning)
	}
}
