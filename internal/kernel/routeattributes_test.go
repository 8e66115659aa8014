package kernel

import (
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// The kernel takes every attribute of a route that the CNI project's host-local passes on, and
// reads it back.
func TestRouteAttributes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod")
	if err := netns.New(path); errors.Is(err, unix.EPERM) {
		t.Skip("needs the right to make network namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(path) })
	if err := netns.Run(path, func() error { return veth("net1", "p1", "10.1.0.2/24", "fd01::2/64") }); err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{}).dialNetns(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.LinkNamed("net1")
	if err != nil {
		t.Fatal(err)
	}
	to := netip.MustParsePrefix
	via := netip.MustParseAddr
	routes := []vf.Route{
		{Dst: to("10.20.0.0/16"), Gateway: via("10.1.0.1"), MTU: 1400, AdvMSS: 1300, Priority: 7},
		{Dst: to("10.20.0.0/16"), Gateway: via("10.1.0.1"), Table: 100},
		{Dst: to("0.0.0.0/0"), Gateway: via("192.0.2.1"), OnLink: true, Table: 70000},
		{Dst: to("10.30.0.0/16"), Gateway: via("192.0.2.1"), OnLink: true},
		{Dst: to("10.40.0.0/16"), Scope: unix.RT_SCOPE_HOST},
		{Dst: to("10.50.0.0/16"), Scope: unix.RT_SCOPE_LINK},
		{Dst: to("fd02::/64"), Gateway: via("fd01::1"), AdvMSS: 1200, Table: 100},
		{Dst: to("fd03::/64"), Gateway: via("fd09::1"), OnLink: true},
	}
	for _, r := range routes {
		for range 2 { // the second time it is there
			if err := addRoute(c, l, r); err != nil {
				t.Errorf("%s: %v", r, err)
			}
		}
	}
	got, err := c.FindRoutes(l.Index, func(r rtnl.Route) bool { return !r.Automatic })
	if err != nil {
		t.Fatal(err)
	}
	var have []vf.Route
	for _, r := range got.Kept {
		have = append(have, r.Route)
	}
	routes[5].Scope = 0 // what follows from there being no gateway
	byText := func(a, b vf.Route) int { return slices.Compare([]byte(a.String()), []byte(b.String())) }
	slices.SortFunc(routes, byText)
	slices.SortFunc(have, byText)
	if d := cmp.Diff(routes, have, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for _, r := range got.Kept {
		if err := c.DelRoute(r); err != nil {
			t.Errorf("remove %s: %v", r.Route, err)
		}
	}
	if err := addRoute(c, l, vf.Route{Dst: to("10.60.0.0/16"), Gateway: via("192.0.2.1")}); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("a gateway elsewhere: %v", err)
	}
}
