package rtnl

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// DelRoute removes a route that Routes lists, whatever its protocol, scope, table and metrics are.
func TestDelRouteRemovesAnyRoute(t *testing.T) {
	route := func(dst string, change func(*vf.Route)) vf.Route {
		r := vf.Route{Dst: netip.MustParsePrefix(dst)}
		change(&r)
		return r
	}
	beyond := netip.MustParseAddr("192.0.2.1")
	all := []vf.Route{
		route("10.1.0.0/16", func(*vf.Route) {}),
		route("10.2.0.0/16", func(r *vf.Route) { r.MTU, r.AdvMSS = 1400, 1300 }),
		route("10.3.0.0/16", func(r *vf.Route) { r.Table, r.Priority = 70000, 7 }),
		route("10.4.0.0/16", func(r *vf.Route) { r.Scope = unix.RT_SCOPE_HOST }),
		route("10.5.0.0/16", func(r *vf.Route) { r.Gateway, r.OnLink = beyond, true }),
		route("fd01::/64", func(r *vf.Route) { r.MTU = 1400 }),
	}
	var before, after []Route
	var errs []error
	inNewNetns(t, func() error {
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		link, err := addVeth(c, "v0")
		if err != nil {
			return err
		}
		if err := c.SetLink(link.Index, unix.IFF_UP, unix.IFF_UP, nil); err != nil {
			return err
		}
		// Without an address there is no local table, in which the kernel looks for a gateway.
		own := Addr{Index: link.Index, Prefix: netip.MustParsePrefix("10.9.0.1/24")}
		if err := c.AddAddr(own); err != nil {
			return err
		}
		for i, r := range all {
			body := Route{Index: link.Index, Route: r}.encodeRoute()
			body[5] = []byte{unix.RTPROT_BOOT, unix.RTPROT_STATIC}[i%2]
			flags := uint16(unix.NLM_F_ACK | unix.NLM_F_CREATE)
			add := Request{Type: unix.RTM_NEWROUTE, Flags: flags, Body: body}
			if _, err := c.Do(add); err != nil {
				return err
			}
		}
		list := func() []Route {
			got, err := c.Routes(link.Index)
			errs = append(errs, err)
			return got.Kept
		}
		before = list()
		for _, r := range before {
			errs = append(errs, c.DelRoute(r))
		}
		after = list()
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if len(before) != len(all) || len(after) != 0 {
		t.Errorf("made %d routes, listed %v, and after their removal %v", len(all), before, after)
	}
}

// DelAddr removes one address. EADDRNOTAVAIL says that the link does not have it.
func TestDelAddrRemovesOneAddress(t *testing.T) {
	var left List[Addr]
	var link Link
	var errs [3]error
	first, second := netip.MustParsePrefix("10.1.0.1/24"), netip.MustParsePrefix("10.1.0.2/24")
	inNewNetns(t, func() error {
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		if link, err = addVeth(c, "v0"); err != nil {
			return err
		}
		for _, p := range []netip.Prefix{first, second} {
			a := Addr{Index: link.Index, Prefix: p, Proto: ProtoCulvert}
			if err := c.AddAddr(a); err != nil {
				return err
			}
		}
		errs[0] = c.DelAddr(Addr{Index: link.Index, Prefix: second})
		errs[1] = c.DelAddr(Addr{Index: link.Index, Prefix: second})
		left, errs[2] = c.Addrs(link.Index)
		return nil
	})
	if errs[0] != nil || !errors.Is(errs[1], unix.EADDRNOTAVAIL) || errs[2] != nil {
		t.Errorf("removed: %v; again: %v; list: %v", errs[0], errs[1], errs[2])
	}
	if len(left.Kept) != 1 || left.Kept[0].Prefix != first {
		t.Errorf("left are %+v", left.Kept)
	}
}

// The tables of a new netns have no routes, which is no error. A strict dump of a table that was
// never used answers ENOENT.
func TestNoRoutesIsNoError(t *testing.T) {
	got, err := List[Route]{Kept: make([]Route, 1)}, error(nil)
	inNewNetns(t, func() error {
		c, dialErr := Dial()
		if dialErr != nil {
			return dialErr
		}
		defer c.Close()
		got, err = c.Routes(0)
		return nil
	})
	if len(got.Kept) != 0 || err != nil {
		t.Errorf("%v, %v", got.Kept, err)
	}
	for errno, want := range map[unix.Errno]bool{
		unix.ENOENT: true, unix.EAFNOSUPPORT: true, unix.EOPNOTSUPP: true,
		unix.EPERM: false, unix.EBUSY: false,
	} {
		if noSuchTable(&KernelError{Errno: errno}) != want {
			t.Errorf("%v says that there is no table: %t", errno, !want)
		}
	}
}

// DelLink removes a link, and with a veth its peer. ENODEV says that there is none.
func TestDelLink(t *testing.T) {
	var left []Link
	var errs [3]error
	inNewNetns(t, func() error {
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		link, err := addVeth(c, "v0")
		if err != nil {
			return err
		}
		errs[0] = c.DelLink(link.Index)
		errs[1] = c.DelLink(link.Index)
		left, errs[2] = c.FindLinks(func(l Link) bool { return l.Kind == "veth" })
		return nil
	})
	if errs[0] != nil || !errors.Is(errs[1], unix.ENODEV) || errs[2] != nil || len(left) != 0 {
		t.Errorf("removed: %v; again: %v; left are %v, %v", errs[0], errs[1], left, errs[2])
	}
}
