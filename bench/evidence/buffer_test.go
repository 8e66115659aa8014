package evidence

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
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

// encodeMessage encodes a netlink message (struct nlmsghdr of linux/netlink.h).
func encodeMessage(kind uint16, payload []byte) []byte {
	b := make([]byte, unix.SizeofNlMsghdr)
	binary.NativeEndian.PutUint32(b, uint32(len(b)+len(payload)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	return append(b, payload...)
}

// encodeConnection encodes a connection from port 5201 to 40000 (struct inet_diag_msg of
// linux/inet_diag.h) with attributes.
func encodeConnection(attributes ...[]byte) []byte {
	b := make([]byte, diagMessage)
	binary.BigEndian.PutUint16(b[4:], 5201)
	binary.BigEndian.PutUint16(b[6:], 40000)
	return encodeMessage(unix.SOCK_DIAG_BY_FAMILY, append(b, slices.Concat(attributes...)...))
}

// encodeAttribute encodes an attribute of numbers (struct nlattr of linux/netlink.h).
func encodeAttribute(kind uint16, value ...uint32) []byte {
	b := make([]byte, 4, 4+4*len(value))
	binary.NativeEndian.PutUint16(b, uint16(cap(b)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	for _, v := range value {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

// TestParseBuffers: the sizes are in the attribute INET_DIAG_SKMEMINFO, by the order of
// SK_MEMINFO_* in linux/sock_diag.h. A connection without it has none, and an error of the kernel
// has its number.
func TestParseBuffers(t *testing.T) {
	memory := encodeAttribute(diagMemory, 1, 131072, 2, 87040, 3, 4, 5, 6, 7)
	shutdown := encodeAttribute(8, 3) // INET_DIAG_SHUTDOWN is one byte, with three of padding
	binary.NativeEndian.PutUint16(shutdown, 5)
	tooLong := encodeAttribute(diagMemory, 1, 2, 3, 4)
	binary.NativeEndian.PutUint16(tooLong, 200)
	refused := binary.NativeEndian.AppendUint32(nil, uint32(1<<32-int64(unix.EPERM)))
	end := encodeMessage(unix.NLMSG_DONE, make([]byte, 4))
	with, without := Buffers{5201, 40000, 87040, 131072}, Buffers{Local: 5201, Remote: 40000}
	for name, c := range map[string]struct {
		text []byte
		want []Buffers
		done bool
		err  string
	}{
		"more follow":         {encodeConnection(memory), []Buffers{with}, false, ""},
		"the end":             {slices.Concat(encodeConnection(memory), encodeConnection(), end), []Buffers{with, without}, true, ""},
		"after another":       {encodeConnection(shutdown, memory), []Buffers{with}, false, ""},
		"too few numbers":     {encodeConnection(encodeAttribute(diagMemory, 1, 2, 3)), []Buffers{without}, false, ""},
		"beyond the message":  {encodeConnection(tooLong), []Buffers{without}, false, ""},
		"shorter than itself": {encodeConnection([]byte{0, 0, 0, 0}), []Buffers{without}, false, ""},
		"refused":             {encodeMessage(unix.NLMSG_ERROR, refused), nil, true, "operation not permitted"},
		"refused in the end":  {slices.Concat(encodeConnection(memory), encodeMessage(unix.NLMSG_ERROR, refused)), []Buffers{with}, true, "operation not permitted"},
		"without a number":    {encodeMessage(unix.NLMSG_ERROR, nil), nil, true, "an error without a number"},
		"short":               {encodeMessage(unix.SOCK_DIAG_BY_FAMILY, make([]byte, 40)), nil, true, "one of 40 bytes, and not 72"},
		"cut off":             {encodeConnection(memory)[:80], nil, true, "read the connections"},
	} {
		got, done, err := parseBuffers(c.text)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if done != c.done || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: done %t, %v; want %t, %q", name, done, err, c.done, c.err)
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
