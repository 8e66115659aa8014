package kernel

import (
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// A default route of IPv4 goes in front of the pod's, as ConfigureIface of the CNI project's
// plugins (pkg/ipam) adds it. A second one of IPv6 is refused, since the kernel would make
// one route with two next hops of both.
func TestSecondDefaultRoute(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod")
	if err := netns.New(path); errors.Is(err, unix.EPERM) {
		t.Skip("needs the right to make network namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(path) })
	err := netns.Run(path, func() error {
		return errors.Join(veth("eth0", "p0", "10.1.0.2/24", "fd01::2/64"), veth("net1", "p1", "10.2.0.2/24", "fd02::2/64"))
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{}).dialNetns(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	add := func(name, dst, gateway string) error {
		l, err := c.LinkNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		return addRoute(c, l, vf.Route{Dst: netip.MustParsePrefix(dst), Gateway: netip.MustParseAddr(gateway)})
	}
	err = errors.Join(add("eth0", "0.0.0.0/0", "10.1.0.1"), add("eth0", "::/0", "fd01::1"), add("net1", "0.0.0.0/0", "10.2.0.1"), add("net1", "0.0.0.0/0", "10.2.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := add("net1", "::/0", "fd02::1"); !errors.Is(err, vf.ErrRouteTaken) {
		t.Errorf("a second default route of IPv6: %v", err)
	}
	got, err := c.FindRoutes(0, func(r rtnl.Route) bool { return r.Dst.Bits() == 0 && !r.Automatic })
	if err != nil {
		t.Fatal(err)
	}
	var gateways []string
	for _, r := range got.Kept {
		gateways = append(gateways, r.Gateway.String())
	}
	if want := []string{"10.2.0.1", "10.1.0.1", "fd01::1"}; !slices.Equal(gateways, want) {
		t.Errorf("the default routes go by %v, want %v", gateways, want)
	}
}
