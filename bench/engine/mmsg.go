package engine

import (
	"errors"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr (sendmmsg(2)).
type mmsghdr struct {
	header unix.Msghdr
	length uint32 // that was sent or received
}

// batch is datagrams that one system call sends or receives.
type batch struct {
	data    [][]byte
	vectors []unix.Iovec
	headers []mmsghdr
}

// batchSize is how many datagrams a batch holds: enough that the cost of the call is small beside
// theirs, and few enough that they stay in the processor's cache.
const batchSize = 64

// newBatch returns a batch with batchSize buffers of size bytes.
func newBatch(size int) *batch {
	b := &batch{
		data:    make([][]byte, batchSize),
		vectors: make([]unix.Iovec, batchSize),
		headers: make([]mmsghdr, batchSize),
	}
	for i := range b.data {
		b.data[i] = make([]byte, size)
		b.vectors[i].Base = &b.data[i][0]
		b.vectors[i].SetLen(size)
		b.headers[i].header.Iov = &b.vectors[i]
		b.headers[i].header.SetIovlen(1)
	}
	return b
}

// datagramAt returns datagram i of those that receiveBatch received.
func (b *batch) datagramAt(i int) []byte { return b.data[i][:b.headers[i].length] }

// sendBatch sends the first n datagrams and returns how many the kernel took. It blocks until the
// kernel takes at least one.
func (b *batch) sendBatch(conn syscall.RawConn, n int) (sent int, err error) {
	var errno syscall.Errno
	outer := conn.Write(func(fd uintptr) bool {
		sent, errno = b.callKernel(unix.SYS_SENDMMSG, fd, n)
		return errno != unix.EAGAIN
	})
	return sent, firstError(outer, errno)
}

// receiveBatch receives the datagrams that have arrived. It blocks until there is at least one.
func (b *batch) receiveBatch(conn syscall.RawConn) (n int, err error) {
	var errno syscall.Errno
	outer := conn.Read(func(fd uintptr) bool {
		n, errno = b.callKernel(unix.SYS_RECVMMSG, fd, len(b.headers))
		return errno != unix.EAGAIN
	})
	return n, firstError(outer, errno)
}

func (b *batch) callKernel(number, fd uintptr, n int) (int, syscall.Errno) {
	done, _, errno := unix.Syscall6(number, fd, uintptr(unsafe.Pointer(&b.headers[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(done), 0
}

func firstError(outer error, errno syscall.Errno) error {
	if outer != nil || errno == 0 {
		return outer
	}
	return errno
}

// isPassing reports whether err is of one call only, and the next call may succeed: the queue of
// the interface was full, or an ICMP message about an earlier datagram came in.
func isPassing(err error) bool {
	return errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH)
}

// rawConn returns the descriptor of a UDP connection.
func rawConn(conn net.Conn) (syscall.RawConn, error) { return conn.(*net.UDPConn).SyscallConn() }
