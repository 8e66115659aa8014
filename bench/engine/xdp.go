package engine

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
)

// xdp sends frames by an AF_XDP socket (Documentation/networking/af_xdp.rst), from memory
// that is shared with the kernel and by one of the interface's queues.
//
// The socket is bound in copy mode, which all drivers have. Zero copy is never asked
// for: a driver that has it takes the queue from the kernel in both directions, and with it
// the connection by which both ends of a measurement talk.
type xdp struct {
	fd     int
	name   string // of the interface
	size   int    // of a frame, bytes
	memory []byte // of the frames, a chunk each
	free   []uint64
	tx     xdpRing // of frames that are to be sent
	done   xdpRing // of the chunks whose frames are sent
	empty  []byte  // the ring of chunks to receive into, which must be there
}

// xdpRing is a ring that one side fills and the other empties.
type xdpRing struct {
	memory             []byte
	producer, consumer *uint32
	entries            unsafe.Pointer
}

// xdpFills is the size of the fill ring, through which this socket receives nothing.
const xdpFills = 64

// newXDP opens a socket that sends the template of f by a queue.
func newXDP(r route, f *frames, queue int) (*xdp, error) {
	chunk := 2048
	if len(f.template) > chunk {
		chunk = os.Getpagesize()
	}
	if len(f.template) > chunk {
		return nil, fmt.Errorf("size %d of a frame: want no more than %d bytes with AF_XDP", len(f.template), chunk)
	}
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		next := "run as root or give the program CAP_NET_RAW"
		if errors.Is(err, unix.EAFNOSUPPORT) {
			next = "this kernel has none (CONFIG_XDP_SOCKETS): leave AF_XDP out"
		}
		return nil, fmt.Errorf("open an AF_XDP socket: %w: %s", err, next)
	}
	x := &xdp{fd: fd, name: r.name, size: len(f.template)}
	if err := x.openRings(chunk); err != nil {
		return nil, errors.Join(fmt.Errorf("make the rings of an AF_XDP socket on %s: %w: see ulimit -l, which bounds memory that is locked", r.name, err), x.close())
	}
	if err := x.bindQueue(r.index, queue); err != nil {
		return nil, errors.Join(err, x.close())
	}
	for i := range ringSlots {
		at := uint64(i * chunk)
		copy(x.memory[at:], f.template)
		x.free = append(x.free, at)
	}
	return x, nil
}

func (*xdp) nameMechanism() bench.Mechanism { return bench.Mechanism{Name: "AF_XDP, copy mode"} }

// openRings gives the socket its memory and its rings. The ring of frames has a slot for
// each chunk, so that it is never full.
func (x *xdp) openRings(chunk int) (err error) {
	x.memory, err = unix.Mmap(-1, 0, ringSlots*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	umem := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&x.memory[0]))), Len: uint64(len(x.memory)), Size: uint32(chunk)}
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(x.fd), unix.SOL_XDP, unix.XDP_UMEM_REG, uintptr(unsafe.Pointer(&umem)), unsafe.Sizeof(umem), 0); errno != 0 {
		return fmt.Errorf("register %d KiB: %w", len(x.memory)>>10, errno)
	}
	err = errors.Join(
		unix.SetsockoptInt(x.fd, unix.SOL_XDP, unix.XDP_UMEM_FILL_RING, xdpFills),
		unix.SetsockoptInt(x.fd, unix.SOL_XDP, unix.XDP_UMEM_COMPLETION_RING, ringSlots),
		unix.SetsockoptInt(x.fd, unix.SOL_XDP, unix.XDP_TX_RING, ringSlots),
	)
	if err != nil {
		return err
	}
	var at unix.XDPMmapOffsets
	long := uint32(unsafe.Sizeof(at))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(x.fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS, uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&long)), 0); errno != 0 {
		return fmt.Errorf("ask where the rings are: %w", errno)
	}
	if int(long) != int(unsafe.Sizeof(at)) {
		return fmt.Errorf("ask where the rings are: %d bytes came, want %d: AF_XDP needs Linux 5.4", long, unsafe.Sizeof(at))
	}
	const descriptor, address = int(unsafe.Sizeof(unix.XDPDesc{})), 8
	tx, errTx := x.mapRing(unix.XDP_PGOFF_TX_RING, at.Tx, descriptor)
	done, errDone := x.mapRing(unix.XDP_UMEM_PGOFF_COMPLETION_RING, at.Cr, address)
	x.tx, x.done = tx, done
	x.empty, err = unix.Mmap(x.fd, unix.XDP_UMEM_PGOFF_FILL_RING, int(at.Fr.Desc)+xdpFills*address, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return errors.Join(errTx, errDone, err)
}

// mapRing maps the ring of ringSlots entries that is at a place of the socket.
func (x *xdp) mapRing(place int64, at unix.XDPRingOffset, entry int) (r xdpRing, err error) {
	r.memory, err = unix.Mmap(x.fd, place, int(at.Desc)+ringSlots*entry, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return r, err
	}
	r.producer = (*uint32)(unsafe.Pointer(&r.memory[at.Producer]))
	r.consumer = (*uint32)(unsafe.Pointer(&r.memory[at.Consumer]))
	r.entries = unsafe.Pointer(&r.memory[at.Desc])
	return r, nil
}

// bindQueue binds the socket to a queue. It waits for the socket of the last measurement, which the
// kernel takes down after its close has returned.
func (x *xdp) bindQueue(index, queue int) error {
	const often = 5 * time.Millisecond
	to := &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(index), QueueID: uint32(queue)}
	err := unix.Bind(x.fd, to)
	for begun := time.Now(); errors.Is(err, unix.EBUSY) && time.Since(begun) < time.Second; err = unix.Bind(x.fd, to) {
		time.Sleep(often)
	}
	if err == nil {
		return nil
	}
	next := "see whether it is up"
	switch {
	case errors.Is(err, unix.EBUSY):
		next = "another program has an AF_XDP socket there"
	case errors.Is(err, unix.EINVAL):
		next = "an AF_XDP socket has a queue of its own: have no more streams than the interface has queues"
	}
	return fmt.Errorf("bind an AF_XDP socket to queue %d of %s: %w: %s", queue, x.name, err, next)
}

func (x *xdp) close() error {
	errs := []error{unix.Close(x.fd)}
	for _, b := range [][]byte{x.tx.memory, x.done.memory, x.empty, x.memory} {
		if b != nil {
			errs = append(errs, unix.Munmap(b))
		}
	}
	return errors.Join(errs...)
}

func (x *xdp) countWaiting() uint64 {
	return uint64(atomic.LoadUint32(x.tx.producer) - atomic.LoadUint32(x.tx.consumer))
}

func (x *xdp) fillSlots(f *frames, n int, first, step uint64) int {
	x.reclaimChunks()
	n = min(n, len(x.free))
	entries := unsafe.Slice((*unix.XDPDesc)(x.tx.entries), ringSlots)
	produced := atomic.LoadUint32(x.tx.producer)
	for i := range n {
		at := x.free[len(x.free)-1]
		x.free = x.free[:len(x.free)-1]
		f.putFrame(x.memory[at:at+uint64(x.size)], first+uint64(i)*step)
		entries[(produced+uint32(i))%ringSlots] = unix.XDPDesc{Addr: at, Len: uint32(x.size)}
	}
	atomic.StoreUint32(x.tx.producer, produced+uint32(n))
	return n
}

// reclaimChunks takes back the chunks of frames that were sent.
func (x *xdp) reclaimChunks() {
	entries := unsafe.Slice((*uint64)(x.done.entries), ringSlots)
	consumed, produced := atomic.LoadUint32(x.done.consumer), atomic.LoadUint32(x.done.producer)
	for ; consumed != produced; consumed++ {
		x.free = append(x.free, entries[consumed%ringSlots])
	}
	atomic.StoreUint32(x.done.consumer, consumed)
}

// sendFilled calls the kernel again while the kernel takes frames. It takes no more than 32 for
// each call.
func (x *xdp) sendFilled() error {
	for before := x.countWaiting(); before > 0; {
		_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(x.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0, unix.EINTR, unix.EAGAIN, unix.ENOBUFS, unix.EBUSY:
		default:
			return fmt.Errorf("send frames of %d bytes on %s by AF_XDP: %w: see whether it is up", x.size, x.name, errno)
		}
		left := x.countWaiting()
		if left == before {
			rest := unix.NsecToTimespec(moment)
			_ = unix.Nanosleep(&rest, nil) // a signal ends it early: that is no harm
			return nil
		}
		before = left
	}
	return nil
}
