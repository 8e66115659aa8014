package ipam

import (
	"fmt"
	"net/netip"

	"github.com/culvert-net/culvert/internal/network/strictjson"
)

// parseRange reads subnet, rangeStart, rangeEnd and gateway of o. It fills in missing keys as
// host-local does: the first address is the gateway, and everything but the network and broadcast
// address is in the range.
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
	if gw := parseGateway(o, subnet); gw.IsValid() {
		r.Gateway = gw
	}
	if ok && r.End.Less(r.Start) {
		o.Fail("rangeEnd", "is below rangeStart %s", r.Start)
		ok = false
	}
	return r, ok
}

// parseGateway reads the key gateway of o, which is that of addresses in subnet. A gateway
// elsewhere is on the link.
func parseGateway(o *strictjson.Object, subnet netip.Prefix) netip.Addr {
	gw, given := strictjson.Text(o, "gateway", parseAddr)
	switch {
	case !given:
	case gw.Is4() != subnet.Addr().Is4():
		o.Fail("gateway", "is of another family than %s", subnet)
	case o.IsLenient() && !subnet.Contains(gw) && !gw.IsLinkLocalUnicast():
		o.Doubt("gateway", "is not in subnet %s: it must be on the link", subnet.Masked())
	}
	return gw
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
	return Unmap(p)
}

// Unmap returns a prefix with the IPv4 address in place of one that is mapped into IPv6.
func Unmap(p netip.Prefix) (netip.Prefix, error) {
	switch {
	case !p.Addr().Is4In6():
		return p, nil
	case p.Bits() < 96:
		return p, fmt.Errorf("%q: an IPv4-mapped prefix wants /96 or longer", p)
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
