package evidence

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// TestReadBuffers: the kernel gives twice what is asked for, and no more than net.core.wmem_max.
func TestReadBuffers(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		at := netip.MustParseAddr(address)
		l, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.(*net.TCPConn).SetWriteBuffer(20000); err != nil {
			t.Fatal(err)
		}
		all, err := ReadBuffers(at)
		if err != nil {
			t.Fatal(err)
		}
		port := conn.LocalAddr().(*net.TCPAddr).AddrPort().Port()
		i := slices.IndexFunc(all, func(b Buffers) bool { return b.Local == port })
		if i < 0 || all[i].Send != 40000 || all[i].Receive <= 0 {
			t.Errorf("%s: %+v of %d", address, all, port)
		}
	}
}

func FuzzParseBuffers(f *testing.F) {
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		if all, _, err := parseBuffers(b); err == nil && len(all)*diagMessage > len(b) {
			t.Errorf("%d connections of %d bytes", len(all), len(b))
		}
	})
}
