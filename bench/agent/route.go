package agent

import (
	"net"
	"net/netip"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
)

// routesTo asks the kernel for the route to each address. Connecting a datagram socket sends
// nothing, and binds it to the source address that the kernel would use. The port is one of a
// measurement's Service, so that eBPF programs which replace the Service's address do so here too.
func routesTo(to []netip.Addr) map[netip.Addr]Route {
	all := map[netip.Addr]Route{}
	for _, a := range to {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, bench.ServicePorts[0])))
		if err != nil { // no route
			continue
		}
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			r := Route{Source: local.AddrPort().Addr().Unmap()}
			r.Interface, r.Gateway = evidence.NextHop(a)
			if peer, err := evidence.Peer(conn); err == nil && peer.Addr() != a {
				r.Peer = peer.Addr()
			}
			all[a] = r
		}
		conn.Close()
	}
	return all
}
