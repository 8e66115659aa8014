package kernel_test

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// BenchmarkLabAttach measures the steps of one attach and detach. For comparison, it also sends the
// same netlink messages over sockets that are already open.
func BenchmarkLabAttach(b *testing.B) {
	n := labNode(b)
	v := n.bound(0, 0)
	pod := "/run/netns/bench"
	if err := netns.New(pod); err != nil {
		b.Fatal(err)
	}
	defer netns.Delete(pod)
	addr, route := prefix("10.56.0.10/24"), vf.Route{Dst: prefix("10.20.0.0/16"), Gateway: netip.MustParseAddr("10.56.0.1")}
	steps := []struct {
		name string
		step.Step
	}{
		{"move", step.Move{VF: v.PCI, To: pod, Name: "net1"}},
		{"up", step.SetUp{VF: v.PCI, Netns: pod, Up: true}},
		{"address", step.AddAddress{VF: v.PCI, Netns: pod, Address: addr}},
		{"route", step.AddRoute{VF: v.PCI, Netns: pod, Route: route}},
		{"down", step.SetUp{VF: v.PCI, Netns: pod}},
		{"back", step.Move{VF: v.PCI, From: pod, Name: v.Link.Name}},
	}
	b.Run("steps", func(b *testing.B) {
		clock := newClock(b)
		for range b.N {
			for _, s := range steps {
				n.do(s.Step)
				clock.lap(s.name)
			}
		}
		clock.report()
	})
	b.Run("bare", func(b *testing.B) { bareAttach(b, v, pod, addr, route) })
}

func bareAttach(b *testing.B, v vf.State, pod string, addr netip.Prefix, route vf.Route) {
	host, err := rtnl.Dial()
	if err != nil {
		b.Fatal(err)
	}
	defer host.Close()
	var inside *rtnl.Conn
	if err := netns.Run(pod, func() (err error) { inside, err = rtnl.Dial(); return err }); err != nil {
		b.Fatal(err)
	}
	defer inside.Close()
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	move := func(from *rtnl.Conn, index int, to, name string) {
		f, err := netns.Open(to)
		check(err)
		defer f.Close()
		attrs := rtnl.AppendUint32(nil, unix.IFLA_NET_NS_FD, uint32(f.Fd()))
		check(from.SetLink(index, 0, 0, rtnl.AppendString(attrs, unix.IFLA_IFNAME, name)))
	}
	clock := newClock(b)
	for range b.N {
		there, err := host.LinkNamed(v.Link.Name)
		check(err)
		move(host, there.Index, pod, "net1")
		clock.lap("move")
		l, err := inside.LinkNamed("net1")
		check(err)
		check(inside.SetLink(l.Index, unix.IFF_UP, unix.IFF_UP, nil))
		clock.lap("up")
		check(inside.AddAddr(rtnl.Addr{Index: l.Index, Prefix: addr, Flags: unix.IFA_F_NODAD}))
		clock.lap("address")
		check(inside.AddRoute(rtnl.Route{Index: l.Index, Route: route}))
		clock.lap("route")
		check(inside.SetLink(l.Index, 0, unix.IFF_UP, nil))
		clock.lap("down")
		move(inside, l.Index, "/proc/self/ns/net", v.Link.Name)
		clock.lap("back")
	}
	clock.report()
}

// BenchmarkLabParts measures what each step costs before it changes anything, such as opening a
// socket, entering a netns and reading the VF.
func BenchmarkLabParts(b *testing.B) {
	n := labNode(b)
	v := n.bound(0, 0)
	pod := "/run/netns/bench"
	if err := netns.New(pod); err != nil {
		b.Fatal(err)
	}
	defer netns.Delete(pod)
	run := func(name string, fn func() error) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				if err := fn(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("dial", dialAndClose)
	run("enter", func() error { return netns.Run(pod, func() error { return nil }) })
	run("enter+dial", func() error { return netns.Run(pod, dialAndClose) })
	run("VF", func() error { _, err := n.VF(b.Context(), v.PCI, pod); return err })
	n.do(step.Move{VF: v.PCI, To: pod, Name: "net1"})
	run("VF-in-netns", func() error { _, err := n.VF(b.Context(), v.PCI, pod); return err })
	run("PFs", func() error { _, err := n.PFs(b.Context()); return err })
	var c *rtnl.Conn
	if err := netns.Run(pod, func() (err error) { c, err = rtnl.Dial(); return err }); err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	run("links", func() error { _, err := c.Links(); return err })
	l, err := c.LinkNamed("net1")
	if err != nil {
		b.Fatal(err)
	}
	run("link", func() error { _, err := c.Link(l.Index, false); return err })
	run("addrs", func() error { _, err := c.Addrs(l.Index); return err })
	run("routes", func() error { _, err := c.Routes(l.Index); return err })
	run("Do-nothing", func() error { return n.Do(b.Context(), step.ClearPromisc{VF: v.PCI, Netns: pod}) })
	run("Do-address", func() error {
		return n.Do(b.Context(), step.AddAddress{VF: v.PCI, Netns: pod, Address: prefix("10.56.0.10/24")})
	})
	n.do(step.Move{VF: v.PCI, From: pod, Name: v.Link.Name})
	run("Do-nothing-host", func() error { return n.Do(b.Context(), step.ClearPromisc{VF: v.PCI}) })
	host, err := rtnl.Dial()
	if err != nil {
		b.Fatal(err)
	}
	defer host.Close()
	pf, err := host.LinkNamed(n.pfs[0].Name)
	if err != nil {
		b.Fatal(err)
	}
	run("PF-link", func() error { _, err := host.Link(pf.Index, true); return err })
}

func dialAndClose() error {
	c, err := rtnl.Dial()
	if err != nil {
		return err
	}
	return c.Close()
}
