package ipam

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// maxAdvMSS is the largest advertised MSS that the kernel keeps (ip_metrics_convert,
// net/ipv4/metrics.c).
const maxAdvMSS = 65535 - 40

// tableMain is the table of routes that name none (rtnetlink(7), RT_TABLE_MAIN).
const tableMain = 254

func parseRoute(o *strictjson.Object) (vf.Route, bool) {
	o.Known("dst", "gw", "mtu", "priority", "advmss", "table", "scope")
	dst, ok := strictjson.Text(o, "dst", parseDst)
	if !ok {
		if !o.Given("dst") {
			o.Fail("dst", "missing; want a destination, e.g. 0.0.0.0/0")
		}
		return vf.Route{}, false
	}
	if dst != dst.Masked() {
		o.Doubt("dst", "has bits past its prefix length: want %s", dst.Masked())
		dst = dst.Masked()
	}
	r := vf.Route{Dst: dst}
	r.Gateway, _ = strictjson.Text(o, "gw", parseAddr)
	if r.Gateway.IsValid() && r.Gateway.Is4() != dst.Addr().Is4() {
		o.Fail("gw", "is of another family than dst %s", dst)
	}
	if mtu, given := o.Uint("mtu", 0, vf.MaxMTU); given && mtu > 0 && mtu < vf.MinMTU {
		o.Fail("mtu", "want a number between %d and %d", vf.MinMTU, vf.MaxMTU)
	} else {
		r.MTU = int(mtu)
	}
	priority, _ := o.Uint("priority", 0, math.MaxInt32)
	advmss, _ := o.Uint("advmss", 0, maxAdvMSS)
	table, _ := o.Uint("table", 0, math.MaxUint32)
	scope, _ := o.Uint("scope", 0, math.MaxUint8)
	r.Priority, r.AdvMSS, r.Scope = int(priority), int(advmss), int(scope)
	if table != tableMain {
		r.Table = int(table)
	}
	return r, true
}

func parseDst(s string) (netip.Prefix, error) {
	p, err := parseAddress(s)
	if err != nil {
		return p, fmt.Errorf("%q: want a destination, e.g. 0.0.0.0/0", s)
	}
	return p, nil
}

// scopeLink is the scope of destinations on the link, which have no gateway (rtnetlink(7)).
const scopeLink = 253

// routesFor fills in the gateways of routes. A route stays on the link if no address of its family
// has a gateway, or if its own scope says so.
func (c Config) routesFor(addresses []vf.Address) ([]vf.Route, error) {
	var out []vf.Route
	for _, r := range c.Routes {
		served := c.Lenient
		for _, a := range addresses {
			if a.Prefix.Addr().Is4() != r.Dst.Addr().Is4() {
				continue
			}
			served = true
			if !r.Gateway.IsValid() && r.Scope < scopeLink {
				r.Gateway = a.Gateway
			}
		}
		if !served {
			return nil, familyError(r)
		}
		r.OnLink = r.Gateway.IsValid() && !r.Gateway.IsLinkLocalUnicast() &&
			!slices.ContainsFunc(addresses, func(a vf.Address) bool { return a.Prefix.Masked().Contains(r.Gateway) })
		out = append(out, r)
	}
	return out, nil
}

func familyError(r vf.Route) error {
	family := "IPv6"
	if r.Dst.Addr().Is4() {
		family = "IPv4"
	}
	return fmt.Errorf("route %s: %w: the attachment has no %s address; add one or take the route out", r.Dst, vf.ErrInvalid, family)
}
