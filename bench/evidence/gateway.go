package evidence

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// NextHop returns the interface by which the kernel of this network namespace would send packets for
// an address, and the router to which it would send them. The interface has "+" and a kind behind it
// where the route itself encapsulates packets (ip-route(8), ENCAP). Either is empty where the kernel
// names none.
func NextHop(to netip.Addr) (out string, gateway netip.Addr) {
	found, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(found) == 0 {
		return "", netip.Addr{}
	}
	r := found[0]
	gateway, _ = netip.AddrFromSlice(r.Gw)
	if link, err := net.InterfaceByIndex(r.LinkIndex); err == nil {
		out = link.Name
		if r.Encap != nil {
			out += "+" + r.Encap.String()
		}
	}
	return out, gateway.Unmap()
}
