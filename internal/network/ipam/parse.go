package ipam

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
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

// CheckResult refuses the result of another project's plugin that has more addresses or routes than
// a network of Culvert's own may have. The ledger keeps them for each VF.
func CheckResult(addresses, routes int) error {
	switch {
	case addresses > maxStatic:
		return fmt.Errorf("%w: it has %d addresses; want at most %d", vf.ErrInvalid, addresses, maxStatic)
	case routes > maxRoutes:
		return fmt.Errorf("%w: it has %d routes; want at most %d", vf.ErrInvalid, routes, maxRoutes)
	}
	return nil
}

// few reports whether a list is short enough to be parsed, and records a problem if it is not.
func few(o *strictjson.Object, key string, n, most int) bool {
	if n > most {
		o.Fail(key, "%d elements; want at most %d", n, most)
	}
	return n <= most
}

var rangeKeys = []string{"subnet", "rangeStart", "rangeEnd", "gateway"}

// Reader reads the ipam sections of networks. The zero value is strict.
type Reader struct {
	// Lenient warns of unknown keys, where strict sections are refused, and takes what the
	// CNI project's plugins take, see Config.Lenient.
	Lenient bool
	// TakesRanges: the runtime may add ranges (AddRanges), so the section needs none.
	TakesRanges bool
}

// Parse is Reader.Parse of the zero Reader.
func Parse(raw json.RawMessage) (Config, error) { return Reader{}.Parse(raw) }

// Parse reads the ipam section of a CNI configuration: type host-local, culvert (the same) or
// static, in the form of the CNI project's plugins of those names. Culvert's own keys are exclude
// and scope, and for static scope and shared. A section of any other type is for the plugin of
// that name (Config.IsDelegated), which reads the rest of it. An absent, null or empty section is
// the zero Config. A lenient Reader takes one without a type for none, as the SR-IOV CNI plugin does.
//
// dataDir is accepted and ignored: the ledger holds what is given out. The
// error wraps vf.ErrInvalid and lists everything that is wrong.
func (r Reader) Parse(raw json.RawMessage) (Config, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return Config{}, nil
	}
	parse := strictjson.Parse
	if r.Lenient {
		parse = strictjson.ParseLenient
	}
	o, err := parse(raw, "ipam")
	if err != nil {
		return Config{}, err
	}
	o.FoldKnown("type", "poolOf", "addressPool") // which keys the section may have depends on these
	c := Config{Type: o.String("type"), Lenient: r.Lenient}
	switch c.Type {
	case "":
		if o.Empty() {
			return Config{}, nil
		}
		o.Doubt("type", "missing; without it the section gives no addresses: want host-local, culvert or static")
	case TypeHostLocal, TypeCulvert:
		c.Type = TypeHostLocal
		c.hostLocal(o, r)
	case TypeStatic:
		c.static(o)
	default:
		delegated(o, c.Type)
	}
	if err := o.Err(); err != nil {
		return Config{}, err
	}
	c.Warnings = o.Warnings()
	return c, nil
}

// delegated checks the type of a section that another project's plugin reads.
func delegated(o *strictjson.Object, plugin string) {
	if !api.IsPluginType(plugin) {
		o.Fail("type", "want host-local, culvert, static or the name of a CNI plugin that gives addresses")
		return
	}
	if !GivesAddresses(plugin) {
		o.Fail("type", "the CNI plugin %s gives no addresses: as its own IPAM plugin it would execute itself without end; want host-local, culvert, static or one that does", plugin)
		return
	}
	if near := suggest.DidYouMean(plugin, []string{TypeHostLocal, TypeCulvert, TypeStatic}); near != "" {
		o.Doubt("type", "a plugin of that name is run%s", near)
	}
}

func (c *Config) hostLocal(o *strictjson.Object, r Reader) {
	if c.PoolOf, _ = strictjson.Text(o, "poolOf", parsePoolOf); o.Given("poolOf") {
		o.Known("type", "poolOf") // addresses, routes and DNS are those of the other network
		return
	}
	if c.AddressPool, _ = strictjson.Text(o, "addressPool", parsePoolName); o.Given("addressPool") {
		o.Known("type", "addressPool", "routes", "dns", "resolvConf") // the pool has the addresses
		c.common(o)
		return
	}
	o.Known("type", "subnet", "rangeStart", "rangeEnd", "gateway", "ranges", "routes", "exclude", "scope", "dns", "resolvConf", "dataDir", "poolOf", "sharedWith", "addressPool")
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
	c.sets(o, r)
	if o.Err() == nil && len(c.Sets) > 0 {
		c.families(o, "routes")
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

// parsePoolName reads the name of an AddressPool (RFC 1123 subdomain).
func parsePoolName(s string) (string, error) {
	is := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' }
	if s == "" || len(s) > longestPool || strings.ContainsFunc(s, func(r rune) bool { return !is(r) }) {
		return "", fmt.Errorf("%q: want the name of an AddressPool, as kubectl get addresspools lists it", s)
	}
	return s, nil
}

func parsePoolOf(s string) (string, error) {
	namespace, name, _ := strings.Cut(s, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%q: want namespace/name of the NetworkAttachmentDefinition whose addresses to share", s)
	}
	return s, nil
}

// sets reads the ranges. A range at the top level comes before those of "ranges", as in host-local,
// which also leaves out a range at the top level without a subnet.
func (c *Config) sets(o *strictjson.Object, reader Reader) {
	top := slices.ContainsFunc(rangeKeys, o.Given)
	if top && reader.Lenient && !o.Given("subnet") && o.Given("ranges") {
		o.Doubt("ranges", "rangeStart, rangeEnd and gateway beside it are ignored, since they have no subnet: give them in ranges")
		top = false
	}
	if top {
		if r, ok := parseRange(o); ok {
			c.Sets = append(c.Sets, []Range{r})
		}
	}
	c.Sets = append(c.Sets, parseSets(o, "ranges")...)
	if !top && len(c.Sets) == 0 && !reader.TakesRanges {
		o.Fail("subnet", "missing; want a subnet, e.g. 172.16.91.0/24, here or in ranges")
	}
	c.separate(o, "ranges")
}

// parseSets reads a list of range sets.
func parseSets(o *strictjson.Object, key string) (out [][]Range) {
	count := 0
	for i, set := range o.ObjectLists(key) {
		if count += len(set) + 1; !few(o, key, count, maxRanges) {
			return out
		}
		var ranges []Range
		for _, in := range set {
			in.Known(rangeKeys...)
			if r, ok := parseRange(in); ok {
				ranges = append(ranges, r)
			}
		}
		if len(set) == 0 {
			o.Fail(key, "element %d is empty; want at least one range", i)
		}
		out = append(out, ranges)
	}
	return out
}

// AddRanges returns c with the range sets of runtimeConfig.ipRanges before its own (CNI
// conventions, capability ipRanges). raw is that value; none adds nothing. Only c of
// TypeHostLocal takes any. The error wraps vf.ErrInvalid.
func (c Config) AddRanges(raw json.RawMessage) (Config, error) {
	if len(raw) == 0 || c.Type != TypeHostLocal || c.PoolOf != "" || c.AddressPool != "" {
		return c, nil
	}
	in, err := json.Marshal(map[string]json.RawMessage{"ipRanges": raw})
	if err != nil {
		return c, fmt.Errorf("runtimeConfig.ipRanges: %w: %w", vf.ErrInvalid, err)
	}
	o, err := strictjson.ParseLenient(in, "runtimeConfig") // of a runtime, which may be newer than Culvert
	if err != nil {
		return c, err
	}
	c.Sets = append(parseSets(o, "ipRanges"), c.Sets...)
	c.separate(o, "ipRanges")
	return c, o.Err()
}

// separate refuses ranges that overlap, within a set and across sets, and sets
// of mixed families.
func (c *Config) separate(o *strictjson.Object, key string) {
	var seen []Range
	for i, set := range c.Sets {
		for _, r := range set {
			if r.Start.Is4() != set[0].Start.Is4() {
				o.Fail(key, "element %d mixes IPv4 (%s) and IPv6 (%s); want a set for each family", i, set[0].Subnet, r.Subnet)
			}
			for _, s := range seen {
				if s.Contains(r.Start) || r.Contains(s.Start) {
					o.Fail(key, "%s and %s overlap; want ranges apart", s, r)
				}
			}
			seen = append(seen, r)
		}
	}
}

// families refuses a route if no range set has addresses of its family. In a lenient network, such
// a route goes on the link, or to the gateway that it names.
func (c *Config) families(o *strictjson.Object, key string) {
	var v4, v6 bool
	for _, set := range c.Sets {
		v4 = v4 || set[0].Start.Is4()
		v6 = v6 || !set[0].Start.Is4()
	}
	for _, r := range c.Routes {
		if is4 := r.Dst.Addr().Is4(); is4 && !v4 || !is4 && !v6 {
			o.Doubt(key, "%v", familyError(r))
		}
	}
}

func (c *Config) static(o *strictjson.Object) {
	o.Known("type", "addresses", "routes", "dns", "resolvConf", "scope", "shared")
	c.common(o)
	c.Shared = o.Bool("shared")
	c.Scope, _ = strictjson.Text(o, "scope", parseScope)
	c.fixedAddresses(o)
}

// fixedAddresses reads the key addresses of o.
func (c *Config) fixedAddresses(o *strictjson.Object) {
	addresses := o.Objects("addresses")
	if !few(o, "addresses", len(addresses), maxStatic) {
		return
	}
	for _, in := range addresses {
		if in.IsLenient() && in.Has("Address") { // static has a field of that name, which takes no text
			in.Fail("Address", "want the key address")
		}
		in.Known("address", "gateway")
		a, ok := strictjson.Text(in, "address", parseAddress)
		if !ok {
			if !in.Given("address") {
				in.Fail("address", "missing; want an address with its prefix length, e.g. 172.16.91.5/24")
			}
			continue
		}
		gw := parseGateway(in, a)
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
