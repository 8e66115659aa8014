package ipam

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/culvert-net/culvert/internal/network/strictjson"
)

// TypeWhereabouts is the type of section that ParseWhereabouts reads. Parse takes it for the type
// of another project's plugin.
const TypeWhereabouts = "whereabouts"

// whereaboutsPool begins the name of the pools of whereabouts networks. No CNI name and no
// namespace/name has it.
const whereaboutsPool = "whereabouts:"

// WhereaboutsName returns the network_name whose networks share a pool, and whether the pool is one
// of whereabouts networks. Networks without a network_name share the pool of the empty name.
func WhereaboutsName(pool string) (name string, is bool) {
	return strings.CutPrefix(pool, whereaboutsPool)
}

// IsForAll reports whether c has the pool that all whereabouts networks without a network_name
// share.
func (c Config) IsForAll() bool { return c.Pool == whereaboutsPool }

// WhereaboutsPool returns the pool of an ipam section of any plugin, and whether the section is of
// type whereabouts. It reads the section as whereabouts does, and needs no range in it.
func WhereaboutsPool(raw json.RawMessage) (pool string, is bool) {
	var section struct {
		Type string `json:"type"`
		Name string `json:"network_name"`
	}
	if json.Unmarshal(raw, &section) != nil || section.Type != TypeWhereabouts {
		return "", false
	}
	return whereaboutsPool + section.Name, true
}

var (
	whereaboutsRangeKeys = []string{"range", "range_start", "range_end", "exclude"}
	// whereaboutsKeys are the keys that decide about addresses. The other keys say where and how
	// whereabouts stores them.
	whereaboutsKeys = append([]string{"type", "ipRanges", "gateway", "routes", "dns", "addresses", "network_name", "resolvConf"}, whereaboutsRangeKeys...)
	whereaboutsRest = []string{
		"name", "datastore", "kubernetes", "configuration_path", "log_file", "log_level", "node_slice_size", "enable_overlapping_ranges", "sleep_for_race",
		"reconciler_cron_expression", "leader_lease_duration", "leader_renew_deadline", "leader_retry_period",
		"etcd_host", "etcd_username", "etcd_password", "etcd_key_file", "etcd_cert_file", "etcd_ca_cert_file",
	}
)

// ParseWhereabouts reads a section of type whereabouts (version 0.9.2, pkg/config) as one of
// TypeHostLocal, for which Culvert gives out the addresses. All networks of one network_name share
// a pool, as they share what whereabouts stores, so no two of them give out the same address.
//
// The lowest free address comes first. Unlike whereabouts it never gives out a gateway. The
// error wraps vf.ErrInvalid.
func (r Reader) ParseWhereabouts(raw json.RawMessage) (Config, error) {
	parse := strictjson.Parse
	if r.Lenient {
		parse = strictjson.ParseLenient
	}
	o, err := parse(raw, "ipam")
	if err != nil {
		return Config{}, err
	}
	o.Known(append(whereaboutsKeys, whereaboutsRest...)...)
	c := Config{Type: TypeHostLocal, Lenient: r.Lenient, LowestFirst: true, Pool: whereaboutsPool + o.String("network_name")}
	if len(c.Pool) > longestPool {
		o.Fail("network_name", "want at most %d bytes", longestPool-len(whereaboutsPool))
	}
	c.common(o)
	gateway, _ := strictjson.Text(o, "gateway", parseAddr)
	if o.Given("range") {
		c.whereaboutsRange(o, gateway)
	}
	ranges := o.Objects("ipRanges")
	if few(o, "ipRanges", len(ranges), maxRanges) {
		for _, in := range ranges {
			in.Known(whereaboutsRangeKeys...)
			c.whereaboutsRange(in, gateway)
		}
	}
	c.fixedAddresses(o)
	for _, a := range c.Static { // of no range: the attachment gets it as a fixed one
		c.Exclude = append(c.Exclude, netip.PrefixFrom(a.Prefix.Addr(), a.Prefix.Addr().BitLen()))
	}
	if len(c.Sets) == 0 && o.Err() == nil {
		o.Fail("range", "missing; want a range, e.g. 172.16.91.0/24, here or in ipRanges (culvertd does not read the file of configuration_path)")
	}
	c.separate(o, "ipRanges")
	if o.Err() == nil {
		c.families(o, "routes")
	}
	if err := o.Err(); err != nil {
		return Config{}, err
	}
	c.Warnings = o.Warnings()
	return c, nil
}

// longestPool bounds the name of a pool.
const longestPool = 253

// whereaboutsRange reads range, range_start, range_end and exclude of o as one set. Like
// whereabouts, it ignores a start or an end that is not in the range.
func (c *Config) whereaboutsRange(o *strictjson.Object, gateway netip.Addr) {
	w, ok := strictjson.Text(o, "range", parseWhereaboutsRange)
	if !ok {
		if !o.Given("range") {
			o.Fail("range", "missing; want a range, e.g. 172.16.91.0/24")
		}
		return
	}
	start, end := w.start, w.end
	if !end.IsValid() {
		start, _ = sloppyAddr(o.String("range_start"))
		end, _ = sloppyAddr(o.String("range_end"))
	}
	r := Range{Subnet: w.subnet, Start: w.subnet.Addr().Next(), End: lastOf(w.subnet).Prev()}
	if start.IsValid() && r.Contains(start) {
		r.Start = start
	}
	if end.IsValid() && r.Contains(end) {
		r.End = end
	}
	if gateway.IsValid() && gateway.Is4() == r.Start.Is4() {
		r.Gateway = gateway
	}
	c.Sets = append(c.Sets, []Range{r})
	exclude := o.Strings("exclude")
	if !few(o, "exclude", len(c.Exclude)+len(exclude), maxExcludes) {
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
}

// whereaboutsRange is "10.0.0.0/24", or "10.0.0.5-10.0.0.9/24" with its start and end.
type whereaboutsRange struct {
	subnet     netip.Prefix
	start, end netip.Addr
}

func parseWhereaboutsRange(s string) (whereaboutsRange, error) {
	var w whereaboutsRange
	first, prefix, both := strings.Cut(s, "-")
	if !both {
		prefix = first
	}
	text, bits, _ := strings.Cut(prefix, "/")
	last, err := sloppyAddr(text)
	if err != nil {
		return w, err
	}
	p, err := parseAddress(last.String() + "/" + bits)
	if err != nil {
		return w, fmt.Errorf("%q: want a range, e.g. 172.16.91.0/24 or 172.16.91.5-172.16.91.9/24", s)
	}
	if w.subnet = p.Masked(); p.Addr().BitLen()-p.Bits() < 2 {
		return w, fmt.Errorf("%q is too small to hand out from: want /%d or shorter", s, p.Addr().BitLen()-2)
	}
	if !both {
		return w, nil
	}
	if w.start, err = sloppyAddr(first); err != nil {
		return w, err
	}
	if w.end = last; !w.subnet.Contains(w.start) {
		return w, fmt.Errorf("%q: %s is not in subnet %s", s, w.start, w.subnet)
	}
	return w, nil
}

// sloppyPrefix reads a prefix whose address is that of sloppyAddr.
func sloppyPrefix(s string) (netip.Prefix, error) {
	text, bits, _ := strings.Cut(s, "/")
	a, err := sloppyAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return parseAddress(a.String() + "/" + bits)
}

// sloppyAddr is parseAddr of an address whose decimal numbers may begin with zeros.
func sloppyAddr(s string) (netip.Addr, error) {
	if strings.Count(s, ".") == 3 && !strings.Contains(s, ":") {
		parts := strings.Split(s, ".")
		for i, p := range parts {
			if p = strings.TrimLeft(p, "0"); p == "" && parts[i] != "" {
				p = "0"
			}
			parts[i] = p
		}
		s = strings.Join(parts, ".")
	}
	return parseAddr(s)
}
