// Package rtnl is the part of the kernel's rtnetlink that Culvert needs: links with the PF's
// settings for its VFs, addresses and routes.
//
// Requests and answers are values. Encoding and parsing are pure, and Conn.Do is the only function
// that touches the socket for them. The message formats are linux/rtnetlink.h, linux/if_link.h and
// linux/if_addr.h. Its callers are package kernel, and kernel/guard and kernel/balance, which read
// netfilter and the sockets of processes by such sockets.
//
// Culvert has its own code for these messages and uses no library. Libraries read the word
// 0xffffffff ("the driver has no such setting") as "on", accept at most 64 KiB for an answer, and
// ask for every VF's statistics with each read.
package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Conn is a netlink socket in one netns. It serves one request at a time.
type Conn struct {
	fd  int
	pid uint32
	seq atomic.Uint32
	buf []byte
}

// answerTimeout bounds the wait for an answer. The kernel answers inside the
// send call, so only a lost answer ever waits.
var answerTimeout = unix.Timeval{Sec: 10}

// Dial opens a socket in the netns of the calling thread.
func Dial() (*Conn, error) { return dial(unix.NETLINK_ROUTE) }

// DialNetfilter opens a socket for requests to netfilter instead, in the netns of the calling
// thread.
func DialNetfilter() (*Conn, error) { return dial(unix.NETLINK_NETFILTER) }

// DialSockDiag opens a socket for requests about the sockets of processes instead (sock_diag(7)),
// in the netns of the calling thread.
func DialSockDiag() (*Conn, error) { return dial(unix.NETLINK_SOCK_DIAG) }

func dial(protocol int) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	c := &Conn{fd: fd}
	if err := c.setOptions(); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("prepare a netlink socket: %w", err)
	}
	return c, nil
}

func (c *Conn) setOptions() error {
	// Both are missing on old kernels; without them messages say less.
	_ = unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	_ = unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	// Lets the kernel filter dumps by link and table (Linux 4.20); we filter
	// again, since an older one sends everything.
	_ = unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &answerTimeout); err != nil {
		return err
	}
	if err := unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	sa, err := unix.Getsockname(c.fd)
	if err != nil {
		return err
	}
	c.pid = sa.(*unix.SockaddrNetlink).Pid
	return nil
}

// Close closes the socket.
func (c *Conn) Close() error { return unix.Close(c.fd) }

// Request is one message to the kernel.
type Request struct {
	Type  uint16 // RTM_*
	Flags uint16 // NLM_F_*; NLM_F_REQUEST is added
	Body  []byte // the family's header and the attributes
}

// KernelError is an error that the kernel answered: the errno, which errors.Is matches, and the
// driver's message if it gave one.
type KernelError struct {
	Errno   unix.Errno
	Message string
}

func (e *KernelError) Error() string {
	if e.Message == "" {
		return e.Errno.Error()
	}
	return e.Errno.Error() + ": " + e.Message
}

func (e *KernelError) Unwrap() error { return e.Errno }

// ErrInterrupted says that the list changed while the kernel sent it (NLM_F_DUMP_INTR).
var ErrInterrupted = errors.New("the list changed while it was read")

// attempts is how often Conn reads a list that changes during each read.
const attempts = 5

// Do sends r and returns the bodies of the answers. If a list changes during the read, Do reads
// it again, up to attempts times.
func (c *Conn) Do(r Request) (answers [][]byte, err error) {
	for range attempts {
		answers = nil
		err = c.Visit(r, func(body []byte) error {
			answers = append(answers, body)
			return nil
		})
		if !errors.Is(err, ErrInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// Visit sends r and calls visit with the body of each answer. It keeps one datagram of the kernel's
// at a time. It ends at the first error of visit and returns it. The kernel may then have more of
// the list for the socket, so the caller closes it. The error is ErrInterrupted if the list changed
// meanwhile.
func (c *Conn) Visit(r Request, visit func(body []byte) error) error {
	seq := c.seq.Add(1)
	if err := unix.Sendto(c.fd, r.encodeRequest(seq), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send to netlink: %w", err)
	}
	var a answer
	for !a.done {
		msg, err := c.receiveDatagram()
		if err != nil {
			return err
		}
		a.bodies = nil
		if err := a.takeDatagram(msg, seq, c.pid, r); err != nil {
			return err
		}
		for _, body := range a.bodies {
			if err := visit(body); err != nil {
				return err
			}
		}
	}
	if a.interrupted {
		return ErrInterrupted
	}
	return nil
}

// receiveDatagram reads one whole datagram of the kernel: a PF with 256 VFs answers with some
// 60 KB. It drops datagrams of other senders: a process with CAP_NET_ADMIN in a pod's netns may
// write to Culvert's socket, and sequence numbers are no secret (netlink(7): check nl_pid).
func (c *Conn) receiveDatagram() ([]byte, error) {
	for {
		n, _, err := unix.Recvfrom(c.fd, nil, unix.MSG_PEEK|unix.MSG_TRUNC)
		if err == nil && n > len(c.buf) {
			c.buf = make([]byte, max(n, 8192))
		}
		var from unix.Sockaddr
		if err == nil {
			n, from, err = unix.Recvfrom(c.fd, c.buf, 0)
		}
		switch {
		case err == nil && fromKernel(from):
			return append([]byte(nil), c.buf[:n]...), nil
		case err == nil, errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("netlink did not answer in %d s", answerTimeout.Sec)
		default:
			return nil, fmt.Errorf("receive from netlink: %w", err)
		}
	}
}

// fromKernel reports whether the kernel sent a message: its port is 0, which no
// program's socket has.
func fromKernel(from unix.Sockaddr) bool {
	sa, ok := from.(*unix.SockaddrNetlink)
	return ok && sa.Pid == 0
}

func (r Request) encodeRequest(seq uint32) []byte {
	b := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(r.Body))
	binary.NativeEndian.PutUint32(b[0:], uint32(unix.SizeofNlMsghdr+len(r.Body)))
	binary.NativeEndian.PutUint16(b[4:], r.Type)
	binary.NativeEndian.PutUint16(b[6:], r.Flags|unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(b[8:], seq)
	return append(b, r.Body...)
}
