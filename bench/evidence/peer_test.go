package evidence

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
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

// TestParsePeer: a socket that is not there and texts that are no addresses are errors.
func TestParsePeer(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the text is that of a little-endian machine")
	}
	const head = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
	const line = "  267: 0100007F:BFD7 155B10AC:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4711 2 ffff0 0\n"
	if got, err := parsePeer(head+line, 4711); err != nil || got != netip.MustParseAddrPort("172.16.91.21:8080") {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := parsePeer(head+line, 471); err == nil {
		t.Errorf("of a socket that is not there: %s", got)
	}
	for _, bad := range []string{"155B10XX:1F90", "155B10:1F90", "155B10AC:", "155B10AC:1F901"} {
		if got, err := parsePeer(head+strings.Replace(line, "155B10AC:1F90", bad, 1), 4711); err == nil {
			t.Errorf("%s: %s", bad, got)
		}
	}
}
