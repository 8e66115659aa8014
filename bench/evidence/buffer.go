package evidence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Buffers are SO_SNDBUF and SO_RCVBUF of a connection, as the kernel has them.
type Buffers struct {
	Local, Remote uint16 // ports
	Send, Receive int    // bytes
}

// Sizes and places in linux/inet_diag.h and linux/sock_diag.h.
const (
	diagRequest  = 56 // struct inet_diag_req_v2
	diagMessage  = 72 // struct inet_diag_msg
	diagMemory   = 7  // INET_DIAG_SKMEMINFO
	memoryFields = 4  // as far as SK_MEMINFO_SNDBUF

	tcpEstablished = 1 // TCP_ESTABLISHED (include/net/tcp_states.h)
)

// ReadBuffers asks the kernel for the buffers of all TCP connections of the address's family in
// this network namespace. /proc does not show them, and iperf 2 does not report them in its CSV.
func ReadBuffers(of netip.Addr) ([]Buffers, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open a socket for sock_diag(7): %w", err)
	}
	defer unix.Close(fd)
	family := byte(unix.AF_INET)
	if of.Is6() && !of.Is4In6() {
		family = unix.AF_INET6
	}
	b := make([]byte, unix.SizeofNlMsghdr+diagRequest)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request := b[unix.SizeofNlMsghdr:]
	request[0], request[1], request[2] = family, unix.IPPROTO_TCP, 1<<(diagMemory-1)
	binary.NativeEndian.PutUint32(request[4:], 1<<tcpEstablished)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("ask for the connections: %w", err)
	}
	var all []Buffers
	for answer := make([]byte, 1<<16); ; {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			return nil, fmt.Errorf("read the connections: %w", err)
		}
		some, done, err := parseBuffers(answer[:n])
		if all = append(all, some...); done || err != nil {
			return all, err
		}
	}
}

// parseBuffers reads netlink messages; done means that no more follow.
func parseBuffers(b []byte) (all []Buffers, done bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil, true, fmt.Errorf("read the connections: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Type == unix.NLMSG_DONE:
			return all, true, nil
		case m.Header.Type == unix.NLMSG_ERROR:
			if len(m.Data) < 4 {
				return all, true, errors.New("read the connections: an error without a number")
			}
			return all, true, fmt.Errorf("read the connections: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data))))
		case len(m.Data) < diagMessage:
			return all, true, fmt.Errorf("read the connections: one of %d bytes, and not %d", len(m.Data), diagMessage)
		}
		one := Buffers{Local: binary.BigEndian.Uint16(m.Data[4:]), Remote: binary.BigEndian.Uint16(m.Data[6:])}
		for rest := m.Data[diagMessage:]; len(rest) >= 4; {
			length, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
			if length < 4 || length > len(rest) {
				break
			}
			if value := rest[4:length]; kind == diagMemory && len(value) >= 4*memoryFields {
				one.Receive, one.Send = int(binary.NativeEndian.Uint32(value[4:])), int(binary.NativeEndian.Uint32(value[12:]))
			}
			rest = rest[min(len(rest), (length+3)&^3):]
		}
		all = append(all, one)
	}
	return all, false, nil
}
