package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// describeSets lists what a configuration gives out, set by set.
func describeSets(c Config) (out []string) {
	for i, runs := range c.Usable() {
		var texts []string
		for _, r := range runs {
			texts = append(texts, r.String())
		}
		out = append(out, fmt.Sprintf("%s by %s", strings.Join(texts, " "), c.Sets[i][0].Gateway))
	}
	return out
}

func TestParseSubnets(t *testing.T) {
	for name, tc := range map[string]struct {
		subnets []SubnetText
		want    []string
		wrong   string
	}{
		"whole": {subnets: []SubnetText{{CIDR: "172.16.91.0/29"}}, want: []string{"172.16.91.2-172.16.91.6 by 172.16.91.1"}},
		"ranges, excludes, gateway": {
			subnets: []SubnetText{{CIDR: "10.0.0.0/24", Gateway: "10.0.0.12", Exclude: []string{"10.0.0.14/31", "10.0.0.18"}, Ranges: [][2]string{{"10.0.0.10", "10.0.0.19"}, {"10.0.0.30", "10.0.0.30"}}}},
			want:    []string{"10.0.0.10-10.0.0.11 10.0.0.13 10.0.0.16-10.0.0.17 10.0.0.19 10.0.0.30 by 10.0.0.12"},
		},
		"both families, one set each": {
			subnets: []SubnetText{{CIDR: "fd00::/126"}, {CIDR: "10.0.0.0/30"}, {CIDR: "10.0.1.0/30"}},
			want:    []string{"fd00::2-fd00::3 by fd00::1", "10.0.0.2 10.0.1.2 by 10.0.0.1"},
		},
		"a router on the link": {subnets: []SubnetText{{CIDR: "fd00::/126", Gateway: "fe80::1"}}, want: []string{"fd00::1-fd00::3 by fe80::1"}},
		"no subnet":            {subnets: []SubnetText{{CIDR: "10.0.0.1/24"}, {CIDR: "x"}}, wrong: `subnets[0].cidr: "10.0.0.1/24" has bits past its prefix length: want 10.0.0.0/24; subnets[1].cidr: "x": want a subnet`},
		"too small":            {subnets: []SubnetText{{CIDR: "10.0.0.0/31"}}, wrong: "too small to hand out from"},
		"elsewhere":            {subnets: []SubnetText{{CIDR: "10.0.0.0/24", Gateway: "10.0.1.1", Exclude: []string{"10.0.1.0/28"}, Ranges: [][2]string{{"10.0.0.2", "10.0.1.9"}}}}, wrong: "subnets[0].gateway: 10.0.1.1 is not in subnet 10.0.0.0/24; subnets[0].exclude[0]: 10.0.1.0/28 is not in subnet 10.0.0.0/24; subnets[0].ranges[0].last: 10.0.1.9 is not in subnet 10.0.0.0/24"},
		"other family":         {subnets: []SubnetText{{CIDR: "10.0.0.0/24", Gateway: "fd00::1"}}, wrong: "fd00::1 is not in subnet 10.0.0.0/24"},
		"downwards":            {subnets: []SubnetText{{CIDR: "10.0.0.0/24", Ranges: [][2]string{{"10.0.0.9", "10.0.0.2"}}}}, wrong: "subnets[0].ranges[0].last: 10.0.0.2 is below first 10.0.0.9"},
		"two of one":           {subnets: []SubnetText{{CIDR: "10.0.0.0/24"}, {CIDR: "10.0.0.128/25"}}, wrong: "subnets: 10.0.0.0/24 and 10.0.0.128/25 overlap"},
		"ranges in one":        {subnets: []SubnetText{{CIDR: "10.0.0.0/24", Ranges: [][2]string{{"10.0.0.2", "10.0.0.9"}, {"10.0.0.9", "10.0.0.12"}}}}, wrong: "ranges 10.0.0.2-10.0.0.9 and 10.0.0.9-10.0.0.12 overlap"},
		"nothing left":         {subnets: []SubnetText{{CIDR: "10.0.0.0/30", Exclude: []string{"10.0.0.2"}}}, wrong: "everything is excluded"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := ParseSubnets(tc.subnets)
			if tc.wrong != "" {
				if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), tc.wrong) {
					t.Fatalf("%v, want %q", err, tc.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, describeSets(c)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// An attachment gets one address of each family, with the pool's gateway for the network's routes.
func TestSectionOfAnAddressPool(t *testing.T) {
	pool, err := ParseSubnets([]SubnetText{{CIDR: "10.0.0.0/24", Gateway: "10.0.0.254"}, {CIDR: "fd00::/64"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse([]byte(`{"type": "culvert", "addressPool": "storage", "routes": [{"dst": "0.0.0.0/0"}], "dns": {"nameservers": ["10.0.0.53"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c, err = c.WithPool(pool); err != nil {
		t.Fatal(err)
	}
	got, err := c.Allocate(func(netip.Addr) (vf.Owner, bool) { return vf.Owner{}, false }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "[10.0.0.1/24 fd00::2/64] via 10.0.0.254"
	if s := fmt.Sprintf("[%s %s] via %s", got.Addresses[0].Prefix, got.Addresses[1].Prefix, got.Routes[0].Gateway); s != want || c.DNS.IsZero() {
		t.Errorf("%s, DNS %v; want %s", s, c.DNS, want)
	}
}

func TestSectionOfAnAddressPoolIsRefused(t *testing.T) {
	for section, want := range map[string]string{
		`{"type": "culvert", "addressPool": "Storage"}`:                            "want the name of an AddressPool",
		`{"type": "culvert", "addressPool": "a/b"}`:                                "want the name of an AddressPool",
		`{"type": "culvert", "addressPool": "storage", "subnet": "10.0.0.0/24"}`:   "subnet",
		`{"type": "host-local", "addressPool": "storage", "scope": "node"}`:        "scope",
		`{"type": "culvert", "addressPool": "storage", "sharedWith": ["default"]}`: "sharedWith",
	} {
		if _, err := Parse([]byte(section)); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
	pool, err := ParseSubnets([]SubnetText{{CIDR: "10.0.0.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	for gateway, refused := range map[string]bool{"10.0.0.1": false, "10.0.0.9": true, "10.0.1.9": false} {
		c, err := Parse(fmt.Appendf(nil, `{"type": "culvert", "addressPool": "storage", "routes": [{"dst": "10.9.0.0/16", "gw": %q}]}`, gateway))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.WithPool(pool); errors.Is(err, vf.ErrInvalid) != refused {
			t.Errorf("a route over %s: %v", gateway, err)
		}
	}
}
