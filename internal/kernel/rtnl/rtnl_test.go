package rtnl

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

var byValue = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func TestAttrs(t *testing.T) {
	b := AppendString(nil, 3, "eth0")
	b = AppendUint32(b, 4, 1500)
	b = AppendNested(b, 5, AppendAttr(nil, 1, []byte{7}))
	got, err := Attrs(b)
	want := []Attr{{3, []byte("eth0\x00")}, {4, appendWords(1500)}, {5, AppendAttr(nil, 1, []byte{7})}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s\n%v", diff, err)
	}
	if s := got[0].Text(); s != "eth0" {
		t.Errorf("text %q", s)
	}
	for _, bad := range [][]byte{{3, 0, 0, 0}, {9, 0, 1, 0, 1}} {
		if _, err := Attrs(bad); err == nil {
			t.Errorf("%v read without an error", bad)
		}
	}
}

func TestAddr(t *testing.T) {
	for _, s := range []string{"10.56.0.10/24", "10.0.0.1/32", "192.0.2.0/31", "fd00::10/64"} {
		want := Addr{Index: 7, Prefix: netip.MustParsePrefix(s), Proto: ProtoCulvert}
		got, err := ParseAddr(want.encodeAddr())
		if diff := cmp.Diff(want, got, byValue); diff != "" || err != nil {
			t.Errorf("%s (-want +got):\n%s\n%v", s, diff, err)
		}
	}
	for _, flags := range []uint32{unix.IFA_F_NODAD, unix.IFA_F_TENTATIVE, unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_NOPREFIXROUTE} {
		want := Addr{Index: 7, Prefix: netip.MustParsePrefix("fd00::10/64"), Flags: flags}
		got, err := ParseAddr(want.encodeAddr())
		if diff := cmp.Diff(want, got, byValue); diff != "" || err != nil {
			t.Errorf("flags %#x (-want +got):\n%s\n%v", flags, diff, err)
		}
		isTentative, isDuplicate := flags == unix.IFA_F_TENTATIVE, flags&unix.IFA_F_DADFAILED != 0
		if got.IsTentative() != isTentative || got.IsDuplicate() != isDuplicate {
			t.Errorf("flags %#x: tentative %t, duplicate %t", flags, got.IsTentative(), got.IsDuplicate())
		}
	}
	header := addrHeader(unix.AF_INET6, 64, 7) // as a kernel before Linux 3.14 reports the flags
	header[2] = unix.IFA_F_TENTATIVE
	if got, err := ParseAddr(header); err != nil || !got.IsTentative() {
		t.Errorf("flags of the header: %+v %v", got, err)
	}
	if got := broadcastOf(netip.MustParsePrefix("10.56.3.10/22")); string(got) != "\x0a\x38\x03\xff" {
		t.Errorf("broadcast %v", got)
	}
}

func TestRoute(t *testing.T) {
	for _, r := range []vf.Route{
		{Dst: netip.MustParsePrefix("10.20.0.0/16"), Gateway: netip.MustParseAddr("10.56.0.1"), MTU: 1400, Priority: 50},
		{Dst: netip.MustParsePrefix("10.30.0.0/16")},
		{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.56.0.1")},
		{Dst: netip.MustParsePrefix("::/0"), Gateway: netip.MustParseAddr("fd00::1")},
		{Dst: netip.MustParsePrefix("10.40.0.0/16"), Gateway: netip.MustParseAddr("192.0.2.1"), OnLink: true, Table: 70000, AdvMSS: 1300, MTU: 1400},
		{Dst: netip.MustParsePrefix("10.50.0.0/16"), Scope: unix.RT_SCOPE_HOST, Table: 7},
		{Dst: netip.MustParsePrefix("fd01::/64"), Gateway: netip.MustParseAddr("fd00::1"), OnLink: true, Table: 100, AdvMSS: 1200},
	} {
		want := Route{Index: 7, Route: r}
		got, ok, err := ParseRoute(want.encodeRoute())
		if diff := cmp.Diff(want, got, byValue); diff != "" || err != nil || !ok {
			t.Errorf("%s (-want +got):\n%s\n%v, %v", r.Dst, diff, ok, err)
		}
	}
}

func TestRouteOfOthers(t *testing.T) {
	message := func(change func(b []byte)) []byte {
		b := Route{Index: 7, Route: vf.Route{Dst: netip.MustParsePrefix("10.0.0.0/8")}}.encodeRoute()
		change(b)
		return b
	}
	for _, tt := range []struct {
		name      string
		b         []byte
		ok        bool
		automatic bool
	}{
		{"ours", message(func([]byte) {}), true, false},
		{"the kernel's", message(func(b []byte) { b[5] = rtprotKernel }), true, true},
		{"of router advertisements", message(func(b []byte) { b[5] = rtprotRA }), true, true},
		{"of the local table", message(func(b []byte) { b[4] = unix.RT_TABLE_LOCAL }), false, false},
		{"multicast", message(func(b []byte) { b[7] = unix.RTN_MULTICAST }), false, false},
		{"a cache entry", message(func(b []byte) { binary.NativeEndian.PutUint32(b[8:], unix.RTM_F_CLONED) }), false, false},
		{"MPLS", message(func(b []byte) { b[0] = unix.AF_MPLS }), false, false},
	} {
		r, ok, err := ParseRoute(tt.b)
		if ok != tt.ok || r.Automatic != tt.automatic || err != nil {
			t.Errorf("%s: %v, automatic %v, %v", tt.name, ok, r.Automatic, err)
		}
	}
}

// message is one netlink message to port 5.
func message(typ, flags uint16, seq uint32, body []byte) []byte {
	b := Request{Type: typ, Flags: flags, Body: body}.encodeRequest(seq)
	binary.NativeEndian.PutUint32(b[12:], 5)
	return append(b, make([]byte, align4(len(b))-len(b))...)
}

func TestAnswer(t *testing.T) {
	refusal := appendWords(0xffffffea, 0, 0, 0, 0) // -EINVAL and the request's header, whose echo is off
	refusal = AppendString(refusal, nlmsgerrMsg, "mtu greater than device maximum")
	multi := uint16(unix.NLM_F_MULTI)
	for _, tt := range []struct {
		name    string
		request Request
		in      [][]byte
		bodies  int
		errno   unix.Errno
		text    string
	}{
		{"one answer", Request{}, [][]byte{message(16, 0, 1, appendWords(1))}, 1, 0, ""},
		{"an acknowledgement", Request{Flags: unix.NLM_F_ACK}, [][]byte{message(unix.NLMSG_ERROR, 0, 1, appendWords(0))}, 0, 0, ""},
		{"a list", Request{Flags: unix.NLM_F_DUMP}, [][]byte{
			append(message(16, multi, 1, appendWords(1)), message(16, multi, 1, appendWords(2))...),
			message(unix.NLMSG_DONE, multi, 1, appendWords(0)),
		}, 2, 0, ""},
		{"somebody else's first", Request{}, [][]byte{message(16, 0, 9, appendWords(1)), message(16, 0, 1, appendWords(2))}, 1, 0, ""},
		{"a refusal", Request{}, [][]byte{message(unix.NLMSG_ERROR, 0, 1, refusal)}, 0, unix.EINVAL,
			"invalid argument: mtu greater than device maximum"},
		{"a cut acknowledgement", Request{Flags: unix.NLM_F_ACK}, [][]byte{message(unix.NLMSG_ERROR, 0, 1, []byte{0, 0})}, 0, 0,
			"netlink acknowledgement of 2 bytes, too short to say whether it was done"},
	} {
		var a answer
		var err error
		for _, b := range tt.in {
			if err = a.takeDatagram(b, 1, 5, tt.request); err != nil {
				break
			}
		}
		if !a.done || len(a.bodies) != tt.bodies || (tt.errno != 0) != errors.Is(err, tt.errno) || err != nil && err.Error() != tt.text {
			t.Errorf("%s: done %v, %d bodies, %v", tt.name, a.done, len(a.bodies), err)
		}
	}
}

// Conn can read the loopback interface in the netns of the test, on any machine.
func TestConn(t *testing.T) {
	c, err := Dial()
	if err != nil {
		t.Skip(err) // a sandbox without netlink
	}
	defer c.Close()
	lo, err := c.LinkNamed("lo")
	if err != nil {
		t.Fatal(err)
	}
	links, err := c.Links()
	if err != nil {
		t.Fatal(err)
	}
	if len(links) == 0 || links[0].Name != lo.Name {
		t.Errorf("%+v and %+v", lo, links)
	}
	if _, err := c.Link(1<<30, true); !errors.Is(err, unix.ENODEV) {
		t.Errorf("a link that is not there: %v", err)
	}
	if _, err := c.Addrs(lo.Index); err != nil {
		t.Error(err)
	}
	if _, err := c.Routes(0); err != nil {
		t.Error(err)
	}
}
