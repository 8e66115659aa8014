package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

var byValue = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func run(subnet, start, end, gateway string) Range {
	return Range{Subnet: prefix(subnet), Start: addr(start), End: addr(end), Gateway: addr(gateway)}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		want      Config
	}{
		{"absent", ``, Config{}},
		{"null", `null`, Config{}},
		{"empty", `{}`, Config{}},
		{
			"the manifests of R0",
			`{"type":"host-local","subnet":"172.16.91.0/24","routes":[{"dst":"0.0.0.0/0"}],"gateway":"172.16.91.1"}`,
			Config{
				Type:   TypeHostLocal,
				Sets:   [][]Range{{run("172.16.91.0/24", "172.16.91.1", "172.16.91.254", "172.16.91.1")}},
				Routes: []vf.Route{{Dst: prefix("0.0.0.0/0")}},
			},
		},
		{
			"culvert is host-local",
			`{"type":"culvert","subnet":"10.0.0.0/30","scope":"cluster","dataDir":"/x","resolvConf":"/etc/resolv.conf"}`,
			Config{
				Type: TypeHostLocal, Scope: ScopeCluster, ResolvConf: "/etc/resolv.conf",
				Sets: [][]Range{{run("10.0.0.0/30", "10.0.0.1", "10.0.0.2", "10.0.0.1")}},
			},
		},
		{
			"a pool that is shared",
			`{"type":"culvert","subnet":"10.0.0.0/30","sharedWith":["red","blue"]}`,
			Config{Type: TypeHostLocal, SharedWith: []string{"red", "blue"}, Sets: [][]Range{{run("10.0.0.0/30", "10.0.0.1", "10.0.0.2", "10.0.0.1")}}},
		},
		{"a pool of another network", `{"type":"culvert","poolOf":"red/net"}`, Config{Type: TypeHostLocal, PoolOf: "red/net"}},
		{"another project's plugin", `{"type":"dhcp","request":[{"option":"router"}]}`, Config{Type: "dhcp"}},
		{
			"both families, everything given",
			`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.10","rangeEnd":"10.0.0.20","gateway":"10.0.0.254",
			  "ranges":[[{"subnet":"fd00::/64","rangeStart":"fd00::10","gateway":"fe80::1"},{"subnet":"fd01::/64"}]],
			  "exclude":["10.0.0.12","10.0.0.16/30","fd00::20/124"],
			  "routes":[{"dst":"0.0.0.0/0"},{"dst":"fd02::/16","gw":"fd00::2","mtu":1400,"priority":5}],
			  "dns":{"nameservers":["10.0.0.53"],"search":["a.b"]}}`,
			Config{
				Type: TypeHostLocal,
				Sets: [][]Range{
					{run("10.0.0.0/24", "10.0.0.10", "10.0.0.20", "10.0.0.254")},
					{run("fd00::/64", "fd00::10", "fd00::ffff:ffff:ffff:ffff", "fe80::1"), run("fd01::/64", "fd01::1", "fd01::ffff:ffff:ffff:ffff", "fd01::1")},
				},
				Exclude: []netip.Prefix{prefix("10.0.0.12/32"), prefix("10.0.0.16/30"), prefix("fd00::20/124")},
				Routes:  []vf.Route{{Dst: prefix("0.0.0.0/0")}, {Dst: prefix("fd02::/16"), Gateway: addr("fd00::2"), MTU: 1400, Priority: 5}},
				DNS:     DNS{Nameservers: []string{"10.0.0.53"}, Search: []string{"a.b"}},
			},
		},
		{
			"left empty by a template",
			`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"","gateway":"","routes":[{"dst":"0.0.0.0/0","gw":""}]}`,
			Config{
				Type:   TypeHostLocal,
				Sets:   [][]Range{{run("10.0.0.0/24", "10.0.0.1", "10.0.0.254", "10.0.0.1")}},
				Routes: []vf.Route{{Dst: prefix("0.0.0.0/0")}},
			},
		},
		{
			"IPv4-mapped IPv6 is IPv4",
			`{"type":"host-local","subnet":"::ffff:10.0.0.0/120","gateway":"::ffff:10.0.0.9","rangeStart":"::ffff:10.0.0.4"}`,
			Config{Type: TypeHostLocal, Sets: [][]Range{{run("10.0.0.0/24", "10.0.0.4", "10.0.0.254", "10.0.0.9")}}},
		},
		{
			"static",
			`{"type":"static","addresses":[{"address":"10.0.0.5/24","gateway":"10.0.0.1"},{"address":"fd00::5/64"}],"routes":[{"dst":"::/0","gw":"fd00::1"}]}`,
			Config{
				Type:   TypeStatic,
				Static: []vf.Address{{Prefix: prefix("10.0.0.5/24"), Gateway: addr("10.0.0.1")}, {Prefix: prefix("fd00::5/64")}},
				Routes: []vf.Route{{Dst: prefix("::/0"), Gateway: addr("fd00::1")}},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(json.RawMessage(tc.raw))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got, byValue); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		`[]`:                       `ipam []: want a JSON object`,
		`{"type":"host-locl"}`:     `ipam.type host-locl: a plugin of that name is run: did you mean host-local?`,
		`{"type":"../sh"}`:         `ipam.type ../sh: want host-local, culvert, static or the name of a CNI plugin that gives addresses`,
		`{"subnet":"10.0.0.0/24"}`: `ipam.type: missing; without it the section gives no addresses: want host-local, culvert or static`,
		`{"type":"host-local","ranges":[[{"subnet":""}]]}`:                                           `ipam.ranges[0][0].subnet "": missing; want a subnet, e.g. 172.16.91.0/24`,
		`{"type":"host-local"}`:                                                                      `ipam.subnet: missing; want a subnet, e.g. 172.16.91.0/24, here or in ranges`,
		`{"type":"host-local","rangeStart":"10.0.0.1"}`:                                              `ipam.subnet: missing; want a subnet, e.g. 172.16.91.0/24`,
		`{"type":"host-local","subnet":"172.16.91.0/24","rangeStart":"172.16.92.5"}`:                 `ipam.rangeStart 172.16.92.5: is not in subnet 172.16.91.0/24`,
		`{"type":"host-local","subnet":"172.16.91.0/24","rangeEnd":"fd00::1"}`:                       `ipam.rangeEnd "fd00::1": is not in subnet 172.16.91.0/24`,
		`{"type":"host-local","subnet":"172.16.91.0/24","gateway":"fe80::1"}`:                        `ipam.gateway "fe80::1": is of another family than 172.16.91.0/24`,
		`{"type":"host-local","subnet":"172.16.91.7/24"}`:                                            `ipam.subnet: "172.16.91.7/24" has bits past its prefix length: want 172.16.91.0/24`,
		`{"type":"host-local","subnet":"172.16.91.0/31"}`:                                            `ipam.subnet: "172.16.91.0/31" is too small to hand out from: want /30 or shorter (type static gives one fixed address)`,
		`{"type":"host-local","subnet":"fd00::/127"}`:                                                `ipam.subnet: "fd00::/127" is too small to hand out from: want /126 or shorter (type static gives one fixed address)`,
		`{"type":"host-local","subnet":"172.16.91"}`:                                                 `ipam.subnet: "172.16.91": want a subnet, e.g. 172.16.91.0/24`,
		`{"type":"host-local","subnet":"10.0.0.0/24","range-start":"10.0.0.1"}`:                      `ipam.range-start: did you mean rangeStart? (unknown key, value 10.0.0.1)`,
		`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.9","rangeEnd":"10.0.0.8"}`: `ipam.rangeEnd 10.0.0.8: is below rangeStart 10.0.0.9`,
		`{"type":"host-local","subnet":"10.0.0.0/24","ranges":[[{"subnet":"10.0.0.128/25"}]]}`:       `ipam.ranges [[{"subnet":"10.0.0.128/25"}]]: 10.0.0.1-10.0.0.254 and 10.0.0.129-10.0.0.254 overlap; want ranges apart`,
		`{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/24"},{"subnet":"fd00::/64"}]]}`:         `ipam.ranges [[{"subnet":"10.0.0.0/24"},{"subnet":"fd00::/64"}]]: element 0 mixes IPv4 (10.0.0.0/24) and IPv6 (fd00::/64); want a set for each family`,
		`{"type":"host-local","poolOf":""}`:                                                          `ipam.subnet: missing; want a subnet, e.g. 172.16.91.0/24, here or in ranges`,
		`{"type":"host-local","poolOf":"red/net","subnet":"10.0.0.0/24"}`:                            `ipam.subnet: unknown key (value 10.0.0.0/24); known are type, poolOf`,
		`{"type":"host-local","poolOf":"a/b/c"}`:                                                     `ipam.poolOf: "a/b/c": want namespace/name of the NetworkAttachmentDefinition whose addresses to share`,
		`{"type":"host-local","subnet":"10.0.0.0/24","sharedWith":["a/b"]}`:                          `ipam.sharedWith ["a/b"]: element 0: "a/b": want the name of a namespace`,
		`{"type":"host-local","ranges":[[]]}`:                                                        `ipam.ranges [[]]: element 0 is empty; want at least one range`,
		`{"type":"host-local","subnet":"10.0.0.0/24","exclude":["x"]}`:                               `ipam.exclude ["x"]: element 0: "x": want an address or a subnet`,
		`{"type":"host-local","subnet":"10.0.0.0/24","scope":"world"}`:                               `ipam.scope: "world": want node or cluster`,
		`{"type":"host-local","subnet":"10.0.0.0/24","routes":[{"dst":"::/0"}]}`:                     `ipam.routes [{"dst":"::/0"}]: route ::/0: invalid: the attachment has no IPv6 address; add one or take the route out`,
		`{"type":"host-local","subnet":"10.0.0.0/24","routes":[{"dst":"10.1.0.0/8"}]}`:               `ipam.routes[0].dst 10.1.0.0/8: has bits past its prefix length: want 10.0.0.0/8`,
		`{"type":"host-local","subnet":"10.0.0.0/24","routes":[{"gw":"10.0.0.1"}]}`:                  `ipam.routes[0].dst: missing; want a destination, e.g. 0.0.0.0/0`,
		`{"type":"host-local","subnet":"10.0.0.0/24","routes":[{"dst":"0.0.0.0/0","gw":"fd00::1"}]}`: `ipam.routes[0].gw "fd00::1": is of another family than dst 0.0.0.0/0`,
		`{"type":"host-local","subnet":"10.0.0.0/24","dns":{"nameservers":["dns.example"]}}`:         `ipam.dns.nameservers ["dns.example"]: "dns.example": want IP addresses`,
		`{"type":"static","addresses":[{"address":"10.0.0.5"}]}`:                                     `ipam.addresses[0].address: "10.0.0.5": want an address with its prefix length, e.g. 172.16.91.5/24`,
		`{"type":"static","addresses":[{}]}`:                                                         `ipam.addresses[0].address: missing; want an address with its prefix length, e.g. 172.16.91.5/24`,
		`{"type":"static","addresses":[{"address":"10.0.0.5/24"},{"address":"10.0.0.5/8"}]}`:         `ipam.addresses [{"address":"10.0.0.5/24"},{"address":"10.0.0.5/8"}]: 10.0.0.5 is there twice`,
		`{"type":"static","subnet":"10.0.0.0/24"}`:                                                   `ipam.subnet: unknown key (value 10.0.0.0/24); known are type, addresses, routes, dns, resolvConf, scope, shared`,
	} {
		_, err := Parse(json.RawMessage(raw))
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
		if !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%s: the error is not a vf.ErrInvalid", raw)
		}
	}
}
