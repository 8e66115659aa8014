package fake

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// link carries out the steps on a netdevice.
func (k *Kernel) link(s step.Step) error {
	switch s := s.(type) {
	case step.Move:
		return k.onLink(s.VF, s.From, func(l *vf.Link) error { return k.move(l, s) })
	case step.Rename:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { return k.rename(l, s.Name) })
	case step.SetMTU:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { return k.setMTU(l, s) })
	case step.SetLinkMAC:
		return k.setLinkMAC(s)
	case step.SetUp:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { setUp(l, s.Up); return nil })
	case step.ClearPromisc:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { l.Promisc, l.AllMulti = false, false; return nil })
	case step.AddAddress:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { return addAddress(l, s.Address) })
	case step.DelAddress:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error {
			l.Addrs = slices.DeleteFunc(l.Addrs, func(a netip.Prefix) bool { return a == s.Address })
			return nil
		})
	case step.AddRoute:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error {
			if k.routed(l, s.Route) {
				return fmt.Errorf("%w: %w", vf.ErrRouteTaken, syscall.EEXIST)
			}
			return addRoute(l, s.Route)
		})
	}
	return fmt.Errorf("the fake kernel has no %T", s)
}

// onLink finds a VF's netdevice in the netns where the caller says it is.
func (k *Kernel) onLink(a vf.PCIAddr, netns string, do func(*vf.Link) error) error {
	return k.onVF(a, func(f *function) error {
		if !k.netns[netns] {
			return fmt.Errorf("netns %s: %w", netns, vf.ErrNetnsGone)
		}
		if f.Link == nil || f.Link.Netns != netns {
			return fmt.Errorf("netdevice of VF %s in netns %q: %w", a, netns, vf.ErrNotFound)
		}
		return do(f.Link)
	})
}

func (k *Kernel) move(l *vf.Link, s step.Move) error {
	to, name := s.To, s.Name
	if !k.netns[to] {
		return fmt.Errorf("netns %s: %w", to, vf.ErrNetnsGone)
	}
	if other := k.named(to, name); other != nil && other.Link != l {
		return fmt.Errorf("name %s is taken there: %w", name, syscall.EEXIST)
	}
	if _, f, err := k.function(s.VF); err != nil || k.altnameTaken(f, to) {
		return fmt.Errorf("an alternative name is taken there: %w", syscall.EEXIST)
	}
	if to == "" && l.Netns != "" {
		k.shown++
	}
	l.Netns, l.Name, l.Up, l.Carrier, l.Addrs, l.Routes = to, name, false, false, nil, nil
	return nil
}

func (k *Kernel) rename(l *vf.Link, name string) error {
	if l.Up {
		return syscall.EBUSY
	}
	if other := k.named(l.Netns, name); other != nil && other.Link != l {
		return syscall.EEXIST
	}
	l.Name = name
	return nil
}

func (k *Kernel) setMTU(l *vf.Link, s step.SetMTU) error {
	if s.MTU < 68 || s.MTU > k.profile.MaxMTU {
		return syscall.EINVAL
	}
	l.MTU = s.MTU
	return nil
}

// setLinkMAC: once the PF has set a MAC, the VF may not choose another
// (lab-facts, trap 4).
func (k *Kernel) setLinkMAC(s step.SetLinkMAC) error {
	_, f, err := k.function(s.VF)
	if err != nil {
		return err
	}
	if !f.Admin.MAC.IsZero() && f.Admin.MAC != s.MAC {
		return syscall.EADDRNOTAVAIL
	}
	return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { l.MAC = s.MAC; return nil })
}

func addAddress(l *vf.Link, a netip.Prefix) error {
	if slices.Contains(l.Addrs, a) {
		return syscall.EEXIST
	}
	l.Addrs = append(l.Addrs, a)
	return nil
}

// routed reports whether another netdevice of the netns has an IPv6 route to the same
// destination with the same priority. One of IPv4 goes in front of others.
func (k *Kernel) routed(l *vf.Link, r vf.Route) bool {
	for _, p := range k.pfs {
		for _, f := range p.vfs {
			if f.Link != nil && f.Link != l && f.Link.Netns == l.Netns && slices.ContainsFunc(f.Link.Routes, func(o vf.Route) bool {
				return r.Dst.Addr().Is6() && o.Dst.Masked() == r.Dst.Masked() && o.Priority == r.Priority && o.Table == r.Table
			}) {
				return true
			}
		}
	}
	return false
}

func addRoute(l *vf.Link, r vf.Route) error {
	if !l.Up {
		return syscall.ENETDOWN
	}
	onLink := func(a netip.Prefix) bool { return a.Masked().Contains(r.Gateway) }
	if r.Gateway.IsValid() && !r.OnLink && !slices.ContainsFunc(l.Addrs, onLink) {
		return syscall.ENETUNREACH
	}
	l.Routes = append(l.Routes, r)
	return nil
}

// setDefaultRoute knows the netdevices of VFs. Of another interface, which some other
// plugin has made, it takes the word.
func (k *Kernel) setDefaultRoute(s step.SetDefaultRoute) error {
	if !k.netns[s.Netns] {
		return fmt.Errorf("netns %s: %w", s.Netns, vf.ErrNetnsGone)
	}
	is4 := func(a netip.Addr) bool { return a.Is4() }
	for _, p := range k.pfs {
		for _, f := range p.vfs {
			if f.Link != nil && f.Link.Netns == s.Netns {
				f.Link.Routes = slices.DeleteFunc(f.Link.Routes, func(r vf.Route) bool {
					return r.Dst.Bits() == 0 && r.Table == 0 && slices.ContainsFunc(s.Gateways, func(g netip.Addr) bool { return is4(g) == is4(r.Dst.Addr()) })
				})
			}
		}
	}
	f := k.named(s.Netns, s.Interface)
	if f == nil {
		return nil
	}
	for _, g := range s.Gateways {
		all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if g.Is6() {
			all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		if err := addRoute(f.Link, vf.Route{Dst: all, Gateway: g}); err != nil {
			return err
		}
	}
	return nil
}

// setUp: taking a netdevice down drops its routes, not its addresses.
func setUp(l *vf.Link, up bool) {
	l.Up, l.Carrier = up, up
	if !up {
		l.Routes = nil
	}
}
