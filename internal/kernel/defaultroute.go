package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// setDefaultRoute first removes the old default routes of a family, so that no traffic takes them
// once the new ones exist.
func (k *Kernel) setDefaultRoute(s step.SetDefaultRoute) error {
	c, err := k.dialNetns(s.Netns)
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := c.LinkNamed(s.Interface)
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("interface %s: %w there", s.Interface, vf.ErrNotFound)
	}
	if err != nil {
		return err
	}
	want := func(r rtnl.Route) bool { return r.Index == l.Index && slices.Contains(s.Gateways, r.Gateway) }
	others, err := c.FindRoutes(0, func(r rtnl.Route) bool {
		return r.Dst.Bits() == 0 && r.Table == 0 && !r.Automatic && sameFamily(s.Gateways, r.Dst.Addr()) && !want(r)
	})
	if err != nil {
		return err
	}
	for _, r := range others.Kept {
		if err := c.DelRoute(r); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s: %w", r.Route, err)
		}
	}
	for _, g := range s.Gateways {
		all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if g.Is6() {
			all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		if err := addRoute(c, l, vf.Route{Dst: all, Gateway: g}); err != nil {
			return err
		}
	}
	return nil
}

func sameFamily(gateways []netip.Addr, a netip.Addr) bool {
	return slices.ContainsFunc(gateways, func(g netip.Addr) bool { return g.Is4() == a.Is4() })
}
