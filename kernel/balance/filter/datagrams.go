package filter

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/kernel/balance"
)

// forgetDatagrams makes the kernel forget the UDP flows, in the thread's network namespace, from
// Frontends to backends that these no longer have. The next datagram of a socket then goes to
// another backend.
func (c content) forgetDatagrams() error {
	stale := staleFlows{}
	for _, f := range c.rules {
		if f.Protocol == balance.UDP {
			stale[netip.AddrPortFrom(f.Addr, f.Port)] = f.Backends
		}
	}
	if len(stale) == 0 {
		return nil
	}
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, stale); err != nil {
			return fmt.Errorf("forget the UDP flows of removed backends: %w", err)
		}
	}
	return nil
}

// staleFlows are the backends of Frontends.
type staleFlows map[netip.AddrPort][]netip.AddrPort

// MatchConntrackFlow reports whether a flow goes from a Frontend to what is no backend of it.
func (s staleFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	backends, ours := s[addrPort(flow.Forward.DstIP, flow.Forward.DstPort)]
	return ours && !slices.Contains(backends, addrPort(flow.Reverse.SrcIP, flow.Reverse.SrcPort))
}

func addrPort(ip net.IP, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), port)
}
