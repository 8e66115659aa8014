package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// A lenient network accepts what the CNI project's host-local and static accept, with a warning
// where its author should look again.
func TestLenient(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		wanted    []string
		want      string
	}{
		{"unknown keys", `{"type":"host-local","subnet":"10.0.0.0/29","name":"x","range-start":"10.0.0.3"}`, nil,
			"10.0.0.2/29 via 10.0.0.1 | ipam.name x: unknown key, ignored; ipam.range-start 10.0.0.3: unknown key, ignored: did you mean rangeStart?"},
		{"other case", `{"type":"host-local","Subnet":"10.0.0.0/29","rangestart":"10.0.0.3"}`, nil,
			"10.0.0.3/29 via 10.0.0.1 | ipam.Subnet 10.0.0.0/29: read as subnet; ipam.rangestart 10.0.0.3: read as rangeStart"},
		{"type in another case", `{"Type":"host-local","subnet":"10.0.0.0/29"}`, nil, "10.0.0.2/29 via 10.0.0.1 | ipam.Type host-local: read as type"},
		{"a gateway elsewhere", `{"type":"host-local","subnet":"10.0.0.0/29","gateway":"192.0.2.1","routes":[{"dst":"0.0.0.0/0"}]}`, nil,
			"10.0.0.1/29 via 192.0.2.1, 0.0.0.0/0 via 192.0.2.1 onlink | ipam.gateway 192.0.2.1: is not in subnet 10.0.0.0/29"},
		{"a route without an address of its family", `{"type":"host-local","subnet":"10.0.0.0/29","routes":[{"dst":"::/0"},{"dst":"fd00::/8","gw":"fe80::1"}]}`, nil,
			"10.0.0.2/29 via 10.0.0.1, ::/0, fd00::/8 via fe80::1 | route ::/0: invalid: the attachment has no IPv6 address; route fd00::/8: invalid"},
		{"a destination with host bits", `{"type":"host-local","subnet":"10.0.0.0/29","routes":[{"dst":"10.1.0.0/8"}]}`, nil,
			"10.0.0.2/29 via 10.0.0.1, 10.0.0.0/8 via 10.0.0.1 | ipam.routes[0].dst 10.1.0.0/8: has bits past its prefix length"},
		{"a range without a subnet beside ranges", `{"type":"host-local","gateway":"10.0.0.5","ranges":[[{"subnet":"10.0.0.0/29"}]]}`, nil,
			"10.0.0.2/29 via 10.0.0.1 | rangeStart, rangeEnd and gateway beside it are ignored"},
		{"wanted with another prefix length", `{"type":"host-local","subnet":"10.0.0.0/29"}`, []string{"10.0.0.5/16"}, "10.0.0.5/29 via 10.0.0.1 |"},
		{"static", `{"type":"static","addresses":[{"address":"10.0.0.5/24","gateway":"192.0.2.1","version":"4"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}`, nil,
			"10.0.0.5/24 via 192.0.2.1, 0.0.0.0/0 via 192.0.2.1 onlink, ::/0 | ipam.addresses[0].version 4: unknown key, ignored; ipam.addresses[0].gateway 192.0.2.1: is not in subnet"},
		{"static of another family than the route", fixed, []string{"fd00::9/64"}, "fd00::9/64 via invalid IP, 0.0.0.0/0 |"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Reader{Lenient: true}.Parse(json.RawMessage(tc.raw))
			if err != nil {
				t.Fatal(err)
			}
			var wanted []netip.Prefix
			for _, s := range tc.wanted {
				wanted = append(wanted, prefix(s))
			}
			r, err := c.Allocate(nobody, nil, wanted)
			if err != nil {
				t.Fatal(err)
			}
			got := outcome(r, nil)
			for _, r := range r.Routes {
				got += ", " + r.String()
				if r.OnLink {
					got += " onlink"
				}
			}
			want, warnings, _ := strings.Cut(tc.want, " |")
			if got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
			wantWarnings := strings.Split(strings.TrimSpace(warnings), "; ") // no expected one has a ;
			if warnings == "" {
				wantWarnings = nil
			}
			if len(wantWarnings) != len(c.Warnings) {
				t.Fatalf("warnings %q\nwant %q", c.Warnings, wantWarnings)
			}
			for i, w := range wantWarnings {
				if !strings.Contains(c.Warnings[i], w) {
					t.Errorf("warning %q\nwant %q", c.Warnings[i], w)
				}
			}
		})
	}
}

// A lenient section that names another pool in another case has no addresses of its own.
func TestLenientPools(t *testing.T) {
	for raw, want := range map[string][2]string{
		`{"type":"host-local","subnet":"10.0.0.0/24","AddressPool":"storage"}`: {"", "storage"},
		`{"type":"host-local","subnet":"10.0.0.0/24","PoolOf":"red/net"}`:      {"red/net", ""},
	} {
		c, err := Reader{Lenient: true}.Parse(json.RawMessage(raw))
		if err != nil || c.PoolOf != want[0] || c.AddressPool != want[1] || len(c.Sets) > 0 || len(c.Warnings) != 2 {
			t.Errorf("%s: pool of %q, AddressPool %q, ranges %v, warnings %q, %v", raw, c.PoolOf, c.AddressPool, c.Sets, c.Warnings, err)
		}
	}
}

// Values that are wrong are refused in lenient networks too: host-local refuses them, or would
// apply them wrongly.
func TestLenientRefuses(t *testing.T) {
	for _, raw := range []string{
		`{"type":"host-local"}`,
		`{"type":"host-local","subnet":"10.0.0.7/24"}`,
		`{"type":"host-local","subnet":"10.0.0.0/31"}`,
		`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.1.1"}`,
		`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.9","rangeEnd":"10.0.0.8"}`,
		`{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.0.0.0/25"}]]}`,
		`{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/24"},{"subnet":"fd00::/64"}]]}`,
		`{"type":"host-local","subnet":"10.0.0.0/24","gateway":"fd00::1"}`,
		`{"type":"host-local","subnet":"10.0.0.0/24","routes":[{"dst":"0.0.0.0/0","table":-1}]}`,
		`{"type":"static","addresses":[{"address":"10.0.0.5"}]}`,
		`{"type":"static","addresses":[{"Address":"10.0.0.5/24"}]}`,
	} {
		if c, err := (Reader{Lenient: true}).Parse(json.RawMessage(raw)); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%s: %+v, %v", raw, c, err)
		}
	}
}

func TestRouteAttributes(t *testing.T) {
	c := mustParse(t, `{"type":"host-local","subnet":"10.0.0.0/29","routes":[
		{"dst":"10.1.0.0/16","mtu":1400,"advmss":1300,"priority":7,"table":100,"scope":0},
		{"dst":"10.2.0.0/16","scope":253},
		{"dst":"10.3.0.0/16","gw":"10.0.0.3","table":254,"mtu":0},
		{"dst":"10.4.0.0/16","gw":"192.0.2.1"}]}`)
	r, err := c.Allocate(nobody, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []vf.Route{
		{Dst: prefix("10.1.0.0/16"), Gateway: addr("10.0.0.1"), MTU: 1400, AdvMSS: 1300, Priority: 7, Table: 100},
		{Dst: prefix("10.2.0.0/16"), Scope: scopeLink},
		{Dst: prefix("10.3.0.0/16"), Gateway: addr("10.0.0.3")},
		{Dst: prefix("10.4.0.0/16"), Gateway: addr("192.0.2.1"), OnLink: true},
	}
	if d := cmp.Diff(want, r.Routes, byValue); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestAddRanges(t *testing.T) {
	const none = `{"type":"host-local","routes":[{"dst":"0.0.0.0/0"}]}`
	for _, tc := range []struct{ section, ranges, want string }{
		{none, `[[{"subnet":"10.1.0.0/29"}]]`, "10.1.0.2/29 via 10.1.0.1"},
		{none, `[[{"subnet":"10.1.0.0/29"}],[{"subnet":"fd00::/64"}]]`, "10.1.0.2/29 via 10.1.0.1, fd00::2/64 via fd00::1"},
		{`{"type":"host-local","subnet":"10.0.0.0/29"}`, `[[{"subnet":"10.1.0.0/29","gateway":""}]]`, "10.1.0.2/29 via 10.1.0.1, 10.0.0.2/29 via 10.0.0.1"},
		{`{"type":"host-local","subnet":"10.0.0.0/29"}`, ``, "10.0.0.2/29 via 10.0.0.1"},
		{`{"type":"host-local","subnet":"10.0.0.0/29"}`, `[[{"subnet":"10.0.0.0/24"}]]`, "runtimeConfig.ipRanges [[{\"subnet\":\"10.0.0.0/24\"}]]: 10.0.0.1-10.0.0.254 and 10.0.0.1-10.0.0.6 overlap; want ranges apart"},
		{none, `[[{"subnet":"fd00::/64"}]]`, "invalid: route 0.0.0.0/0: invalid: the attachment has no IPv4 address; add one or take the route out"},
		{none, `{}`, "runtimeConfig.ipRanges {}: want a list of lists of objects"},
		{fixed, `[[{"subnet":"10.1.0.0/29"}]]`, "10.0.0.5/24 via 10.0.0.1"},
	} {
		c, err := Reader{TakesRanges: true}.Parse(json.RawMessage(tc.section))
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if c, err = c.AddRanges(json.RawMessage(tc.ranges)); err != nil {
			got = fmt.Sprint(err)
			if !errors.Is(err, vf.ErrInvalid) {
				t.Errorf("%v is no vf.ErrInvalid", err)
			}
		} else {
			r, err := c.Allocate(nobody, nil, nil)
			got = outcome(r, err)
		}
		if got != tc.want {
			t.Errorf("%s and %s\n got %s\nwant %s", tc.section, tc.ranges, got, tc.want)
		}
	}
}
