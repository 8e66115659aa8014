package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// maxEnded is how many UDP sockets of a pod and a family one Apply ends. A pod may open any number,
// and culvertd keeps 48 bytes for each until it has ended them. The next Apply ends more.
const maxEnded = 8 << 10

// disconnectStale ends the UDP sockets that are connected, by a Frontend, to a backend that the
// Frontend no longer has. Otherwise they would send to that backend forever. Reading from an ended
// socket answers ECONNABORTED, writing to it EDESTADDRREQ, and the application connects again.
// disconnectStale looks only at pods whose view is stale. A view stays stale if its pods may have
// more such sockets. After an error, all of these views stay stale. Kernels that cannot end sockets
// (CONFIG_INET_DIAG_DESTROY, CONFIG_INET_UDP_DIAG) leave these sockets as they are.
func (b *Balancer) disconnectStale(pods []balance.Pod) error {
	more := map[balance.ViewID]bool{}
	var errs []error
	for _, p := range pods {
		if !b.stale[p.View] {
			continue
		}
		again, err := b.disconnectPod(p)
		if again {
			more[p.View] = true
		}
		if err != nil && !errors.Is(err, vf.ErrNetnsGone) {
			errs = append(errs, fmt.Errorf("end UDP sockets of removed backends in pod sandbox %s: %w", p.ID, err))
		}
	}
	if len(errs) == 0 {
		b.stale = more
	}
	return errors.Join(errs...)
}

// disconnectPod ends such sockets of a pod. It reports whether the next Apply may end more.
func (b *Balancer) disconnectPod(p balance.Pod) (more bool, err error) {
	records, err := b.openRecords(p, sockets)
	if err != nil || records == nil {
		return false, err
	}
	defer records.Close()
	err = netns.Run(p.Netns, func() error {
		more4, err4 := b.disconnectFamily(records, p.View, unix.AF_INET)
		more6, err6 := b.disconnectFamily(records, p.View, unix.AF_INET6)
		more = more4 || more6
		return errors.Join(err4, err6)
	})
	return more, err
}

// disconnectFamily ends such sockets of one family in the thread's network namespace. It reports
// whether the next Apply may end more: this call has reached the limit, and the kernel has ended at
// least one socket.
func (b *Balancer) disconnectFamily(records *ebpf.Map, view balance.ViewID, family byte) (more bool, err error) {
	stale, err := listSockets(family, b.maxEnded, func(s udpSocket) bool { return b.isStale(records, view, s) })
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list UDP sockets: %w", err)
	}
	if len(stale) == 0 {
		return false, nil
	}
	conn, err := rtnl.DialSockDiag()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ended := false
	var errs []error
	for _, id := range stale {
		err := conn.Visit(diagRequest(unix.SOCK_DESTROY, unix.NLM_F_ACK, family, id[:]), func([]byte) error { return nil })
		ended = ended || err == nil
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP) {
			errs = append(errs, fmt.Errorf("end a UDP socket: %w", err))
		}
	}
	return ended && len(stale) >= b.maxEnded, errors.Join(errs...)
}

// errEnough makes listSockets stop before the end of the list.
var errEnough = errors.New("enough sockets")

// listSockets returns the first UDP sockets of a family that are connected and for which keep is
// true. The caller ends them only afterwards: the kernel continues its list by a socket's position,
// and passes over others if one goes (udp_dump, net/ipv4/udp_diag.c).
func listSockets(family byte, limit int, keep func(udpSocket) bool) (kept []socketID, err error) {
	conn, err := rtnl.DialSockDiag()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = conn.Visit(diagRequest(unix.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP, family, nil), func(body []byte) error {
		if s, ok := parseSocket(body); ok && keep(s) {
			kept = append(kept, s.id)
		}
		if len(kept) >= limit {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return kept, err
}

// isStale reports whether a socket is connected by a Frontend to an address that is not one of its
// backends.
func (b *Balancer) isStale(records *ebpf.Map, view balance.ViewID, s udpSocket) bool {
	k := newKey(s.cookie, balance.Frontend{Addr: s.peer.Addr(), Port: s.peer.Port(), Protocol: balance.UDP})
	k[keyOrigin] = 1
	origin := make([]byte, recordSize)
	if records.Lookup(k[:], &origin) != nil {
		return false // it connected to that address itself
	}
	at := readAddrPort(origin)
	r := b.sets[b.rules[newKey(uint64(view), balance.Frontend{Addr: at.Addr(), Port: at.Port(), Protocol: balance.UDP})].set]
	return r == nil || !slices.Contains(r.Backends, s.peer)
}

// udpSocket is a socket as the kernel lists it (struct inet_diag_msg, linux/inet_diag.h).
type udpSocket struct {
	id     socketID
	peer   netip.AddrPort
	cookie uint64
}

// socketID is a struct inet_diag_sockid.
type socketID [socketIDSize]byte

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
	id := socketID(b[diagSocketID:])
	addr := netip.AddrFrom16([16]byte(id[20:36])).Unmap()
	if b[0] == unix.AF_INET {
		addr = netip.AddrFrom4([4]byte(id[20:24]))
	}
	return udpSocket{
		id: id, peer: netip.AddrPortFrom(addr, binary.BigEndian.Uint16(id[2:])),
		cookie: uint64(native.Uint32(id[40:])) | uint64(native.Uint32(id[44:]))<<32,
	}, true
}

// diagRequest returns a request with a struct inet_diag_req_v2.
func diagRequest(kind, flags uint16, family byte, id []byte) rtnl.Request {
	b := make([]byte, diagRequestSize)
	b[0], b[1] = family, unix.IPPROTO_UDP
	native.PutUint32(b[4:], 1<<stateEstablished)
	copy(b[8:], id)
	return rtnl.Request{Type: kind, Flags: flags, Body: b}
}
