package ipam

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/culvert-net/culvert/strictjson"
	"github.com/culvert-net/culvert/vf"
)

// Bounds on lists. They are compared with each other, and every address and
// route of a network is a call into the kernel for each attachment.
const (
	maxRanges   = 128
	maxExcludes = 1024
	maxStatic   = 64
	maxRoutes   = 256
	maxShared   = 256
)

// few reports whether a list is short enough to be looked at, and records a
// problem when it is not.
func few(o *strictjson.Object, key string, n, most int) bool {
	if n > most {
		o.Fail(key, "%d elements; want at most %d", n, most)
	}
	return n <= most
}

var rangeKeys = []string{"subnet", "rangeStart", "rangeEnd", "gateway"}

// Parse reads the ipam section of a CNI configuration: type host-local (with
// exclude and scope, which are ours), culvert (the same) or static, in the
// form of the CNI project's plugins of those names. An absent, null or empty
// section is the zero Config.
//
// dataDir is accepted and ignored: the ledger holds what is given out. The
// error wraps vf.ErrInvalid and lists everything that is wrong.
func Parse(raw json.RawMessage) (Config, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return Config{}, nil
	}
	o, err := strictjson.Parse(raw, "ipam")
	if err != nil {
		return Config{}, err
	}
	c := Config{Type: o.String("type")}
	switch c.Type {
	case "":
		if o.Empty() {
			return Config{}, nil
		}
		o.Fail("type", "missing; want host-local, culvert or static")
	case TypeHostLocal, TypeCulvert:
		c.Type = TypeHostLocal
		c.hostLocal(o)
	case TypeStatic:
		c.static(o)
	default:
		o.Fail("type", "not served; culvertd hands out addresses itself, for host-local, culvert and static (no ipam section: no addresses)")
	}
	if err := o.Err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c *Config) hostLocal(o *strictjson.Object) {
	if c.PoolOf, _ = strictjson.Text(o, "poolOf", parsePoolOf); o.Given("poolOf") {
		o.Known("type", "poolOf") // addresses, routes and DNS are those of the other network
		return
	}
	o.Known("type", "subnet", "rangeStart", "rangeEnd", "gateway", "ranges", "routes", "exclude", "scope", "dns", "resolvConf", "dataDir", "poolOf", "sharedWith")
	c.sharedWith(o)
	o.String("dataDir")
	c.common(o)
	c.Scope, _ = strictjson.Text(o, "scope", parseScope)
	exclude := o.Strings("exclude")
	if !few(o, "exclude", len(exclude), maxExcludes) {
		return
	}
	for i, s := range exclude {
		p, err := parseExclude(s)
		if err != nil {
			o.Fail("exclude", "element %d: %v", i, err)
			continue
		}
		c.Exclude = append(c.Exclude, p)
	}
	c.sets(o)
	if o.Err() == nil {
		c.families(o)
	}
}

// sharedWith reads the namespaces whose networks may share the pool.
func (c *Config) sharedWith(o *strictjson.Object) {
	c.SharedWith = o.Strings("sharedWith")
	if !few(o, "sharedWith", len(c.SharedWith), maxShared) {
		return
	}
	for i, namespace := range c.SharedWith {
		if namespace == "" || strings.ContainsAny(namespace, "/*") {
			o.Fail("sharedWith", "element %d: %q: want the name of a namespace", i, namespace)
		}
	}
}

func parsePoolOf(s string) (string, error) {
	namespace, name, _ := strings.Cut(s, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%q: want namespace/name of the NetworkAttachmentDefinition whose addresses to share", s)
	}
	return s, nil
}

// sets reads the ranges: one at the top level comes before those of "ranges",
// as in host-local.
func (c *Config) sets(o *strictjson.Object) {
	top := false
	for _, k := range rangeKeys {
		top = top || o.Given(k)
	}
	if top {
		if r, ok := parseRange(o); ok {
			c.Sets = append(c.Sets, []Range{r})
		}
	}
	count := 0
	for i, set := range o.ObjectLists("ranges") {
		if count += len(set) + 1; !few(o, "ranges", count, maxRanges) {
			return
		}
		var ranges []Range
		for _, in := range set {
			in.Known(rangeKeys...)
			if r, ok := parseRange(in); ok {
				ranges = append(ranges, r)
			}
		}
		if len(set) == 0 {
			o.Fail("ranges", "element %d is empty; want at least one range", i)
		}
		c.Sets = append(c.Sets, ranges)
	}
	if !top && len(c.Sets) == 0 {
		o.Fail("subnet", "missing; want a subnet, e.g. 172.16.91.0/24, here or in ranges")
	}
	c.separate(o)
}

// separate refuses ranges that overlap, within a set and across sets, and sets
// of mixed families.
func (c *Config) separate(o *strictjson.Object) {
	var seen []Range
	for i, set := range c.Sets {
		for _, r := range set {
			if r.Start.Is4() != set[0].Start.Is4() {
				o.Fail("ranges", "element %d mixes IPv4 (%s) and IPv6 (%s); want a set for each family", i, set[0].Subnet, r.Subnet)
			}
			for _, s := range seen {
				if s.Contains(r.Start) || r.Contains(s.Start) {
					o.Fail("ranges", "%s and %s overlap; want ranges apart", s, r)
				}
			}
			seen = append(seen, r)
		}
	}
}

// families refuses routes that no address can serve.
func (c *Config) families(o *strictjson.Object) {
	var v4, v6 bool
	for _, set := range c.Sets {
		v4 = v4 || set[0].Start.Is4()
		v6 = v6 || !set[0].Start.Is4()
	}
	for _, r := range c.Routes {
		if is4 := r.Dst.Addr().Is4(); is4 && !v4 || !is4 && !v6 {
			o.Fail("routes", "%v", familyError(r))
		}
	}
}

func (c *Config) static(o *strictjson.Object) {
	o.Known("type", "addresses", "routes", "dns", "resolvConf", "scope")
	c.common(o)
	c.Scope, _ = strictjson.Text(o, "scope", parseScope)
	addresses := o.Objects("addresses")
	if !few(o, "addresses", len(addresses), maxStatic) {
		return
	}
	for _, in := range addresses {
		in.Known("address", "gateway")
		a, ok := strictjson.Text(in, "address", parseAddress)
		if !ok {
			if !in.Given("address") {
				in.Fail("address", "missing; want an address with its prefix length, e.g. 172.16.91.5/24")
			}
			continue
		}
		gw, _ := strictjson.Text(in, "gateway", parseAddr)
		if err := reachable(gw, a); err != nil {
			in.Fail("gateway", "%v", err)
		}
		c.Static = append(c.Static, vf.Address{Prefix: a, Gateway: gw})
	}
	for i, a := range c.Static {
		for _, b := range c.Static[:i] {
			if a.Prefix.Addr() == b.Prefix.Addr() {
				o.Fail("addresses", "%s is there twice", a.Prefix.Addr())
			}
		}
	}
}

func (c *Config) common(o *strictjson.Object) {
	c.ResolvConf = o.String("resolvConf")
	c.DNS = ParseDNS(o.Object("dns"))
	routes := o.Objects("routes")
	if !few(o, "routes", len(routes), maxRoutes) {
		return
	}
	for _, in := range routes {
		if r, ok := parseRoute(in); ok {
			c.Routes = append(c.Routes, r)
		}
	}
}

// ParseDNS reads a dns section (CNI specification 1.1, section 1, "well-known
// keys"); problems are recorded in o, which may be nil.
func ParseDNS(o *strictjson.Object) DNS {
	o.Known("nameservers", "domain", "search", "options")
	d := DNS{Nameservers: o.Strings("nameservers"), Domain: o.String("domain"), Search: o.Strings("search"), Options: o.Strings("options")}
	for _, n := range d.Nameservers {
		if _, err := netip.ParseAddr(n); err != nil {
			o.Fail("nameservers", "%q: want IP addresses", n)
		}
	}
	return d
}

func parseScope(s string) (Scope, error) {
	switch v := Scope(s); v {
	case ScopeNode, ScopeCluster:
		return v, nil
	}
	return "", fmt.Errorf("%q: want node or cluster", s)
}
