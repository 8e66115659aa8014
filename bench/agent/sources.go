package agent

import (
	"net"
	"net/netip"
)

// sourcesOf asks the kernel's routes: connecting a datagram socket sends nothing.
func sourcesOf(to []netip.Addr) map[netip.Addr]netip.Addr {
	const anyPort = 9
	all := map[netip.Addr]netip.Addr{}
	for _, a := range to {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, anyPort)))
		if err != nil { // no route
			continue
		}
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			all[a] = local.AddrPort().Addr().Unmap()
		}
		conn.Close()
	}
	return all
}
