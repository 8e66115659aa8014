package evidence

import (
	"net"
	"net/netip"
	"testing"
)

// TestPeer: the kernel's own table has the address that a socket is connected to, in both families.
func TestPeer(t *testing.T) {
	for _, to := range []string{"127.0.0.2:5201", "[::1]:5201"} {
		want := netip.MustParseAddrPort(to)
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(want))
		if err != nil {
			t.Skip(err) // a host without IPv6
		}
		got, err := Peer(conn)
		if err != nil || got != want {
			t.Errorf("%s: %s, %v", to, got, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A socket that is not there has no peer.
func TestFindPeer(t *testing.T) {
	if got, err := findPeer(nil, 4711); err == nil {
		t.Errorf("%s", got)
	}
}
