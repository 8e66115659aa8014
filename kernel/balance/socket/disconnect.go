package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/kernel/balance"
	"github.com/culvert-net/culvert/kernel/netns"
	"github.com/culvert-net/culvert/vf"
)

// disconnect ends the UDP sockets that are connected, by a Frontend, to a backend that it has no
// longer: they would send there forever. Reading then answers ECONNABORTED, writing
// EDESTADDRREQ, and the application connects again. It works on pods whose view is in changed. Kernels that cannot end sockets
// (CONFIG_INET_DIAG_DESTROY, CONFIG_INET_UDP_DIAG) leave them.
func (b *Balancer) disconnect(pods []balance.Pod, changed map[balance.ViewID]bool) error {
	var errs []error
	for _, p := range pods {
		if !changed[p.View] {
			continue
		}
		err := netns.Run(p.Netns, func() error {
			return errors.Join(b.disconnectFamily(p.View, unix.AF_INET), b.disconnectFamily(p.View, unix.AF_INET6))
		})
		if err != nil && !errors.Is(err, vf.ErrNetnsGone) {
			errs = append(errs, fmt.Errorf("end UDP sockets of removed backends in pod sandbox %s: %w", p.ID, err))
		}
	}
	return errors.Join(errs...)
}

// disconnectFamily works in the thread's network namespace.
func (b *Balancer) disconnectFamily(view balance.ViewID, family byte) error {
	all, err := askSockets(diagRequest(unix.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP, family, nil))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list UDP sockets: %w", err)
	}
	var errs []error
	for _, m := range all {
		s, ok := parseSocket(m)
		if !ok || !b.isStale(view, s) {
			continue
		}
		_, err := askSockets(diagRequest(unix.SOCK_DESTROY, unix.NLM_F_ACK, family, s.id))
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP) {
			errs = append(errs, fmt.Errorf("end a UDP socket: %w", err))
		}
	}
	return errors.Join(errs...)
}

// isStale reports whether a socket is connected by a Frontend to what is no backend of it.
func (b *Balancer) isStale(view balance.ViewID, s udpSocket) bool {
	k := newKey(s.cookie, balance.Frontend{Addr: s.peer.Addr(), Port: s.peer.Port(), Protocol: balance.UDP})
	origin := make([]byte, 24)
	if b.tables.origins.Lookup(k[:], &origin) != nil {
		return false // it connected to that address itself
	}
	at := readAddrPort(origin)
	r := b.sets[b.rules[newKey(uint64(view), balance.Frontend{Addr: at.Addr(), Port: at.Port(), Protocol: balance.UDP})].set]
	return r == nil || !slices.Contains(r.Backends, s.peer)
}

// udpSocket is a socket as the kernel lists it (struct inet_diag_msg, linux/inet_diag.h).
type udpSocket struct {
	id     []byte // struct inet_diag_sockid
	peer   netip.AddrPort
	cookie uint64
}

// Sizes and offsets in linux/inet_diag.h.
const (
	diagMessage, diagSocketID, socketIDSize = 72, 4, 48
	diagRequestSize                         = 56
	stateEstablished                        = 1 // TCP_ESTABLISHED: a UDP socket that is connected
)

func parseSocket(b []byte) (udpSocket, bool) {
	if len(b) < diagMessage {
		return udpSocket{}, false
	}
	id := b[diagSocketID : diagSocketID+socketIDSize]
	addr := netip.AddrFrom16([16]byte(id[20:36])).Unmap()
	if b[0] == unix.AF_INET {
		addr = netip.AddrFrom4([4]byte(id[20:24]))
	}
	return udpSocket{
		id: slices.Clone(id), peer: netip.AddrPortFrom(addr, binary.BigEndian.Uint16(id[2:])),
		cookie: uint64(native.Uint32(id[40:])) | uint64(native.Uint32(id[44:]))<<32,
	}, true
}

// diagRequest returns a netlink message with a struct inet_diag_req_v2.
func diagRequest(kind, flags uint16, family byte, id []byte) []byte {
	b := make([]byte, unix.NLMSG_HDRLEN+diagRequestSize)
	native.PutUint32(b, uint32(len(b)))
	native.PutUint16(b[4:], kind)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST|flags)
	b[unix.NLMSG_HDRLEN], b[unix.NLMSG_HDRLEN+1] = family, unix.IPPROTO_UDP
	native.PutUint32(b[unix.NLMSG_HDRLEN+4:], 1<<stateEstablished)
	copy(b[unix.NLMSG_HDRLEN+8:], id)
	return b
}

// askSockets sends a request to the kernel's sock_diag and returns the bodies of its answer.
func askSockets(request []byte) (bodies [][]byte, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
		return nil, err
	}
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(fd, request, 0, kernel); err != nil {
		return nil, err
	}
	for buffer := make([]byte, 64<<10); ; {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		if err != nil {
			return nil, err
		}
		if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
			continue // a process of the pod, not the kernel
		}
		messages, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return bodies, nil
			case unix.NLMSG_ERROR:
				if len(m.Data) < 4 {
					return nil, unix.EBADMSG
				}
				if code := int32(native.Uint32(m.Data)); code != 0 {
					return nil, unix.Errno(-code)
				}
				return bodies, nil
			}
			bodies = append(bodies, slices.Clone(m.Data))
		}
	}
}
