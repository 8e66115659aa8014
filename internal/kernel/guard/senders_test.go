package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sender is a way to send a frame from the pod. It runs in the pod's network namespace.
type sender struct {
	name string
	send func(w *world, frame []byte) error
}

// allSenders are the ways by which a process with NET_RAW sends a frame of its choice.
func allSenders() []sender {
	return []sender{
		{"packet socket", func(w *world, frame []byte) error { return sendPacket(w, frame, packetOptions{}) }},
		{"packet socket with PACKET_QDISC_BYPASS", func(w *world, frame []byte) error {
			return sendPacket(w, frame, packetOptions{bypass: true})
		}},
		{"AF_XDP", func(w *world, frame []byte) error { return w.xdp.send(frame) }},
	}
}

// packetOptions are the options of a packet socket that change how the kernel takes its frames.
type packetOptions struct {
	bypass   bool
	protocol uint16 // that the sender says the frame has; 0 leaves it to the kernel
	vnet     []byte // struct virtio_net_hdr (linux/virtio_net.h)
}

// htons returns a number in network byte order, as the sockets of linux/if_packet.h have it.
func htons(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

func sendPacket(w *world, frame []byte, o packetOptions) error {
	fd, err := w.packetSocket(o)
	if err != nil {
		return err
	}
	frame = append(o.vnet, frame...)
	err = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: w.index, Protocol: htons(o.protocol)})
	if errors.Is(err, unix.ENOBUFS) { // a frame that a hook dropped
		err = nil
	}
	return err
}

// packetSocket returns a packet socket of the pod with the options, the same for each frame: the kernel
// takes some milliseconds to close one.
func (w *world) packetSocket(o packetOptions) (int, error) {
	key := [2]bool{o.bypass, o.vnet != nil}
	if fd, ok := w.packets[key]; ok {
		return fd, nil
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a packet socket: %w", err)
	}
	w.packets[key] = fd
	if o.bypass {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			return 0, fmt.Errorf("set PACKET_QDISC_BYPASS: %w", err)
		}
	}
	if o.vnet != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
			return 0, fmt.Errorf("set PACKET_VNET_HDR: %w", err)
		}
	}
	return fd, nil
}

// Layout of the memory that an AF_XDP socket shares with the kernel. The rings have room for all
// frames of a test, so that no test has to read which frames the kernel has sent.
const (
	chunkSize = 4096
	ringSize  = 1024
)

// xdpSocket sends at the first queue of an interface, without zero copy
// (Documentation/networking/af_xdp.rst).
type xdpSocket struct {
	fd         int
	area, ring []byte
	offsets    unix.XDPMmapOffsets
	sent       uint32
}

// openXDP opens an AF_XDP socket. Its queue takes no second one.
func openXDP(index int) (s *xdpSocket, err error) {
	s = &xdpSocket{}
	if s.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open an AF_XDP socket: %w", err)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.area, err = unix.Mmap(-1, 0, chunkSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return nil, fmt.Errorf("allocate a frame: %w", err)
	}
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&s.area[0]))), Len: uint64(len(s.area)), Size: chunkSize}
	if err = setXDP(s.fd, unix.XDP_UMEM_REG, unsafe.Pointer(&reg), unsafe.Sizeof(reg)); err != nil {
		return nil, fmt.Errorf("register the frame: %w", err)
	}
	for _, ring := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_TX_RING} {
		if err = unix.SetsockoptInt(s.fd, unix.SOL_XDP, ring, ringSize); err != nil {
			return nil, fmt.Errorf("make ring %d: %w", ring, err)
		}
	}
	size := uint32(unsafe.Sizeof(s.offsets))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&s.offsets)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return nil, fmt.Errorf("read the offsets of the rings: %w", errno)
	}
	s.ring, err = unix.Mmap(s.fd, unix.XDP_PGOFF_TX_RING, int(s.offsets.Tx.Desc)+ringSize*descriptor, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map the ring: %w", err)
	}
	if err = unix.Bind(s.fd, &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(index)}); err != nil {
		return nil, fmt.Errorf("bind an AF_XDP socket: %w", err)
	}
	return s, nil
}

const descriptor = 16 // struct xdp_desc

func (s *xdpSocket) close() {
	_ = unix.Munmap(s.ring)
	_ = unix.Close(s.fd)
	_ = unix.Munmap(s.area)
}

// send sends a frame. The kernel has copied it when send returns.
func (s *xdpSocket) send(frame []byte) error {
	copy(s.area, frame)
	at := int(s.offsets.Tx.Desc) + int(s.sent%ringSize)*descriptor
	binary.NativeEndian.PutUint64(s.ring[at:], 0)
	binary.NativeEndian.PutUint32(s.ring[at+8:], uint32(len(frame)))
	s.sent++
	binary.NativeEndian.PutUint32(s.ring[s.offsets.Tx.Producer:], s.sent)
	if err := unix.Sendto(s.fd, nil, unix.MSG_DONTWAIT, nil); err != nil {
		return fmt.Errorf("send by an AF_XDP socket: %w", err)
	}
	return nil
}

func setXDP(fd, option int, value unsafe.Pointer, size uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(value), size, 0); errno != 0 {
		return errno
	}
	return nil
}

// withoutRaw runs fn without NET_RAW and NET_ADMIN, as a container runs that drops them. The
// thread ends with the test's goroutine.
func withoutRaw(t *testing.T, fn func() error) error {
	t.Helper()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return err
	}
	before := have
	without := ^uint32(1<<unix.CAP_NET_RAW | 1<<unix.CAP_NET_ADMIN)
	have[0].Effective &= without
	if err := unix.Capset(&head, &have[0]); err != nil {
		return err
	}
	return errors.Join(fn(), unix.Capset(&head, &before[0]))
}
