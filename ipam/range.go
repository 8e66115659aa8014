package ipam

import (
	"fmt"
	"net/netip"

	"github.com/culvert-net/culvert/strictjson"
	"github.com/culvert-net/culvert/vf"
)

// parseRange reads subnet, rangeStart, rangeEnd and gateway of o and fills in
// what is not given as host-local does: the first address is the gateway, and
// everything but the network and broadcast address is in the range.
func parseRange(o *strictjson.Object) (Range, bool) {
	subnet, ok := strictjson.Text(o, "subnet", parseSubnet)
	if !ok {
		if !o.Given("subnet") {
			o.Fail("subnet", "missing; want a subnet, e.g. 172.16.91.0/24")
		}
		return Range{}, false
	}
	first, last := bounds(subnet)
	r := Range{Subnet: subnet, Start: first, End: last, Gateway: first}
	inside := func(key string, to *netip.Addr) {
		a, given := strictjson.Text(o, key, parseAddr)
		if !given {
			ok = ok && !o.Given(key)
			return
		}
		if !subnet.Contains(a) {
			o.Fail(key, "is not in subnet %s", subnet)
			ok = false
		}
		*to = a
	}
	inside("rangeStart", &r.Start)
	inside("rangeEnd", &r.End)
	if gw, given := strictjson.Text(o, "gateway", parseAddr); given {
		if err := reachable(gw, subnet); err != nil {
			o.Fail("gateway", "%v", err)
			ok = false
		}
		r.Gateway = gw
	}
	if ok && r.End.Less(r.Start) {
		o.Fail("rangeEnd", "is below rangeStart %s", r.Start)
		ok = false
	}
	return r, ok
}

// reachable reports an error when a gateway cannot be reached from subnet: it
// is neither in it nor link-local. The zero gateway is fine.
func reachable(gw netip.Addr, subnet netip.Prefix) error {
	switch {
	case !gw.IsValid():
		return nil
	case gw.Is4() != subnet.Addr().Is4():
		return fmt.Errorf("is of another family than %s", subnet)
	case !subnet.Contains(gw) && !gw.IsLinkLocalUnicast():
		return fmt.Errorf("is not in subnet %s", subnet.Masked())
	}
	return nil
}

// bounds returns the first and last address of subnet that a host may have:
// without the network and, for IPv4, the broadcast address.
func bounds(subnet netip.Prefix) (first, last netip.Addr) {
	last = lastOf(subnet)
	if last.Is4() {
		last = last.Prev()
	}
	return subnet.Addr().Next(), last
}

// lastOf returns the address of p whose host bits are all ones.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func parseSubnet(s string) (netip.Prefix, error) {
	p, err := parseAddress(s)
	if err != nil {
		return p, fmt.Errorf("%q: want a subnet, e.g. 172.16.91.0/24", s)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%q has bits past its prefix length: want %s", s, p.Masked())
	}
	if limit := p.Addr().BitLen() - 2; p.Bits() > limit {
		return p, fmt.Errorf("%q is too small to hand out from: want /%d or shorter (type static gives one fixed address)", s, limit)
	}
	return p, nil
}

// parseAddress reads an address with its prefix length and keeps the host
// bits. IPv4-mapped IPv6 becomes IPv4.
func parseAddress(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%q: want an address with its prefix length, e.g. 172.16.91.5/24", s)
	}
	if !p.Addr().Is4In6() {
		return p, nil
	}
	if p.Bits() < 96 {
		return p, fmt.Errorf("%q: an IPv4-mapped prefix wants /96 or longer", s)
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), nil
}

func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, fmt.Errorf("%q: want an IP address, e.g. 172.16.91.1", s)
	}
	if a.Zone() != "" {
		return a, fmt.Errorf("%q: want an address without a zone", s)
	}
	return a.Unmap(), nil
}

func parseExclude(s string) (netip.Prefix, error) {
	if a, err := parseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := parseAddress(s)
	if err != nil {
		return p, fmt.Errorf("%q: want an address or a subnet", s)
	}
	return p.Masked(), nil
}

func parseRoute(o *strictjson.Object) (vf.Route, bool) {
	o.Known("dst", "gw", "mtu", "priority", "advmss", "table", "scope")
	for _, k := range []string{"advmss", "table", "scope"} {
		if o.Has(k) {
			o.Refuse(k, "not served; a route has dst, gw, mtu and priority and goes into the main table")
		}
	}
	dst, ok := strictjson.Text(o, "dst", parseDst)
	if !ok {
		if !o.Given("dst") {
			o.Fail("dst", "missing; want a destination, e.g. 0.0.0.0/0")
		}
		return vf.Route{}, false
	}
	r := vf.Route{Dst: dst}
	r.Gateway, _ = strictjson.Text(o, "gw", parseAddr)
	if r.Gateway.IsValid() && r.Gateway.Is4() != dst.Addr().Is4() {
		o.Fail("gw", "is of another family than dst %s", dst)
	}
	mtu, _ := o.Uint("mtu", vf.MinMTU, vf.MaxMTU)
	priority, _ := o.Uint("priority", 0, 1<<31-1)
	r.MTU, r.Priority = int(mtu), int(priority)
	return r, true
}

func parseDst(s string) (netip.Prefix, error) {
	p, err := parseAddress(s)
	if err != nil {
		return p, fmt.Errorf("%q: want a destination, e.g. 0.0.0.0/0", s)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%q has bits past its prefix length: want %s", s, p.Masked())
	}
	return p, nil
}

func familyError(r vf.Route) error {
	family := "IPv6"
	if r.Dst.Addr().Is4() {
		family = "IPv4"
	}
	return fmt.Errorf("route %s: %w: the attachment has no %s address; add one or take the route out", r.Dst, vf.ErrInvalid, family)
}
