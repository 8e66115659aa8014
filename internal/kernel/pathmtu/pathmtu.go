// Package pathmtu finds out how large a packet can be to reach a peer without fragmentation. Its
// input is a peer. Its results are the netdevice that reaches the peer and the sizes that got
// through. It sends ICMP echo requests that may not be fragmented (ip(7), IP_PMTUDISC_PROBE:
// don't-fragment set, the kernel's remembered path MTU ignored), bound to that netdevice. It needs
// CAP_NET_RAW.
package pathmtu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Route is the route by which the kernel reaches a peer.
type Route struct {
	Device string
	MTU    int // of the netdevice
	Source netip.Addr
	// Gateway is the zero value when the peer is on the link.
	Gateway netip.Addr
}

// Find asks the kernel for the route to a peer.
func Find(peer netip.Addr) (Route, error) {
	routes, err := netlink.RouteGet(peer.AsSlice())
	if err != nil {
		return Route{}, fmt.Errorf("find the way to %s: %w", peer, err)
	}
	if len(routes) == 0 {
		return Route{}, fmt.Errorf("find the way to %s: the kernel knows none", peer)
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return Route{}, fmt.Errorf("find the way to %s: its netdevice: %w", peer, err)
	}
	r := Route{Device: link.Attrs().Name, MTU: link.Attrs().MTU}
	r.Source, _ = netip.AddrFromSlice(routes[0].Src)
	r.Gateway, _ = netip.AddrFromSlice(routes[0].Gw)
	r.Source, r.Gateway = r.Source.Unmap(), r.Gateway.Unmap()
	return r, nil
}

// Bounds of a probe.
const (
	tries  = 2
	answer = 600 * time.Millisecond // for one try; a LAN needs one
)

// MinIPv4 and MinIPv6 are the smallest MTUs that there are (RFC 791, RFC 8200).
const (
	MinIPv4 = 68
	MinIPv6 = 1280
)

// Least returns the MTU that any path to peer has.
func Least(peer netip.Addr) int {
	if peer.Is4() {
		return MinIPv4
	}
	return MinIPv6
}

// Fits reports whether a packet of size bytes, IP header included, gets to the peer through a
// netdevice and comes back. Without an answer it returns false and no error. If a peer does not
// answer small packets either, it cannot be reached.
func Fits(ctx context.Context, peer netip.Addr, device string, size int) (bool, error) {
	network, header := "ip4:icmp", 20
	if peer.Is6() {
		network, header = "ip6:ipv6-icmp", 40
	}
	if size < header+echoHeader || size > 65535 {
		return false, fmt.Errorf("probe %s with %d bytes: want %d to 65535", peer, size, header+echoHeader)
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return prepareSocket(c, peer, device) }}
	conn, err := lc.ListenPacket(ctx, network, "")
	if err != nil {
		return false, fmt.Errorf("probe %s: %w", peer, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	id := uint16(os.Getpid())
	for seq := range uint16(tries) {
		msg := encodeEcho(peer, id, seq, size-header)
		_, err := conn.WriteTo(msg, &net.IPAddr{IP: peer.AsSlice(), Zone: peer.Zone()})
		if errors.Is(err, unix.EMSGSIZE) {
			return false, nil // the MTU of the netdevice itself is smaller
		}
		if err != nil {
			return false, fmt.Errorf("probe %s: %w", peer, err)
		}
		ok, err := awaitAnswer(conn, peer, id, seq, size-header)
		if ok || err != nil {
			return ok, err
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// Largest finds the largest packet that gets through, between a size that does (fits) and a size
// that does not (tooBig).
func Largest(ctx context.Context, peer netip.Addr, device string, fits, tooBig int) (int, error) {
	for tooBig-fits > 1 {
		middle := fits + (tooBig-fits)/2
		ok, err := Fits(ctx, peer, device, middle)
		if err != nil {
			return fits, err
		}
		if ok {
			fits = middle
		} else {
			tooBig = middle
		}
	}
	return fits, nil
}

// prepareSocket forbids fragments and binds the socket to the netdevice.
func prepareSocket(c syscall.RawConn, peer netip.Addr, device string) error {
	var inner error
	err := c.Control(func(fd uintptr) {
		s := int(fd)
		if peer.Is4() {
			inner = unix.SetsockoptInt(s, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		} else {
			inner = unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
			inner = errors.Join(inner, unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1))
		}
		if device != "" {
			inner = errors.Join(inner, unix.BindToDevice(s, device))
		}
	})
	return errors.Join(err, inner)
}

// ICMP echo (RFC 792, RFC 4443).
const (
	echoHeader            = 8
	request4, reply4      = 8, 0
	request6, reply6 byte = 128, 129
)

// encodeEcho returns a request of size bytes, the ICMP header included. The kernel fills
// in the checksum of ICMPv6 (RFC 3542, 3.1).
func encodeEcho(peer netip.Addr, id, seq uint16, size int) []byte {
	b := make([]byte, size)
	b[0] = request4
	if peer.Is6() {
		b[0] = request6
	}
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[6:], seq)
	if peer.Is4() {
		binary.BigEndian.PutUint16(b[2:], sumRFC1071(b))
	}
	return b
}

// sumRFC1071 returns the checksum of RFC 1071.
func sumRFC1071(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// awaitAnswer waits for the answer to one request. A raw socket sees every ICMP
// message of the host.
func awaitAnswer(conn net.PacketConn, peer netip.Addr, id, seq uint16, size int) (bool, error) {
	if err := conn.SetReadDeadline(time.Now().Add(answer)); err != nil {
		return false, fmt.Errorf("probe %s: %w", peer, err)
	}
	b := make([]byte, 65536)
	for {
		n, from, err := conn.ReadFrom(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("probe %s: %w", peer, err)
		}
		if ip, ok := from.(*net.IPAddr); ok && isReply(b[:n], peer, id, seq) && n == size {
			if a, ok := netip.AddrFromSlice(ip.IP); ok && a.Unmap() == peer.WithZone("") {
				return true, nil
			}
		}
	}
}

// isReply reports whether an ICMP message answers a request.
func isReply(b []byte, peer netip.Addr, id, seq uint16) bool {
	kind := byte(reply4)
	if peer.Is6() {
		kind = reply6
	}
	return len(b) >= echoHeader && b[0] == kind && b[1] == 0 && binary.BigEndian.Uint16(b[4:]) == id && binary.BigEndian.Uint16(b[6:]) == seq
}
