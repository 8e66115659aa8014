package evidence

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Gateway returns the router to which the kernel of this network namespace would send packets for
// an address. It returns the zero address if there is no router in the route.
func Gateway(to netip.Addr) netip.Addr {
	found, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(found) == 0 {
		return netip.Addr{}
	}
	gateway, _ := netip.AddrFromSlice(found[0].Gw)
	return gateway.Unmap()
}
