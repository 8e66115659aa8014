package fake

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// podNetns is the netns of the pod in these tests.
const podNetns = "/run/netns/c1"

// doSteps carries out steps, all of which must succeed.
func doSteps(t *testing.T, k *Kernel, steps ...step.Step) {
	t.Helper()
	for _, s := range steps {
		must(t, k.Do(t.Context(), s))
	}
}

// podLink reads the netdevice of a VF in podNetns, or on the host. The result is nil if it is
// elsewhere.
func podLink(t *testing.T, k *Kernel, a vf.PCIAddr) *vf.Link {
	t.Helper()
	st, err := k.VF(t.Context(), a, podNetns)
	must(t, err)
	return st.Link
}

// inPod returns a machine with a PF of three VFs. The first VF is in podNetns as net1, up, with the
// address 10.0.0.1/24. The second one is there as net2, down. The third one is on the host.
func inPod(t *testing.T) (k *Kernel, a, b, c vf.PCIAddr) {
	t.Helper()
	k, pf := made(t, IGB, 3)
	k.AddNetns(podNetns)
	a, b, c = pf.VFs[0].PCI, pf.VFs[1].PCI, pf.VFs[2].PCI
	doSteps(t, k, step.Move{VF: a, To: podNetns, Name: "net1"}, step.Move{VF: b, To: podNetns, Name: "net2"},
		step.SetUp{VF: a, Netns: podNetns, Up: true}, step.AddAddress{VF: a, Netns: podNetns, Address: netip.MustParsePrefix("10.0.0.1/24")})
	return k, a, b, c
}

func routeVia(dst, gateway string) vf.Route {
	r := vf.Route{Dst: netip.MustParsePrefix(dst)}
	if gateway != "" {
		r.Gateway = netip.MustParseAddr(gateway)
	}
	return r
}

// TestLinkStepsThatFail has the errors of Linux for steps on a netdevice. A step that fails changes
// nothing.
func TestLinkStepsThatFail(t *testing.T) {
	for _, c := range []struct {
		name string
		step func(a, b, c vf.PCIAddr) step.Step // of the VFs of inPod
		want error
	}{
		// __dev_change_net_namespace (net/core/dev.c).
		{"move to a name that is taken", func(_, _, v vf.PCIAddr) step.Step { return step.Move{VF: v, To: podNetns, Name: "net1"} }, syscall.EEXIST},
		{"move to a netns that is gone", func(_, _, v vf.PCIAddr) step.Step { return step.Move{VF: v, To: "/gone", Name: "net3"} }, vf.ErrNetnsGone},
		{"move from where it is not", func(v, _, _ vf.PCIAddr) step.Step { return step.Move{VF: v, To: podNetns, Name: "net3"} }, vf.ErrNotFound},
		// dev_change_name and dev_get_valid_name (net/core/dev.c). Linux 6.2 and later renames a
		// netdevice that is up.
		{"rename what is up", func(v, _, _ vf.PCIAddr) step.Step { return step.Rename{VF: v, Netns: podNetns, Name: "net3"} }, syscall.EBUSY},
		{"rename to a name that is taken", func(_, v, _ vf.PCIAddr) step.Step { return step.Rename{VF: v, Netns: podNetns, Name: "net1"} }, syscall.EEXIST},
		// dev_validate_mtu (net/core/dev.c); 68 is ETH_MIN_MTU (uapi linux/if_ether.h).
		{"MTU too small", func(v, _, _ vf.PCIAddr) step.Step { return step.SetMTU{VF: v, Netns: podNetns, MTU: 67} }, syscall.EINVAL},
		{"MTU too large", func(v, _, _ vf.PCIAddr) step.Step { return step.SetMTU{VF: v, Netns: podNetns, MTU: IGB.MaxMTU + 1} }, syscall.EINVAL},
		// inet_rtm_newaddr with NLM_F_EXCL (net/ipv4/devinet.c).
		{"address twice", func(v, _, _ vf.PCIAddr) step.Step {
			return step.AddAddress{VF: v, Netns: podNetns, Address: netip.MustParsePrefix("10.0.0.1/24")}
		}, syscall.EEXIST},
		// fib_check_nh_nongw and fib_check_nh_v4_gw (net/ipv4/fib_semantics.c).
		{"route over what is down", func(_, v, _ vf.PCIAddr) step.Step {
			return step.AddRoute{VF: v, Netns: podNetns, Route: routeVia("10.1.0.0/16", "")}
		}, syscall.ENETDOWN},
		{"route over a gateway beyond the link", func(v, _, _ vf.PCIAddr) step.Step {
			return step.AddRoute{VF: v, Netns: podNetns, Route: routeVia("10.1.0.0/16", "10.0.1.1")}
		}, syscall.ENETUNREACH},
		{"in a netns that is gone", func(v, _, _ vf.PCIAddr) step.Step { return step.SetUp{VF: v, Netns: "/gone"} }, vf.ErrNetnsGone},
		{"on the host, but it is in the pod", func(v, _, _ vf.PCIAddr) step.Step { return step.ClearPromisc{VF: v} }, vf.ErrNotFound},
		{"on no VF", func(vf.PCIAddr, vf.PCIAddr, vf.PCIAddr) step.Step {
			return step.SetMTU{VF: vf.PCIAddr{Bus: 99}, MTU: 1500}
		}, vf.ErrNotFound},
		{"default route in a netns that is gone", func(vf.PCIAddr, vf.PCIAddr, vf.PCIAddr) step.Step { return step.SetDefaultRoute{Netns: "/gone"} }, vf.ErrNetnsGone},
		{"on a bond that is not there", func(v, _, _ vf.PCIAddr) step.Step {
			return step.SetUp{VF: v, Netns: podNetns, Bond: "bond0", Up: true}
		}, vf.ErrNotFound},
		{"on a bond in a netns that is gone", func(v, _, _ vf.PCIAddr) step.Step {
			return step.SetUp{VF: v, Netns: "/gone", Bond: "bond0", Up: true}
		}, vf.ErrNetnsGone},
	} {
		k, first, second, third := inPod(t)
		before := k.String()
		if err := k.Do(t.Context(), c.step(first, second, third)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if diff := cmp.Diff(before, k.String()); diff != "" {
			t.Errorf("%s changes something: -before +after:\n%s", c.name, diff)
		}
	}
}

// TestMoveStripsLink: a netdevice that changes its netns arrives down, without addresses and
// routes, and with its MAC address and MTU. It keeps its ifindex where that is free
// (__dev_change_net_namespace of net/core/dev.c: it closes the netdevice and notifies
// NETDEV_UNREGISTER).
func TestMoveStripsLink(t *testing.T) {
	k, v, _, _ := inPod(t)
	doSteps(t, k, step.SetMTU{VF: v, Netns: podNetns, MTU: 4000}, step.AddRoute{VF: v, Netns: podNetns, Route: routeVia("10.1.0.0/16", "10.0.0.254")})
	before, shown := *podLink(t, k, v), k.Shown()
	if !before.Up || len(before.Addrs) != 1 || len(before.Routes) != 1 {
		t.Fatalf("in the pod: %+v", before)
	}
	doSteps(t, k, step.Move{VF: v, From: podNetns, Name: "enp1s0v0"})
	want := vf.Link{Index: before.Index, Name: "enp1s0v0", MAC: before.MAC, MTU: 4000}
	if diff := cmp.Diff(want, *podLink(t, k, v), cmpopts.IgnoreFields(vf.Link{}, "Attributes")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := k.Shown(); got != shown+1 {
		t.Errorf("the host got to see %d netdevices, and then %d", shown, got)
	}
	doSteps(t, k, step.Move{VF: v, Name: "eth9"}) // within the host
	if got := k.Shown(); got != shown+1 || podLink(t, k, v).Name != "eth9" {
		t.Errorf("another name on the host: %d netdevices, %+v", got, podLink(t, k, v))
	}
}

// TestDownDropsRoutes: the routes of a netdevice that goes down end (fib_netdev_event, NETDEV_DOWN,
// of net/ipv4/fib_frontend.c), and its IPv6 addresses (addrconf_ifdown of net/ipv6/addrconf.c,
// without keep_addr_on_down). Its IPv4 addresses stay.
func TestDownDropsRoutes(t *testing.T) {
	k, v, _, _ := inPod(t)
	doSteps(t, k, step.AddAddress{VF: v, Netns: podNetns, Address: netip.MustParsePrefix("fd00::1/64")},
		step.AddRoute{VF: v, Netns: podNetns, Route: routeVia("10.1.0.0/16", "10.0.0.254")}, step.SetUp{VF: v, Netns: podNetns})
	l := podLink(t, k, v)
	if l.Up || l.Carrier || len(l.Routes) != 0 || !slices.Equal(l.Addrs, []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}) {
		t.Errorf("down: %+v", l)
	}
	doSteps(t, k, step.Rename{VF: v, Netns: podNetns, Name: "net9"}, step.SetUp{VF: v, Netns: podNetns, Up: true})
	if l := podLink(t, k, v); !l.Up || !l.Carrier || l.Name != "net9" {
		t.Errorf("up again: %+v", l)
	}
}

// TestPromiscIsCleared: ClearPromisc clears the flags that the pod has set (IFF_PROMISC and
// IFF_ALLMULTI of uapi linux/if.h), and changes nothing else.
func TestPromiscIsCleared(t *testing.T) {
	k, v, _, _ := inPod(t)
	must(t, k.Meddle(v, func(s *vf.State) { s.Link.Promisc, s.Link.AllMulti = true, true }))
	if l := podLink(t, k, v); !l.Promisc || !l.AllMulti {
		t.Fatalf("%+v", l)
	}
	doSteps(t, k, step.ClearPromisc{VF: v, Netns: podNetns})
	if l := podLink(t, k, v); l.Promisc || l.AllMulti || !l.Up || len(l.Addrs) != 1 {
		t.Errorf("%+v", l)
	}
}

// TestLinkMAC: a VF may choose its MAC address if its PF answers and has set no other one. Else
// igbvf_set_mac (drivers/net/ethernet/intel/igbvf/netdev.c) returns EADDRNOTAVAIL.
func TestLinkMAC(t *testing.T) {
	own, other := vf.MAC{2, 0, 0, 0, 0, 1}, vf.MAC{2, 0, 0, 0, 0, 2}
	for _, c := range []struct {
		name   string
		admin  vf.MAC
		silent bool
		want   error
	}{
		{"no admin MAC", vf.MAC{}, false, nil},
		{"the admin MAC", own, false, nil},
		{"another than the admin MAC", other, false, syscall.EADDRNOTAVAIL},
		{"a PF that does not answer", vf.MAC{}, true, syscall.EADDRNOTAVAIL},
	} {
		k, v, _, _ := inPod(t)
		before := podLink(t, k, v).MAC
		doSteps(t, k, step.SetVFMAC{PF: first(t, k).PCI, MAC: c.admin})
		must(t, k.SetMailbox(first(t, k).PCI, !c.silent))
		err := k.Do(t.Context(), step.SetLinkMAC{VF: v, Netns: podNetns, MAC: own})
		want := own
		if c.want != nil {
			want = before
		}
		if got := podLink(t, k, v).MAC; !errors.Is(err, c.want) || got != want {
			t.Errorf("%s: %s, %v; want %s, %v", c.name, got, err, want, c.want)
		}
	}
}

// TestRouteOfAnother: the kernel refuses an IPv6 route that another netdevice of the netns has with
// the same priority in the same table (EEXIST with NLM_F_EXCL, fib6_add_rt2node of
// net/ipv6/ip6_fib.c). An IPv4 route goes in front of the other one.
func TestRouteOfAnother(t *testing.T) {
	for _, c := range []struct {
		name   string
		have   vf.Route
		change func(*vf.Route)
		want   error
	}{
		{"IPv6", routeVia("fd01::/64", ""), func(*vf.Route) {}, vf.ErrRouteTaken},
		{"IPv6, with bits of a host", routeVia("fd01::/64", ""), func(r *vf.Route) { r.Dst = netip.MustParsePrefix("fd01::5/64") }, vf.ErrRouteTaken},
		{"another priority", routeVia("fd01::/64", ""), func(r *vf.Route) { r.Priority = 5 }, nil},
		{"another table", routeVia("fd01::/64", ""), func(r *vf.Route) { r.Table = 100 }, nil},
		{"a longer prefix", routeVia("fd01::/64", ""), func(r *vf.Route) { r.Dst = netip.MustParsePrefix("fd01::/65") }, nil},
		{"IPv4", routeVia("10.1.0.0/16", ""), func(*vf.Route) {}, nil},
	} {
		k, a, b, _ := inPod(t)
		doSteps(t, k, step.SetUp{VF: b, Netns: podNetns, Up: true}, step.AddRoute{VF: a, Netns: podNetns, Route: c.have})
		other := c.have
		c.change(&other)
		err := k.Do(t.Context(), step.AddRoute{VF: b, Netns: podNetns, Route: other})
		if !errors.Is(err, c.want) || c.want != nil && !errors.Is(err, syscall.EEXIST) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got := podLink(t, k, b).Routes; (len(got) == 1) != (c.want == nil) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	// A gateway that is said to be on the link needs no address there (RTNH_F_ONLINK of uapi
	// linux/rtnetlink.h).
	k, a, _, _ := inPod(t)
	route := routeVia("10.1.0.0/16", "192.0.2.1")
	route.OnLink = true
	doSteps(t, k, step.AddRoute{VF: a, Netns: podNetns, Route: route})
}

// TestDefaultRoute: the interface gets the only default route of the netns, for the families of the
// gateways. Default routes of the other family, of other tables, and routes to other places stay.
func TestDefaultRoute(t *testing.T) {
	k, a, b, _ := inPod(t)
	for _, v := range []vf.PCIAddr{a, b} {
		doSteps(t, k, step.SetUp{VF: v, Netns: podNetns, Up: true}, step.AddAddress{VF: v, Netns: podNetns, Address: netip.MustParsePrefix("10.0.0.2/24")},
			step.AddAddress{VF: v, Netns: podNetns, Address: netip.MustParsePrefix("fd00::2/64")})
	}
	inTable := routeVia("0.0.0.0/0", "10.0.0.250")
	inTable.Table = 100
	four, six, near := routeVia("0.0.0.0/0", "10.0.0.250"), routeVia("::/0", "fd00::fe"), routeVia("10.1.0.0/16", "10.0.0.250")
	for _, r := range []vf.Route{four, six, near, inTable} {
		doSteps(t, k, step.AddRoute{VF: a, Netns: podNetns, Route: r})
	}
	check := func(what string, wantA, wantB []vf.Route) {
		t.Helper()
		for v, want := range map[vf.PCIAddr][]vf.Route{a: wantA, b: wantB} {
			if diff := cmp.Diff(want, podLink(t, k, v).Routes, cmp.Comparer(func(x, y vf.Route) bool { return x == y }), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, VF %s: -want +got:\n%s", what, v, diff)
			}
		}
	}
	gateways := func(all ...string) (out []netip.Addr) {
		for _, g := range all {
			out = append(out, netip.MustParseAddr(g))
		}
		return out
	}
	doSteps(t, k, step.SetDefaultRoute{Netns: podNetns, Interface: "net2", Gateways: gateways("10.0.0.1")})
	check("IPv4", []vf.Route{six, near, inTable}, []vf.Route{routeVia("0.0.0.0/0", "10.0.0.1")})
	doSteps(t, k, step.SetDefaultRoute{Netns: podNetns, Interface: "net2", Gateways: gateways("fd00::1", "10.0.0.3")})
	check("both", []vf.Route{near, inTable}, []vf.Route{routeVia("::/0", "fd00::1"), routeVia("0.0.0.0/0", "10.0.0.3")})
	doSteps(t, k, step.SetDefaultRoute{Netns: podNetns, Interface: "eth0", Gateways: gateways("10.9.0.1")})
	check("of another plugin's interface", []vf.Route{near, inTable}, []vf.Route{routeVia("::/0", "fd00::1")})
	if err := k.Do(t.Context(), step.SetDefaultRoute{Netns: podNetns, Interface: "net2", Gateways: gateways("192.0.2.1")}); !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("a gateway beyond the link: %v", err)
	}
}

// TestDuplicateDetection: an IPv6 address that is added for detection is tentative until the
// netdevice has carrier (IFA_F_TENTATIVE of uapi linux/if_addr.h; addrconf_dad_begin of
// net/ipv6/addrconf.c). Then it is usable, or a duplicate if another machine has it
// (IFA_F_DADFAILED).
func TestDuplicateDetection(t *testing.T) {
	free, taken, ofPF := netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("fd00::2/64"), netip.MustParsePrefix("fd00::3/64")
	four, quick := netip.MustParsePrefix("10.0.0.9/24"), netip.MustParsePrefix("fd00::4/64")
	k, _, v, _ := inPod(t)
	k.SetElsewhere(taken.Addr(), true)
	must(t, k.AddOthersAddress(first(t, k).PCI, ofPF))
	for _, a := range []netip.Prefix{free, taken, ofPF, four} {
		doSteps(t, k, step.AddAddress{VF: v, Netns: podNetns, Address: a, Detect: true})
	}
	doSteps(t, k, step.AddAddress{VF: v, Netns: podNetns, Address: quick})
	if got := podLink(t, k, v).Tentative; !slices.Equal(got, []netip.Prefix{free, taken, ofPF}) {
		t.Errorf("tentative: %v", got)
	}
	detect := func(all ...netip.Prefix) error {
		return k.Do(t.Context(), step.DetectDuplicates{VF: v, Netns: podNetns, Addresses: all})
	}
	if err := detect(free); !errors.Is(err, vf.ErrTimeout) {
		t.Errorf("without carrier: %v", err)
	}
	doSteps(t, k, step.SetUp{VF: v, Netns: podNetns, Up: true})
	var duplicate vf.DuplicateError
	if err := detect(free, taken, ofPF, quick); !errors.As(err, &duplicate) || !slices.Equal(duplicate.Addresses, []netip.Addr{taken.Addr(), ofPF.Addr()}) {
		t.Errorf("duplicates: %v", err)
	}
	if l := podLink(t, k, v); len(l.Tentative) != 0 || !slices.Equal(l.Duplicates, []netip.Prefix{taken, ofPF}) || len(l.Addrs) != 5 {
		t.Errorf("after the detection: %+v", l)
	}
	if err := detect(free, quick); err != nil {
		t.Errorf("of addresses that no other machine has: %v", err)
	}
	// Another machine that goes away does not make a duplicate usable: only adding it anew does.
	k.SetElsewhere(taken.Addr(), false)
	if err := detect(taken); !errors.Is(err, vf.ErrDuplicate) {
		t.Errorf("still a duplicate: %v", err)
	}
	doSteps(t, k, step.DelAddress{VF: v, Netns: podNetns, Address: taken})
	if l := podLink(t, k, v); slices.Contains(l.Addrs, taken) || slices.Contains(l.Duplicates, taken) {
		t.Errorf("after its removal: %+v", l)
	}
	doSteps(t, k, step.AddAddress{VF: v, Netns: podNetns, Address: taken, Detect: true})
	if err := detect(taken); err != nil {
		t.Errorf("added anew: %v", err)
	}
}
