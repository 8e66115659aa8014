package kernel

import (
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// setDefaultRoute leaves one default route, whichever program made the old ones. It keeps other
// routes and other address families.
func TestSetDefaultRoute(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod")
	if err := netns.New(path); errors.Is(err, unix.EPERM) {
		t.Skip("needs the right to make network namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(path) })
	err := netns.Run(path, func() error {
		return errors.Join(
			veth("eth0", "p0", "10.0.0.2/24", "fd00::2/64"), veth("net1", "p1", "10.1.0.2/24", "fd01::2/64"),
			route("eth0", "0.0.0.0/0", "10.0.0.1", 0), route("net1", "0.0.0.0/0", "10.1.0.9", 7),
			route("eth0", "10.9.0.0/16", "10.0.0.1", 0), route("eth0", "::/0", "fd00::1", 0))
	})
	if err != nil {
		t.Fatal(err)
	}
	s := step.SetDefaultRoute{Netns: path, Interface: "net1", Gateways: []netip.Addr{netip.MustParseAddr("10.1.0.1")}}
	for range 2 { // the second time there is nothing to do
		if err := New(Options{}).setDefaultRoute(s); err != nil {
			t.Fatal(err)
		}
		want := []string{"10.9.0.0/16 via 10.0.0.1", "0.0.0.0/0 via 10.1.0.1", "::/0 via fd00::1"}
		if got := gateways(t, path); !slices.Equal(sorted(got), sorted(want)) {
			t.Errorf("-want +got\n%s", cmp.Diff(sorted(want), sorted(got)))
		}
	}
	s.Gateways = []netip.Addr{netip.MustParseAddr("fd01::1")}
	if err := New(Options{}).setDefaultRoute(s); err != nil {
		t.Fatal(err)
	}
	if got := gateways(t, path); !slices.Contains(got, "::/0 via fd01::1") || slices.Contains(got, "::/0 via fd00::1") || !slices.Contains(got, "0.0.0.0/0 via 10.1.0.1") {
		t.Errorf("IPv6: %v", got)
	}
	s.Interface = "none"
	if err := New(Options{}).setDefaultRoute(s); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no such interface: %v", err)
	}
	s.Netns = path + ".gone"
	if err := New(Options{}).setDefaultRoute(s); !errors.Is(err, vf.ErrNetnsGone) {
		t.Errorf("no such netns: %v", err)
	}
}

func sorted(all []string) []string { slices.Sort(all); return all }

// veth makes an interface that is up, and its peer.
func veth(name, peer string, addresses ...string) error {
	a := netlink.NewLinkAttrs()
	a.Name = name
	l := &netlink.Veth{LinkAttrs: a, PeerName: peer}
	if err := netlink.LinkAdd(l); err != nil {
		return err
	}
	p, err := netlink.LinkByName(peer)
	if err != nil {
		return err
	}
	errs := []error{netlink.LinkSetUp(p), netlink.LinkSetUp(l)}
	for _, s := range addresses {
		addr, err := netlink.ParseAddr(s)
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD
		errs = append(errs, netlink.AddrAdd(l, addr))
	}
	return errors.Join(errs...)
}

func route(name, dst, gateway string, priority int) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	_, to, err := net.ParseCIDR(dst)
	if err != nil {
		return err
	}
	// As other plugins make them: RTPROT_BOOT.
	return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: to, Gw: netip.MustParseAddr(gateway).AsSlice(), Priority: priority})
}

func gateways(t *testing.T, path string) (out []string) {
	t.Helper()
	c, err := New(Options{}).dialNetns(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := c.Routes(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all.Kept {
		if r.Gateway.IsValid() {
			out = append(out, r.Route.String())
		}
	}
	return out
}
