package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
)

const (
	ringSlots = 1024
	// ringHeader is the offset, in a slot, of the data of a frame to send: TPACKET2_HDRLEN less
	// the struct sockaddr_ll in it (linux/if_packet.h).
	ringHeader = 32
	// virtioHeader is the length of struct virtio_net_hdr, and virtioLength where
	// its hdr_len is (linux/virtio_net.h).
	virtioHeader = 10
	virtioLength = 2
	// The other fields, and their values for a burst: virtioCut is VIRTIO_NET_HDR_GSO_UDP_L4.
	virtioSum    = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
	virtioKind   = 1
	virtioCut    = 5
	virtioSize   = 4
	virtioBegin  = 6
	virtioOffset = 8
	checksumAt   = 6 // in UDP's header
	// copied is how much of a frame the kernel copies. It refers to the pages of the rest, which
	// costs more for small frames. Measured over veth, 60 bytes: 0.9 to 1.2 million frames a CPU
	// second with it, 0.8 to 1.1 without, 0.5 to 0.67 by sendmmsg.
	copied = 256
	// moment is how long to wait if there is no room, in ns.
	moment = 20_000
)

// ring sends frames from memory that is shared with the kernel (PACKET_TX_RING,
// Documentation/networking/packet_mmap.rst), past the interface's queueing discipline.
type ring struct {
	fd     int
	name   string // of the interface
	memory []byte
	slot   int // bytes
	size   int // of what a slot holds, bytes
	next   int // slot to fill
	by     bench.Mechanism
}

// newRing opens a ring whose slots hold the template of f.
func newRing(r route, f *frames) (*ring, error) {
	template, direct := f.template, 1
	if f.burst > 1 {
		direct = 0 // the kernel does not cut on that way
		if err := checkCutting(r.name); err != nil {
			return nil, fmt.Errorf("burst %d: %w", f.burst, err)
		}
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w: run as root or give the program CAP_NET_RAW", err)
	}
	s := &ring{fd: fd, name: r.name, size: len(template), slot: 1 << bits.Len(uint(ringHeader+virtioHeader+len(template)-1))}
	block := max(s.slot, os.Getpagesize())
	shape := unix.TpacketReq{
		Block_size: uint32(block), Block_nr: uint32(ringSlots * s.slot / block),
		Frame_size: uint32(s.slot), Frame_nr: ringSlots,
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, direct),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_TX_RING, &shape),
		unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: r.index}),
	)
	if err == nil {
		s.memory, err = unix.Mmap(fd, 0, ringSlots*s.slot, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a ring of %d frames of %d bytes on %s: %w", ringSlots, s.size, r.name, err), s.close())
	}
	// Frames that a NIC has not sent yet count as buffered; the usual bound is some 200 frames.
	s.by.Name = byRing
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, ringSlots*max(s.slot, 2048)); err != nil {
		s.by = bench.Mechanism{Name: bySmallRing, Instead: fmt.Sprintf("raise SO_SNDBUF: %v: the agent has no CAP_NET_ADMIN", err)}
	}
	for i := range ringSlots {
		header := (*unix.Tpacket2Hdr)(unsafe.Pointer(&s.memory[i*s.slot]))
		header.Len = uint32(virtioHeader + s.size)
		virtio := s.memory[i*s.slot+ringHeader:]
		binary.NativeEndian.PutUint16(virtio[virtioLength:], uint16(min(s.size, copied)))
		if f.burst > 1 {
			virtio[0], virtio[virtioKind] = virtioSum, virtioCut
			binary.NativeEndian.PutUint16(virtio[virtioLength:], uint16(s.size))
			binary.NativeEndian.PutUint16(virtio[virtioSize:], uint16(f.payload))
			binary.NativeEndian.PutUint16(virtio[virtioBegin:], uint16(etherLength+f.ip))
			binary.NativeEndian.PutUint16(virtio[virtioOffset:], checksumAt)
		}
		copy(s.frameAt(i), template)
	}
	return s, nil
}

// checkCutting returns an error if the kernel does not cut bursts before an interface's driver has
// them. A driver that takes them whole cuts them later or, like veth, never.
func checkCutting(name string) error {
	const whole = "tx-udp-segmentation"
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("open ethtool's socket: %w", err)
	}
	defer tool.Close()
	features, err := tool.Features(name)
	if err != nil {
		return fmt.Errorf("see what %s offloads: %w", name, err)
	}
	if features[whole] {
		return fmt.Errorf("%s takes bursts whole (%s is on), so that what arrives may be one packet and not as many frames: ethtool -K %s %s off", name, whole, name, whole)
	}
	return nil
}

// The mechanisms by which a ring sends.
const (
	byRing      = "packet ring"
	bySmallRing = "packet ring with the usual buffer"
)

func (s *ring) close() error {
	var err error
	if s.memory != nil {
		err = unix.Munmap(s.memory)
	}
	return errors.Join(err, unix.Close(s.fd))
}

func (s *ring) frameAt(slot int) []byte {
	at := slot*s.slot + ringHeader + virtioHeader
	return s.memory[at : at+s.size : at+s.size]
}

// statusAt returns tp_status, the first field of a slot's header.
func (s *ring) statusAt(slot int) *uint32 {
	return (*uint32)(unsafe.Pointer(&s.memory[slot*s.slot]))
}

func (s *ring) countWaiting() (n uint64) {
	for i := range ringSlots {
		if atomic.LoadUint32(s.statusAt(i)) == unix.TP_STATUS_SEND_REQUEST {
			n++
		}
	}
	return n
}

func (s *ring) fillSlots(f *frames, n int, first, step uint64) int {
	for i := range n {
		if atomic.LoadUint32(s.statusAt(s.next)) != unix.TP_STATUS_AVAILABLE {
			return i
		}
		f.putFrame(s.frameAt(s.next), first+uint64(i)*step)
		atomic.StoreUint32(s.statusAt(s.next), unix.TP_STATUS_SEND_REQUEST)
		s.next = (s.next + 1) % ringSlots
	}
	return n
}

func (s *ring) sendFilled() error {
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0, unix.EINTR:
		return nil
	case unix.EAGAIN, unix.ENOBUFS:
		rest := unix.NsecToTimespec(moment)
		_ = unix.Nanosleep(&rest, nil) // a signal ends it early: that is no harm
		return nil
	}
	return fmt.Errorf("send frames of %d bytes on %s: %w: see whether it is up", s.size, s.name, errno)
}
