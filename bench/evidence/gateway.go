package evidence

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Gateway is the router that the kernel would send to from this network namespace; none where it needs
// or tells none.
func Gateway(to netip.Addr) netip.Addr {
	found, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(found) == 0 {
		return netip.Addr{}
	}
	gateway, _ := netip.AddrFromSlice(found[0].Gw)
	return gateway.Unmap()
}
