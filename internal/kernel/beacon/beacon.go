// Package beacon sends small Ethernet frames to all stations of a segment, and receives the frames
// of other stations. The frames have an EtherType that IEEE 802 reserves for local experiments, and
// a multicast address of Culvert's own. Switches forward that address, and hosts without Culvert do
// not receive it. A Socket is bound to one netdevice. A filter in the kernel drops all other
// frames, and tagged ones, before the kernel queues them. The queue is bounded, so a flood costs
// the program a bounded number of reads.
package beacon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// etherType is Local Experimental EtherType 1 (IEEE 802-2014, 9.2.4).
const etherType = 0x88b5

// group is a locally administered group address.
var group = vf.MAC{0x03, 'c', 'u', 'l', 'v', 0x01}

// Sizes in bytes.
const (
	headerSize = 14
	leastFrame = 60 // without the checksum
	mostFrame  = 128

	// queueSize bounds the received frames of a Socket, as the kernel counts them: by the memory that
	// each takes (skb->truesize). Drivers receive a small frame into 2 to 4 KiB.
	queueSize = queueFrames * 4 << 10
	// queueFrames is how many frames the queue holds at least.
	queueFrames = 512
	// leastTrueSize is less than the memory of any frame: an sk_buff and an skb_shared_info.
	leastTrueSize = 512
)

// Socket is a packet socket on one netdevice.
type Socket struct {
	fd    int
	index int
	mac   vf.MAC
}

// Open opens a socket on a netdevice of the program's netns. It needs CAP_NET_RAW and CAP_NET_ADMIN.
func Open(name string) (*Socket, error) {
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("netdevice %s: %w", name, err)
	}
	s := &Socket{index: dev.Index}
	if copy(s.mac[:], dev.HardwareAddr) != len(s.mac) || len(dev.HardwareAddr) != len(s.mac) {
		return nil, fmt.Errorf("netdevice %s: %w: it has no Ethernet address", name, vf.ErrInvalid)
	}
	// Protocol 0: nothing is received before the filter is there.
	if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	if err := s.bind(); err != nil {
		return nil, errors.Join(fmt.Errorf("packet socket on %s: %w", name, err), s.Close())
	}
	return s, nil
}

func (s *Socket) bind() error {
	program := filter()
	if err := unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}); err != nil {
		return fmt.Errorf("attach a filter: %w", err)
	}
	// SO_RCVBUF would end at net.core.rmem_max. The kernel doubles the value.
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queueSize/2); err != nil {
		return fmt.Errorf("bound the queue: %w", err)
	}
	_ = unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1) // since Linux 4.20; Receive drops them, too
	member := unix.PacketMreq{Ifindex: int32(s.index), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(group))}
	copy(member.Address[:], group[:])
	if err := unix.SetsockoptPacketMreq(s.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &member); err != nil {
		return fmt.Errorf("join the group address: %w", err)
	}
	if err := unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: networkOrder(etherType), Ifindex: s.index}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// networkOrder returns a protocol in the byte order of sockaddr_ll.
func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// filter returns a program for the kernel that keeps the first mostFrame bytes of each untagged
// frame with the EtherType and the group address. It drops all other frames.
func filter() []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_ABS
		equals = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		tagged = 0xfffff000 + 48 // SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT
	)
	return []unix.SockFilter{
		{Code: load | unix.BPF_B, K: tagged},
		{Code: equals, K: 0, Jf: 7},
		{Code: load | unix.BPF_H, K: 12},
		{Code: equals, K: etherType, Jf: 5},
		{Code: load | unix.BPF_W, K: 0},
		{Code: equals, K: binary.BigEndian.Uint32(group[:4]), Jf: 3},
		{Code: load | unix.BPF_H, K: 4},
		{Code: equals, K: uint32(binary.BigEndian.Uint16(group[4:])), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: mostFrame},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}

// Send sends a payload of at most 46 bytes to all stations of the segment.
func (s *Socket) Send(payload []byte) error {
	frame := append(append(make([]byte, 0, leastFrame), group[:]...), s.mac[:]...)
	frame = append(binary.BigEndian.AppendUint16(frame, etherType), payload...)
	frame = append(frame, make([]byte, max(0, leastFrame-len(frame)))...)
	to := &unix.SockaddrLinklayer{Protocol: networkOrder(etherType), Ifindex: s.index, Halen: uint8(len(group))}
	copy(to.Addr[:], group[:])
	if err := unix.Sendto(s.fd, frame, unix.MSG_DONTWAIT, to); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}

// Receive returns the payloads of at most n frames that arrived since the last call, and drops the
// rest. more is true if it, or the kernel, dropped any. It reads at most as many frames as the
// queue holds.
func (s *Socket) Receive(n int) (payloads [][]byte, more bool, err error) {
	buf := make([]byte, mostFrame)
	for i := range queueSize / leastTrueSize {
		size, from, err := unix.Recvfrom(s.fd, buf, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return payloads, s.hasDropped() || i > n, nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return payloads, false, fmt.Errorf("receive frames: %w", err)
		}
		if at, ok := from.(*unix.SockaddrLinklayer); ok && at.Pkttype == unix.PACKET_OUTGOING || size < headerSize || i >= n {
			continue
		}
		payloads = append(payloads, append([]byte(nil), buf[headerSize:size]...))
	}
	s.hasDropped() // the next call does not report these drops again
	return payloads, true, nil
}

// hasDropped reports whether the kernel has dropped frames since the last call because the queue
// was full. Each call resets the kernel's count.
func (s *Socket) hasDropped() bool {
	stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	return err == nil && stats.Drops > 0
}

// Close closes the socket.
func (s *Socket) Close() error { return unix.Close(s.fd) }
