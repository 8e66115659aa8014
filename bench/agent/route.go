package agent

import (
	"net"
	"net/netip"

	"github.com/culvert-net/culvert/bench/evidence"
)

// routesTo asks the kernel: connecting a datagram socket sends nothing, and binds it to the
// address that the kernel would take.
func routesTo(to []netip.Addr) map[netip.Addr]Route {
	const anyPort = 9
	all := map[netip.Addr]Route{}
	for _, a := range to {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, anyPort)))
		if err != nil { // no route
			continue
		}
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			all[a] = Route{Source: local.AddrPort().Addr().Unmap(), Gateway: evidence.Gateway(a)}
		}
		conn.Close()
	}
	return all
}
