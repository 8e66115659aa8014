package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// sight is a reading of one netns: its links, addresses and routes, or those of a single link.
type sight struct {
	links map[int]rtnl.Link
	addrs map[int][]netip.Prefix
	own   map[int][]netip.Prefix // the addresses of addrs that Culvert added
	// tentative and duplicates have the addresses of addrs that cannot be used, as in vf.Link.
	tentative, duplicates map[int][]netip.Prefix
	routes                map[int][]vf.Route
	// moreAddrs and moreRoutes count the addresses and routes that are left out (rtnl.MaxPerLink).
	moreAddrs, moreRoutes map[int]int
}

// listHost lists everything of the host's netns.
func (k *Kernel) listHost() (s sight, err error) {
	err = k.see("", func(c reader) error {
		links, err := c.FindLinks(nil)
		if err != nil {
			return fmt.Errorf("list links: %w", err)
		}
		s, err = lookAt(c, links, 0)
		return err
	})
	return s, err
}

// lookAt returns the sight of links, with the addresses and routes of the link with the given
// index, or of all links if index is 0.
func lookAt(c reader, links []rtnl.Link, index int) (sight, error) {
	s := sight{links: map[int]rtnl.Link{}, addrs: map[int][]netip.Prefix{}, own: map[int][]netip.Prefix{}, routes: map[int][]vf.Route{},
		tentative: map[int][]netip.Prefix{}, duplicates: map[int][]netip.Prefix{}}
	for _, l := range links {
		s.links[l.Index] = l
	}
	addrs, err := c.Addrs(index)
	if err != nil {
		return s, fmt.Errorf("list addresses: %w", err)
	}
	s.moreAddrs = addrs.More
	for _, a := range addrs.Kept {
		s.addrs[a.Index] = append(s.addrs[a.Index], a.Prefix)
		if a.Proto == rtnl.ProtoCulvert {
			s.own[a.Index] = append(s.own[a.Index], a.Prefix)
		}
		switch {
		case a.IsDuplicate():
			s.duplicates[a.Index] = append(s.duplicates[a.Index], a.Prefix)
		case a.IsTentative():
			s.tentative[a.Index] = append(s.tentative[a.Index], a.Prefix)
		}
	}
	routes, err := c.Routes(index)
	if err != nil {
		return s, fmt.Errorf("list routes: %w", err)
	}
	s.moreRoutes = routes.More
	for _, r := range routes.Kept {
		s.routes[r.Index] = append(s.routes[r.Index], r.Route)
	}
	return s, nil
}

// linkIn returns a netdevice of the netns with the given path, or nil if it is not in this netns.
func (s sight) linkIn(index int, path string) *vf.Link {
	l, ok := s.links[index]
	if !ok {
		return nil
	}
	return &vf.Link{
		Netns: path, Index: l.Index, Name: l.Name, MAC: l.MAC, MTU: l.MTU, Up: l.Up, Carrier: l.Carrier,
		Promisc: l.Promisc, AllMulti: l.AllMulti, Addrs: s.addrs[index], Routes: s.routes[index],
		Tentative: s.tentative[index], Duplicates: s.duplicates[index],
		MoreAddrs: s.moreAddrs[index], MoreRoutes: s.moreRoutes[index], Attributes: vf.NewAttributes(l.Attributes()), Traffic: l.Traffic,
	}
}

// addrsOf returns the addresses of the link of that name, those of them that Culvert added, and those
// of the links above it: of its master, such as a bond, and of the master's, such as a bridge.
func (s sight) addrsOf(name string) (all, own, above []netip.Prefix) {
	for index, l := range s.links {
		if l.Name != name {
			continue
		}
		for range mostMasters {
			l = s.links[l.Master]
			above = append(above, s.addrs[l.Index]...)
		}
		return s.addrs[index], s.own[index], above
	}
	return nil, nil, nil
}

// mostMasters bounds the masters above a link. The kernel's bound is 8 (include/linux/netdevice.h,
// MAX_NEST_DEV).
const mostMasters = 8

// VF reads one VF. It looks for the VF's netdevice in the host's netns and then, unless path is
// empty, in the netns at path; Link is nil when it is in neither, or when path is no netns (any
// more). Errors are vf.ErrNotFound when the VF is not on the bus, and vf.ErrTimeout when the
// kernel does not answer in time (readBound). With another error VF returns the parts that
// could be read.
func (k *Kernel) VF(ctx context.Context, addr vf.PCIAddr, path string) (vf.State, error) {
	what := "VF " + addr.String()
	if path != "" { // a look that hangs there must not keep the VF from being read from the host
		what += " in " + path
	}
	return readBounded(ctx, &k.hangs, what, func() (vf.State, error) {
		s, err := k.readVF(addr, path)
		if err != nil {
			return s, fmt.Errorf("read VF %s: %w", addr, err)
		}
		return s, nil
	})
}

func (k *Kernel) readVF(addr vf.PCIAddr, path string) (vf.State, error) {
	f, err := k.readFacts(addr)
	if err != nil {
		return vf.State{}, err
	}
	state := stateOf(vf.ID{Index: f.index}, f.function, vf.Admin{})
	if state.RDMA, err = k.sys.readRDMA(addr); err != nil {
		return state, err
	}
	err = k.see("", func(c reader) (err error) {
		if err = k.readAdmin(c, f.pf, &state); err == nil {
			state.Link, err = k.readLink(c, addr, "")
		}
		return err
	})
	if state.Link != nil && err == nil {
		err = k.readTuning(addr, state.Link)
	}
	if state.Link != nil || err != nil || path == "" {
		return state, err
	}
	err = k.see(path, func(c reader) (err error) {
		state.Link, err = k.readLink(c, addr, path)
		return err
	})
	if errors.Is(err, vf.ErrNetnsGone) {
		return state, nil
	}
	return state, err
}

// readAdmin fills in the PF's settings for the VF, and the PF's identity.
func (k *Kernel) readAdmin(c reader, pf vf.PCIAddr, s *vf.State) error {
	n, ok, err := k.sys.findNetdev(pf)
	if err != nil {
		return err
	}
	if !ok {
		driver, _ := linkTarget(k.sys.pciPath(pf, "driver"))
		return fmt.Errorf("PF %s: %w", pf, k.sys.explainNoNetdev(pf, driver))
	}
	l, err := c.Link(n.Index, true)
	if err != nil {
		return fmt.Errorf("PF %s: %w", pf, err)
	}
	if s.ID.PF, err = k.identifyPF(c, pf, l); err != nil {
		return err
	}
	admin, ok := l.VFs[s.ID.Index]
	if !ok {
		return fmt.Errorf("PF %s does not report vf %d", pf, s.ID.Index)
	}
	s.Admin = admin
	return nil
}

// napiFiles are the files in a netdevice's folder in sysfs that say how it is polled. They are
// files of Linux 6.1 and later.
var napiFiles = []string{"gro_flush_timeout", "napi_defer_hard_irqs", "threaded"}

// readTuning adds the attributes of a host's netdevice that rtnetlink does not report.
func (k *Kernel) readTuning(addr vf.PCIAddr, l *vf.Link) error {
	values, err := k.tune(l.Name, l.Index)
	if err != nil {
		return err
	}
	for _, file := range napiFiles {
		if v, err := readLine(k.sys.pciPath(addr, "net", l.Name, file)); err == nil {
			values[file] = v
		}
	}
	queues, err := k.readQueues(addr, l.Name)
	if err != nil {
		return err
	}
	maps.Copy(values, queues)
	l.Attributes += vf.NewAttributes(values)
	return nil
}

func (k *Kernel) readLink(c reader, addr vf.PCIAddr, path string) (*vf.Link, error) {
	l, err := k.findLink(c, addr, path)
	if errors.Is(err, errNoLink) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seen, err := lookAt(c, []rtnl.Link{l}, l.Index)
	if errors.Is(err, unix.ENODEV) {
		return nil, nil // it went while we looked; a strict dump of a link that is gone says so
	}
	if err != nil {
		return seen.linkIn(l.Index, path), err
	}
	out := seen.linkIn(l.Index, path)
	out.Bond, err = readBond(c, l, path)
	return out, err
}
