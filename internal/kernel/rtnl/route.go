package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// Route is a unicast route through one link.
type Route struct {
	Index int // of the link
	vf.Route
	// Automatic marks a route that the kernel or router advertisements made.
	Automatic bool
}

const (
	rtprotRedirect = 1
	rtprotKernel   = 2
	rtprotRA       = 9
	rtaxMTU        = 2
	rtaxAdvMSS     = 8
	// ip6Priority is the priority that the kernel gives an IPv6 route without one
	// (IP6_RT_PRIO_USER, net/ip6_route.h).
	ip6Priority = 1024
)

// routeHeader encodes struct rtmsg.
func routeHeader(family, bits, scope byte) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0], b[1] = family, bits
	b[4] = unix.RT_TABLE_MAIN
	b[5] = unix.RTPROT_STATIC
	b[6] = scope
	b[7] = unix.RTN_UNICAST
	return b
}

// Routes lists the unicast routes through the link with the given index, of every table,
// or those of the main table through all links for 0: other tables of a host may hold a
// whole BGP feed. It leaves out automatic ones: each address has one.
func (c *Conn) Routes(index int) (List[Route], error) {
	return c.FindRoutes(index, func(r Route) bool { return !r.Automatic })
}

// FindRoutes lists the routes of the same tables for which match is true, automatic ones too.
func (c *Conn) FindRoutes(index int, match func(Route) bool) (List[Route], error) {
	all := List[Route]{More: map[int]int{}}
	for _, fam := range []byte{unix.AF_INET, unix.AF_INET6} {
		b := make([]byte, unix.SizeofRtMsg)
		b[0] = fam
		if index != 0 {
			b = AppendUint32(b, unix.RTA_OIF, uint32(index))
		} else {
			b = AppendUint32(b, unix.RTA_TABLE, unix.RT_TABLE_MAIN)
		}
		got, err := dumpList(c, Request{Type: unix.RTM_GETROUTE, Flags: unix.NLM_F_DUMP, Body: b}, func(b []byte) (Route, int, bool, error) {
			r, ok, err := ParseRoute(b)
			return r, r.Index, ok && (index == 0 || r.Index == index) && match(r), err
		})
		if err != nil && !noSuchTable(err) {
			return all, err
		}
		all.Kept = append(all.Kept, got.Kept...)
		for link, more := range got.More {
			all.More[link] += more
		}
	}
	return all, nil
}

// noSuchTable reports whether an error says that a table has no routes. A strict dump of an
// unused table answers ENOENT (ip_fib: "FIB table does not exist"), and a dump of IPv6 where
// that is switched off EAFNOSUPPORT or EOPNOTSUPP.
func noSuchTable(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

// AddRoute adds a route. A route of IPv4 goes in front of those to its destination with its
// priority (fib_table_insert without NLM_F_EXCL and NLM_F_APPEND, net/ipv4/fib_trie.c), as the
// CNI project's plugins add theirs. For IPv4, unix.EEXIST says that this very route exists. For
// IPv6, it says that a route to its destination with its priority exists: the kernel would
// merge the two into one route with two next hops (fib6_add_rt2node, net/ipv6/ip6_fib.c).
func (c *Conn) AddRoute(r Route) error {
	flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_ACK)
	if r.Dst.Addr().Is6() {
		flags |= unix.NLM_F_EXCL
	}
	_, err := c.Do(Request{Type: unix.RTM_NEWROUTE, Flags: flags, Body: r.encodeRoute()})
	return err
}

// DelRoute removes a route that Routes has listed, whichever program made it. The kernel compares
// every attribute that a delete names, so protocol, scope and metrics are left open
// (fib_table_delete, net/ipv4/fib_trie.c; ip6_route_del, net/ipv6/route.c).
func (c *Conn) DelRoute(r Route) error {
	r.MTU, r.AdvMSS = 0, 0
	body := r.encodeRoute()
	body[5], body[6] = unix.RTPROT_UNSPEC, unix.RT_SCOPE_NOWHERE
	_, err := c.Do(Request{Type: unix.RTM_DELROUTE, Flags: unix.NLM_F_ACK, Body: body})
	return err
}

func (r Route) encodeRoute() []byte {
	scope := byte(r.Scope)
	if scope == unix.RT_SCOPE_UNIVERSE && !r.Gateway.IsValid() && r.Dst.Addr().Is4() {
		scope = unix.RT_SCOPE_LINK
	}
	b := routeHeader(addressFamily(r.Dst.Addr()), byte(r.Dst.Bits()), scope)
	if r.OnLink {
		binary.NativeEndian.PutUint32(b[8:], unix.RTNH_F_ONLINK)
	}
	if r.Table != 0 {
		b[4] = unix.RT_TABLE_UNSPEC
		b = AppendUint32(b, unix.RTA_TABLE, uint32(r.Table))
	}
	if r.Dst.Bits() > 0 {
		b = AppendAttr(b, unix.RTA_DST, r.Dst.Masked().Addr().AsSlice())
	}
	b = AppendUint32(b, unix.RTA_OIF, uint32(r.Index))
	if r.Gateway.IsValid() {
		b = AppendAttr(b, unix.RTA_GATEWAY, r.Gateway.AsSlice())
	}
	if r.Priority != 0 {
		b = AppendUint32(b, unix.RTA_PRIORITY, uint32(r.Priority))
	}
	var metrics []byte
	if r.MTU != 0 {
		metrics = AppendUint32(metrics, rtaxMTU, uint32(r.MTU))
	}
	if r.AdvMSS != 0 {
		metrics = AppendUint32(metrics, rtaxAdvMSS, uint32(r.AdvMSS))
	}
	if len(metrics) > 0 {
		b = AppendNested(b, unix.RTA_METRICS, metrics)
	}
	return b
}

// ParseRoute reads the body of RTM_NEWROUTE; it returns false for a route of another type or
// family, or of the local table. The priority that the kernel gives every IPv6 route by default
// reads as 0, as for IPv4, and so does the scope that follows from the gateway.
func ParseRoute(b []byte) (Route, bool, error) {
	if len(b) < unix.SizeofRtMsg {
		return Route{}, false, fmt.Errorf("route message of %d bytes", len(b))
	}
	attrs, err := Attrs(b[unix.SizeofRtMsg:])
	if err != nil {
		return Route{}, false, fmt.Errorf("route: %w", err)
	}
	fam, bits, proto, scope := b[0], b[1], b[5], b[6]
	r := Route{Automatic: proto == rtprotKernel || proto == rtprotRA || proto == rtprotRedirect}
	table := uint32(b[4])
	dst := netip.IPv4Unspecified()
	if fam == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	for _, a := range attrs {
		switch a.Type {
		case unix.RTA_DST:
			if ip, ok := netip.AddrFromSlice(a.Value); ok {
				dst = ip
			}
		case unix.RTA_TABLE:
			table = a.Uint32()
		default:
			r.takeAttr(a)
		}
	}
	if fam == unix.AF_INET6 && r.Priority == ip6Priority {
		r.Priority = 0
	}
	r.Dst = netip.PrefixFrom(dst, int(bits))
	if table != unix.RT_TABLE_MAIN {
		r.Table = int(table)
	}
	if fam == unix.AF_INET && (scope != unix.RT_SCOPE_LINK || r.Gateway.IsValid()) {
		r.Scope = int(scope)
	}
	flags := binary.NativeEndian.Uint32(b[8:])
	r.OnLink = flags&unix.RTNH_F_ONLINK != 0 && r.Gateway.IsValid()
	ip := fam == unix.AF_INET || fam == unix.AF_INET6
	cloned := flags&unix.RTM_F_CLONED != 0
	return r, ip && table != unix.RT_TABLE_LOCAL && table != unix.RT_TABLE_UNSPEC && b[7] == unix.RTN_UNICAST && !cloned && r.Dst.IsValid(), nil
}

func (r *Route) takeAttr(a Attr) {
	switch a.Type {
	case unix.RTA_OIF:
		r.Index = int(a.Uint32())
	case unix.RTA_GATEWAY:
		r.Gateway, _ = netip.AddrFromSlice(a.Value)
	case unix.RTA_PRIORITY:
		r.Priority = int(a.Uint32())
	case unix.RTA_METRICS:
		metrics, _ := Attrs(a.Value) // a route without readable metrics is one without an MTU
		for _, m := range metrics {
			switch m.Type {
			case rtaxMTU:
				r.MTU = int(m.Uint32())
			case rtaxAdvMSS:
				r.AdvMSS = int(m.Uint32())
			}
		}
	}
}
