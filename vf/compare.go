package vf

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/excerpt"
)

// Over returns what the PF must hold for a VF whose baseline is b when s is
// wanted of it.
func (s Spec) Over(b Admin) Admin {
	a := b
	set(&a.MAC, s.MAC)
	set(&a.VLAN, s.VLAN)
	for _, name := range Switches() {
		if on := s.Switch(name); on != nil && *on != nil {
			*a.Switch(name) = TriOf(**on)
		}
	}
	set(&a.LinkState, s.LinkState)
	set(&a.MinTxRate, s.MinTxRate)
	set(&a.MaxTxRate, s.MaxTxRate)
	return a
}

func set[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

// Diff lists what of st is not as s wants it of a VF whose baseline is b. The
// netdevice is looked at where st found it, and must be in netns. Rates are
// compared as they were asked for; a caller that accepts the driver's rounding
// puts the effective rates into s first.
func (s Spec) Diff(b Baseline, netns string, st State) []Difference {
	var c comparison
	if s.Driver == DriverVFIO {
		c.check("driver", DriverVFIO, st.Driver)
		c.admin(s.Over(b.Admin), st.Admin)
		return c.out
	}
	c.check("driver", b.Driver, st.Driver)
	c.admin(s.Over(b.Admin), st.Admin)
	if st.Link == nil {
		c.check("interface", s.Interface, "")
		return c.out
	}
	c.pod(s, b, netns, *st.Link)
	return c.out
}

func (c *comparison) pod(s Spec, b Baseline, netns string, l Link) {
	mac, mtu := b.LinkMAC, b.MTU
	set(&mac, s.MAC)
	set(&mtu, s.MTU)
	c.check("netns", netns, l.Netns)
	c.check("interface", s.Interface, l.Name)
	c.check("link mac", mac, l.MAC)
	c.check("mtu", mtu, l.MTU)
	c.check("up", true, l.Up)
	for _, a := range s.Addresses {
		if !slices.Contains(l.Addrs, a.Prefix) {
			c.out = append(c.out, Difference{"address", a.Prefix.String(), excerpt.List(l.Addrs, l.MoreAddrs)})
		}
	}
	for _, r := range s.Routes {
		if !slices.ContainsFunc(l.Routes, r.sameWay) {
			c.out = append(c.out, Difference{"route", r.String(), excerpt.List(l.Routes, l.MoreRoutes)})
		}
	}
}

// sameWay compares destination, gateway and table: metrics and MTU are the kernel's
// to fill in.
func (r Route) sameWay(o Route) bool {
	return r.Dst.Masked() == o.Dst.Masked() && r.Gateway == o.Gateway && r.Table == o.Table
}

func (r Route) String() string {
	out := r.Dst.String()
	if r.Gateway.IsValid() {
		out += " via " + r.Gateway.String()
	}
	if r.Table != 0 {
		out += fmt.Sprintf(" table %d", r.Table)
	}
	return out
}
