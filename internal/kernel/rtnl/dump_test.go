package rtnl

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// inNewNetns calls f in a network namespace of its own, on a thread that ends with it.
func inNewNetns(t *testing.T, f func() error) {
	t.Helper()
	var g errgroup.Group
	g.Go(func() error {
		runtime.LockOSThread() // never unlocked: the thread is thrown away
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
	if err := g.Wait(); err != nil {
		t.Skipf("needs CAP_SYS_ADMIN and CAP_NET_ADMIN: %v", err)
	}
}

// However many addresses and routes the owner of a VF adds in its netns, a List keeps a bounded
// number of them. It keeps the first ones, and counts the others.
func TestDumpIsBounded(t *testing.T) {
	const all = MaxPerLink + 2000
	var (
		addrs  List[Addr]
		routes List[Route]
		link   int
		found  List[Route]
		last   = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 2, (all - 1) >> 8, (all - 1) & 0xff}), 32)
	)
	inNewNetns(t, func() error {
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		lo, err := c.LinkNamed("lo")
		if err != nil {
			return err
		}
		link = lo.Index
		if err := c.SetLink(link, unix.IFF_UP, unix.IFF_UP, nil); err != nil {
			return err
		}
		for i := range all {
			ip := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
			if err := c.AddAddr(Addr{Index: link, Prefix: netip.PrefixFrom(ip, 32)}); err != nil {
				return err
			}
			to := netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)})
			if err := c.AddRoute(Route{Index: link, Route: vf.Route{Dst: netip.PrefixFrom(to, 32)}}); err != nil {
				return err
			}
		}
		if addrs, err = c.Addrs(link); err != nil {
			return err
		}
		if routes, err = c.Routes(0); err != nil {
			return err
		}
		found, err = c.FindRoutes(link, func(r Route) bool { return r.Dst == last })
		return err
	})
	isFirst := func(a Addr) bool { return a.Index == link && a.Prefix == netip.MustParsePrefix("10.1.0.0/32") }
	if more := all + 2 - MaxPerLink; len(addrs.Kept) != MaxPerLink || addrs.More[link] != more || !slices.ContainsFunc(addrs.Kept, isFirst) { // 127.0.0.1 and ::1 too
		t.Errorf("%d addresses and %v more, want %d", len(addrs.Kept), addrs.More, more)
	}
	if more := all - MaxPerLink; len(routes.Kept) != MaxPerLink || routes.More[link] != more {
		t.Errorf("%d routes and %v more, want %d", len(routes.Kept), routes.More, more)
	}
	if len(found.Kept) != 1 {
		t.Errorf("a route beyond the bound is found %d times", len(found.Kept))
	}
}

// A pod may make any number of links. FindLinks keeps only the links that match.
func TestFindLinksIsBounded(t *testing.T) {
	const many = 200
	var found []Link
	var took uint64
	inNewNetns(t, func() error {
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		for i := range many {
			body := AppendString(linkHeader(0, 0, 0), unix.IFLA_IFNAME, fmt.Sprint("more", i))
			body = AppendNested(body, unix.IFLA_LINKINFO, AppendString(nil, unix.IFLA_INFO_KIND, "veth"))
			if _, err := c.Do(Request{Type: unix.RTM_NEWLINK, Flags: unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL, Body: body}); err != nil {
				return err
			}
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found, err = c.FindLinks(func(l Link) bool {
			if l.Name == fmt.Sprint("more", many-1) { // the newest link comes last
				runtime.GC()
				runtime.ReadMemStats(&after)
			}
			return l.Name == "lo"
		})
		took = after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
		return err
	})
	if len(found) != 1 || found[0].Name != "lo" {
		t.Errorf("found %v", found)
	}
	if took > 128<<10 {
		t.Errorf("the list of %d links keeps %d KiB", 2*many, took>>10)
	}
}
