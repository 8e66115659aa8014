package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

func parseWhereabouts(raw string) (Config, error) {
	return Reader{Lenient: true}.ParseWhereabouts(json.RawMessage(raw))
}

func TestParseWhereabouts(t *testing.T) {
	for _, tc := range []struct {
		raw, held, want string
	}{
		{`{"type":"whereabouts","range":"10.1.0.5/29"}`, "", "10.1.0.1/29 via invalid IP"},
		{`{"type":"whereabouts","range":"10.1.0.0/29","gateway":"10.1.0.1"}`, "", "10.1.0.2/29 via 10.1.0.1"},
		{`{"type":"whereabouts","range":"10.1.0.4-10.1.0.5/29"}`, "10.1.0.4", "10.1.0.5/29 via invalid IP"},
		{`{"type":"whereabouts","range":"10.1.0.4-10.1.0.4/29"}`, "10.1.0.4", "nothing free: addresses of 10.1.0.4-10.1.0.4: 1 of 1 are held (by pod a): nothing free; widen the range or delete what holds them"},
		{`{"type":"whereabouts","range":"10.1.0.0/24","range_start":"10.1.0.9","range_end":"10.2.0.1"}`, "", "10.1.0.9/24 via invalid IP"},
		{`{"type":"whereabouts","range":"10.1.0.0/24","range_start":"10.2.0.9","range_end":"10.1.0.1"}`, "10.1.0.1", "nothing free: addresses of 10.1.0.1-10.1.0.1: 1 of 1 are held (by pod a): nothing free; widen the range or delete what holds them"},
		{`{"type":"whereabouts","range":"10.001.000.000/24","exclude":["10.1.0.0/30","10.1.0.4"]}`, "", "10.1.0.5/24 via invalid IP"},
		{`{"type":"whereabouts","range":"fd00::1/64","ipRanges":[{"range":"10.1.0.0/24","exclude":["10.1.0.1"]}],"gateway":"fe80::1"}`, "", "fd00::1/64 via fe80::1, 10.1.0.2/24 via invalid IP"},
		{`{"type":"whereabouts","range":"10.1.0.0/24","network_name":"x","log_file":"/x","kubernetes":{"kubeconfig":"y"},"node_slice_size":"/26","enable_overlapping_ranges":false}`, "", "10.1.0.1/24 via invalid IP"},
	} {
		c, err := parseWhereabouts(tc.raw)
		if err != nil {
			t.Errorf("%s: %v", tc.raw, err)
			continue
		}
		r, err := c.Allocate(func(a netip.Addr) (vf.Owner, bool) {
			return vf.Owner{Kind: vf.OwnerPod, Name: "a"}, a.String() == tc.held
		}, []netip.Addr{addr("10.1.0.1")}, nil)
		if got := outcome(r, err); got != tc.want || len(c.Warnings) > 0 {
			t.Errorf("%s\n got %s, warnings %q\nwant %s", tc.raw, got, c.Warnings, tc.want)
		}
	}
}

// Networks share a pool by network_name, whatever range they have.
func TestWhereaboutsPools(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"whereabouts","range":"10.1.0.0/24"}`:                       "whereabouts:",
		`{"type":"whereabouts","range":"10.1.0.0/16","network_name":"blue"}`: "whereabouts:blue",
	} {
		c, err := parseWhereabouts(raw)
		if err != nil || c.Pool != want {
			t.Errorf("%s: pool %q, %v", raw, c.Pool, err)
		}
		if pool, is := WhereaboutsPool(json.RawMessage(raw)); pool != want || !is {
			t.Errorf("%s: pool %q of any plugin", raw, pool)
		}
		if name, is := WhereaboutsName(c.Pool); !is || c.IsForAll() != (name == "") {
			t.Errorf("%s: network_name %q, for all: %t", raw, name, c.IsForAll())
		}
	}
}

func TestParseWhereaboutsRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"whereabouts"}`:                                                                         "ipam.range: missing",
		`{"type":"whereabouts","range":"x"}`:                                                             "want an IP address",
		`{"type":"whereabouts","range":"10.1.0.0/40"}`:                                                   "want a range",
		`{"type":"whereabouts","range":"10.1.0.0/31"}`:                                                   "is too small to hand out from",
		`{"type":"whereabouts","range":"10.2.0.4-10.1.0.9/24"}`:                                          "10.2.0.4 is not in subnet 10.1.0.0/24",
		`{"type":"whereabouts","range":"10.1.0.0/24","exclude":["first"]}`:                               "want an address or a subnet",
		`{"type":"whereabouts","range":"10.1.0.0/24","gateway":"router"}`:                                "want an IP address",
		`{"type":"whereabouts","ipRanges":[{"exclude":[]}]}`:                                             "ipam.ipRanges[0].range: missing",
		`{"type":"whereabouts","ipRanges":[{"range":"10.1.0.0/24"},{"range":"10.1.0.0/25"}]}`:            "overlap",
		`{"type":"whereabouts","range":"10.1.0.0/24","addresses":[{"address":"10.9.0.1"}]}`:              "want an address with its prefix length",
		`{"type":"whereabouts","range":"10.1.0.0/24","network_name":"` + strings.Repeat("x", 300) + `"}`: "want at most 241 bytes",
	} {
		if c, err := parseWhereabouts(raw); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90s: %+v, %v; want %s", raw, c, err, want)
		}
	}
	if _, err := (Reader{}).ParseWhereabouts(json.RawMessage(`{"type":"whereabouts","range":"10.1.0.0/24","rangeStart":"x"}`)); err == nil || !strings.Contains(err.Error(), "did you mean range_start?") {
		t.Errorf("strictly: %v", err)
	}
}

// A pod has the fixed addresses beside those of the ranges, and no other pod has them.
func TestWhereaboutsFixedAddresses(t *testing.T) {
	c, err := parseWhereabouts(`{"type":"whereabouts","range":"10.1.0.0/24","addresses":[{"address":"10.1.0.1/24"},{"address":"10.9.0.7/16","gateway":"10.9.0.1"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Allocate(nobody, nil, nil)
	if want := "[{10.1.0.2/24 invalid IP} {10.1.0.1/24 invalid IP} {10.9.0.7/16 10.9.0.1}]"; err != nil || fmt.Sprint(r.Addresses) != want {
		t.Errorf("%v, %v; want %s", r.Addresses, err, want)
	}
	_, err = c.Allocate(func(a netip.Addr) (vf.Owner, bool) {
		return vf.Owner{Name: "another"}, a == netip.MustParseAddr("10.9.0.7")
	}, nil, nil)
	if !errors.Is(err, vf.ErrHeld) {
		t.Errorf("I4: %v", err)
	}
	named := c.Named([]netip.Prefix{netip.MustParsePrefix("10.1.0.9/32")})
	if fmt.Sprint(named) != "[10.1.0.9 10.1.0.1 10.9.0.7]" || c.NeedsBlocks(named) || !c.NeedsBlocks(c.Named(nil)) {
		t.Errorf("named %v", named)
	}
}

// FuzzParseWhereabouts: Allocate works with everything that ParseWhereabouts accepts. A refusal is
// a documented, short error.
func FuzzParseWhereabouts(f *testing.F) {
	f.Add(`{"type":"whereabouts","range":"10.1.0.4-10.1.0.9/24","exclude":["10.1.0.5/32"],"gateway":"10.1.0.1"}`)
	f.Add(`{"range":"010.001.0.0/24","ipRanges":[{"range":"fd00::/64","range_start":"fd00::5","range_end":"fd00::9"}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := parseWhereabouts(raw)
		if err != nil {
			if !errors.Is(err, vf.ErrInvalid) || len(err.Error()) > 64<<10 {
				t.Fatalf("undocumented or long error %v", err)
			}
			return
		}
		allocate(t, c, nobody)
	})
}
