package fake

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// doLink carries out the steps on a netdevice.
func (k *Kernel) doLink(s step.Step) error {
	switch s := s.(type) {
	case step.Move:
		return k.onLink(s.VF, s.From, func(l *vf.Link) error { return k.moveLink(l, s) })
	case step.Rename:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { return k.renameLink(l, s.Name) })
	case step.SetMTU:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { return k.setMTU(l, s) })
	case step.SetLinkMAC:
		return k.setLinkMAC(s)
	case step.SetUp:
		return k.onDevice(s.VF, s.Netns, s.Bond, func(l *vf.Link) error { setUp(l, s.Up); k.chooseActives(); return nil })
	case step.ClearPromisc:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { l.Promisc, l.AllMulti = false, false; return nil })
	case step.AddAddress:
		return k.onDevice(s.VF, s.Netns, s.Bond, func(l *vf.Link) error { return addAddress(l, s) })
	case step.DelAddress:
		return k.onLink(s.VF, s.Netns, func(l *vf.Link) error {
			is := func(a netip.Prefix) bool { return a == s.Address }
			l.Addrs, l.Tentative, l.Duplicates = slices.DeleteFunc(l.Addrs, is), slices.DeleteFunc(l.Tentative, is), slices.DeleteFunc(l.Duplicates, is)
			return nil
		})
	case step.DetectDuplicates:
		return k.onDevice(s.VF, s.Netns, s.Bond, func(l *vf.Link) error { return k.detectDuplicates(l, s.Addresses) })
	case step.AddRoute:
		return k.onDevice(s.VF, s.Netns, s.Bond, func(l *vf.Link) error {
			if k.hasSameRoute(l, s.Route) {
				return fmt.Errorf("%w: %w", vf.ErrRouteTaken, syscall.EEXIST)
			}
			return addRoute(l, s.Route)
		})
	}
	return fmt.Errorf("the fake kernel has no %T", s)
}

// onLink calls do with a VF's netdevice, if it is in the given netns.
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

func (k *Kernel) moveLink(l *vf.Link, s step.Move) error {
	to, name := s.To, s.Name
	if !k.netns[to] {
		return fmt.Errorf("netns %s: %w", to, vf.ErrNetnsGone)
	}
	if k.isNamed(to, name, l) {
		return fmt.Errorf("name %s is taken there: %w", name, syscall.EEXIST)
	}
	_, f, err := k.findVF(s.VF)
	if err != nil || k.altnameTaken(f, to) {
		return fmt.Errorf("an alternative name is taken there: %w", syscall.EEXIST)
	}
	if to != l.Netns {
		f.leaveBond()
	}
	if to == "" && l.Netns != "" {
		k.shown++
	}
	l.Netns, l.Name, l.Carrier = to, name, false
	stripLink(l)
	return nil
}

func (k *Kernel) renameLink(l *vf.Link, name string) error {
	if l.Up {
		return syscall.EBUSY
	}
	if k.isNamed(l.Netns, name, l) {
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

// setLinkMAC sets the MAC of a VF's interface. Once the PF has set a MAC, the VF may not choose
// another (lab-facts, trap 4). A PF that does not answer agrees to none.
func (k *Kernel) setLinkMAC(s step.SetLinkMAC) error {
	p, f, err := k.findVF(s.VF)
	if err != nil {
		return err
	}
	if !f.Admin.MAC.IsZero() && f.Admin.MAC != s.MAC || p.mute {
		return syscall.EADDRNOTAVAIL
	}
	return k.onLink(s.VF, s.Netns, func(l *vf.Link) error { l.MAC = s.MAC; return nil })
}

// stripLink takes down a netdevice that changes its netns, and removes its addresses and routes.
func stripLink(l *vf.Link) {
	l.Up, l.Addrs, l.Routes, l.Tentative, l.Duplicates = false, nil, nil, nil, nil
}

func addAddress(l *vf.Link, s step.AddAddress) error {
	if slices.Contains(l.Addrs, s.Address) {
		return syscall.EEXIST
	}
	l.Addrs = append(l.Addrs, s.Address)
	if s.Detect && s.Address.Addr().Is6() {
		l.Tentative = append(l.Tentative, s.Address)
	}
	return nil
}

// detectDuplicates ends the detection of all tentative addresses of a netdevice, which needs
// carrier, and returns the duplicates among the given addresses. On the fake kernel no time
// passes, so detection ends in this step and not before.
func (k *Kernel) detectDuplicates(l *vf.Link, addresses []netip.Prefix) error {
	if l.Carrier {
		for _, a := range l.Tentative {
			if k.elsewhere[a.Addr()] || k.onPFs(a.Addr()) {
				l.Duplicates = append(l.Duplicates, a)
			}
		}
		l.Tentative = nil
	}
	var found []netip.Addr
	for _, a := range addresses {
		switch {
		case slices.Contains(l.Tentative, a):
			return fmt.Errorf("no result for %s, no carrier: %w", a, vf.ErrTimeout)
		case slices.Contains(l.Duplicates, a):
			found = append(found, a.Addr())
		}
	}
	if len(found) > 0 {
		return vf.DuplicateError{Addresses: found}
	}
	return nil
}

// onPFs reports whether a PF has an address. The PFs are on one segment.
func (k *Kernel) onPFs(a netip.Addr) bool {
	return slices.ContainsFunc(k.pfs, func(p *pf) bool {
		return slices.ContainsFunc(p.Addrs, func(o netip.Prefix) bool { return o.Addr() == a })
	})
}

// hasSameRoute reports whether another netdevice of the netns has an IPv6 route to the same
// destination with the same priority. An IPv4 route is no conflict: it goes in front of the others.
func (k *Kernel) hasSameRoute(l *vf.Link, r vf.Route) bool {
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

// setDefaultRoute knows the netdevices of VFs. It accepts any other interface, which another
// plugin has made, without a check.
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
	f := k.findNamed(s.Netns, s.Interface)
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

// setUp sets a netdevice up or down. Taking it down drops its routes and its IPv6 addresses, not
// those of IPv4.
func setUp(l *vf.Link, up bool) {
	l.Up, l.Carrier = up, up
	if !up {
		l.Routes = nil
		l.Addrs = slices.DeleteFunc(l.Addrs, func(a netip.Prefix) bool { return a.Addr().Is6() }) // addrconf_ifdown
	}
}
