package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// SubnetText is a subnet of an AddressPool as its author wrote it. An empty text stands for a field
// that the author left out.
type SubnetText struct {
	CIDR    string
	Ranges  [][2]string // first and last
	Exclude []string
	Gateway string
}

// ParseSubnets reads the subnets of an AddressPool. The Config has one range set for each
// family, in the order in which the families come. The error wraps vf.ErrInvalid and lists
// everything that is wrong, by its place below spec.
func ParseSubnets(subnets []SubnetText) (Config, error) {
	r := subnetReader{config: Config{Type: TypeHostLocal}}
	for i, s := range subnets {
		r.read(fmt.Sprintf("subnets[%d]", i), s)
	}
	r.checkOverlaps()
	c := r.config
	for _, set := range c.Sets {
		if len(r.wrong) == 0 && len(c.usable(set)) == 0 {
			r.fail("subnets", "%s: everything is excluded", ranges(set))
		}
	}
	count := 0
	for _, set := range c.Sets {
		count += len(set)
	}
	if count > maxRanges || len(c.Exclude) > maxExcludes {
		r.fail("subnets", "%d ranges and %d elements of exclude; want at most %d and %d", count, len(c.Exclude), maxRanges, maxExcludes)
	}
	if len(r.wrong) > 0 {
		return Config{}, fmt.Errorf("%w: %s", vf.ErrInvalid, strings.Join(r.wrong, "; "))
	}
	return c, nil
}

// subnetReader collects the ranges and the mistakes of an AddressPool's subnets.
type subnetReader struct {
	config  Config
	subnets []netip.Prefix
	wrong   []string
}

func (r *subnetReader) fail(place, format string, args ...any) {
	r.wrong = append(r.wrong, place+": "+fmt.Sprintf(format, args...))
}

func (r *subnetReader) read(place string, s SubnetText) {
	subnet, err := parseSubnet(s.CIDR)
	if err != nil {
		r.fail(place+".cidr", "%v", err)
		return
	}
	r.subnets = append(r.subnets, subnet)
	gateway := subnet.Addr().Next()
	if a, err := parseAddr(s.Gateway); err == nil && a.IsLinkLocalUnicast() && a.Is4() == subnet.Addr().Is4() {
		gateway = a // on the link, as routers announce themselves in IPv6
	} else if s.Gateway != "" {
		gateway = r.addr(place+".gateway", s.Gateway, subnet)
	}
	for i, text := range s.Exclude {
		r.exclude(fmt.Sprintf("%s.exclude[%d]", place, i), text, subnet)
	}
	first, last := bounds(subnet)
	found := []Range{{Subnet: subnet, Start: first, End: last, Gateway: gateway}}
	if len(s.Ranges) > 0 {
		found = nil
	}
	for i, text := range s.Ranges {
		at := fmt.Sprintf("%s.ranges[%d]", place, i)
		one := Range{Subnet: subnet, Start: r.addr(at+".first", text[0], subnet), End: r.addr(at+".last", text[1], subnet), Gateway: gateway}
		if one.Start.IsValid() && one.End.IsValid() && one.End.Less(one.Start) {
			r.fail(at+".last", "%s is below first %s", one.End, one.Start)
		}
		found = append(found, one)
	}
	r.add(found)
}

// addr reads an address that has to be in a subnet.
func (r *subnetReader) addr(place, text string, subnet netip.Prefix) netip.Addr {
	a, err := parseAddr(text)
	switch {
	case err != nil:
		r.fail(place, "%v", err)
		return netip.Addr{}
	case !subnet.Contains(a):
		r.fail(place, "%s is not in subnet %s", a, subnet)
	}
	return a
}

func (r *subnetReader) exclude(place, text string, subnet netip.Prefix) {
	p, err := parseExclude(text)
	switch {
	case err != nil:
		r.fail(place, "%v", err)
	case !subnet.Overlaps(p):
		r.fail(place, "%s is not in subnet %s", p, subnet)
	default:
		r.config.Exclude = append(r.config.Exclude, p)
	}
}

// add puts the ranges of a subnet into the set of their family.
func (r *subnetReader) add(found []Range) {
	c := &r.config
	i := slices.IndexFunc(c.Sets, func(set []Range) bool { return set[0].Subnet.Addr().Is4() == found[0].Subnet.Addr().Is4() })
	if i < 0 {
		c.Sets = append(c.Sets, found)
		return
	}
	c.Sets[i] = append(c.Sets[i], found...)
}

func (r *subnetReader) checkOverlaps() {
	for i, a := range r.subnets {
		for _, b := range r.subnets[:i] {
			if a.Overlaps(b) {
				r.fail("subnets", "%s and %s overlap", b, a)
			}
		}
	}
	for _, set := range r.config.Sets {
		for i, a := range set {
			for _, b := range set[:i] {
				if a.Subnet == b.Subnet && (a.Contains(b.Start) || b.Contains(a.Start)) {
					r.fail("subnets", "ranges %s and %s overlap", b, a)
				}
			}
		}
	}
}

// WithPool returns the section of a network that names an AddressPool, with the addresses of
// the pool. Routes and DNS are the network's. A route over an address that the pool gives
// out is vf.ErrInvalid: networks that share the pool would give the router's address to a pod.
func (c Config) WithPool(pool Config) (Config, error) {
	given := pool.Usable()
	for _, route := range c.Routes {
		for _, runs := range given {
			if slices.ContainsFunc(runs, func(r Run) bool { return route.Gateway.IsValid() && r.Contains(route.Gateway) }) {
				return Config{}, fmt.Errorf("route %s: %w: AddressPool %s gives out its gateway %s: add the address to exclude of the pool's subnet, or make it the subnet's gateway",
					route.Dst, vf.ErrInvalid, c.AddressPool, route.Gateway)
			}
		}
	}
	c.Sets, c.Exclude, c.KeepAtMost = pool.Sets, pool.Exclude, pool.KeepAtMost
	return c, nil
}
