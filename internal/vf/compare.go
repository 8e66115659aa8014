package vf

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// Over returns the settings that the PF must hold for a VF with baseline b if s is wanted.
func (s Spec) Over(b Admin) Admin {
	a := b
	setIfGiven(&a.MAC, s.MAC)
	a.VLAN = s.VLANOver(b)
	for _, name := range Switches() {
		on := s.Switch(name)
		if on == nil || *on == nil || !**on && *b.Switch(name) == Unknown {
			continue // a switch of which the kernel reports no value is one that the driver lacks, so it is off
		}
		*a.Switch(name) = TriOf(**on)
	}
	setIfGiven(&a.LinkState, s.LinkState)
	setIfGiven(&a.MinTxRate, s.MinTxRate)
	setIfGiven(&a.MaxTxRate, s.MaxTxRate)
	return a
}

// VLANOver returns the VLAN of Over.
func (s Spec) VLANOver(b Admin) VLAN {
	if s.VLAN != nil {
		return *s.VLAN
	}
	return b.VLAN
}

func setIfGiven[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

// Diff lists the differences between st and the state that s wants of a VF with baseline b. The
// netdevice must be in netns; its attributes are compared wherever st found it. Diff compares the
// requested rates, so a caller that accepts the driver's rounding first puts the effective rates
// into s.
func (s Spec) Diff(b Baseline, netns string, st State) []Difference {
	var c comparison
	if s.Driver == DriverVFIO {
		c.compareValue("driver", DriverVFIO, st.Driver)
		c.compareAdmin(s.Over(st.Settle(b.Admin)), st.Admin)
		return c.out
	}
	c.compareValue("driver", b.Driver, st.Driver)
	c.compareAdmin(s.Over(st.Settle(b.Admin)), st.Admin)
	if st.Link == nil {
		c.compareValue("interface", s.Interface, "")
		return c.out
	}
	c.comparePod(s, b, netns, *st.Link)
	return c.out
}

func (c *comparison) comparePod(s Spec, b Baseline, netns string, l Link) {
	mtu := b.MTU
	setIfGiven(&mtu, s.MTU)
	c.compareValue("netns", netns, l.Netns)
	c.compareValue("interface", s.Interface, l.Name)
	c.compareValue("link mac", s.MACOver(b), l.MAC)
	c.compareValue("mtu", mtu, l.MTU)
	c.compareValue("up", true, l.Up)
	c.out = append(c.out, s.GuardDiff(b, l)...)
	for _, a := range s.Addresses {
		switch {
		case !slices.Contains(l.Addrs, a.Prefix):
			c.out = append(c.out, Difference{"address", a.Prefix.String(), excerpt.List(l.Addrs, l.MoreAddrs)})
		case slices.Contains(l.Duplicates, a.Prefix):
			c.out = append(c.out, Difference{"address", a.Prefix.String(), "a duplicate, which another machine on the segment has"})
		}
	}
	for _, r := range s.Routes {
		if !r.IsIn(l.Routes) {
			c.out = append(c.out, Difference{"route", r.String(), excerpt.List(l.Routes, l.MoreRoutes)})
		}
	}
}

// IsIn reports whether one of the routes goes the same way: to the same destination, through the
// same gateway, in the same table.
func (r Route) IsIn(all []Route) bool { return slices.ContainsFunc(all, r.sameWay) }

// sameWay compares destination, gateway and table. It ignores metrics and MTU, which the kernel
// fills in.
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
