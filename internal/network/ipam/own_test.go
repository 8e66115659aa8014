package ipam

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// A node gives out only the addresses that the cluster has given it: those of its runs, and those that
// it claimed by name.
func TestI4WithinOwn(t *testing.T) {
	run := func(first, last string) Run { return Run{addr(first), addr(last)} }
	c := mustParse(t, `{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"},{"subnet":"10.2.0.0/24"}]]}`)
	claims := map[netip.Addr]string{addr("10.1.0.200"): "c1"}
	for name, tc := range map[string]struct {
		own    Own
		wanted string
		held   []string
		want   string // an address or a part of the error
	}{
		"no run":                  {Own{}, "", nil, "the cluster has given this node none yet"},
		"a run":                   {Own{Runs: []Run{run("10.1.0.64", "10.1.0.65")}}, "", nil, "10.1.0.64"},
		"runs in any order":       {Own{Runs: []Run{run("10.2.0.8", "10.2.0.9"), run("10.1.0.64", "10.1.0.64")}}, "", []string{"10.1.0.64"}, "10.2.0.8"},
		"a run beyond the ranges": {Own{Runs: []Run{run("10.0.255.0", "10.1.0.3")}}, "", []string{"10.1.0.2"}, "10.1.0.3"},
		"a run of the other kind": {Own{Runs: []Run{run("fd00::1", "fd00::9")}}, "", nil, "none yet"},
		"all held":                {Own{Runs: []Run{run("10.1.0.64", "10.1.0.65")}}, "", []string{"10.1.0.64", "10.1.0.65"}, "all 2 that the cluster has given this node are held"},
		"named and claimed":       {Own{Claims: claims}, "10.1.0.200/24", nil, "10.1.0.200"},
		"named in a run":          {Own{Runs: []Run{run("10.1.0.64", "10.1.0.65")}}, "10.1.0.65/24", nil, "10.1.0.65"},
		"named, of another node":  {Own{Claims: claims}, "10.1.0.201/24", nil, "address 10.1.0.201: not ready: the cluster has not given it to this node"},
	} {
		h := holders{}
		for _, a := range tc.held {
			h[addr(a)] = "default/other"
		}
		var wanted []netip.Prefix
		if tc.wanted != "" {
			wanted = append(wanted, prefix(tc.wanted))
		}
		r, err := c.Within(tc.own).Allocate(h.held, nil, wanted)
		switch {
		case err != nil:
			if !errors.Is(err, ErrNoBlock) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v; want %q", name, err, tc.want)
			}
		case len(r.Addresses) != 1 || r.Addresses[0].Prefix.Addr().String() != tc.want:
			t.Errorf("%s: %+v; want %s", name, r.Addresses, tc.want)
		}
	}
}

// A result of another project's plugin may have as many addresses and routes as a network of Culvert's own.
func TestCheckResult(t *testing.T) {
	for _, tc := range []struct {
		addresses, routes int
		want              string
	}{
		{maxStatic, maxRoutes, ""},
		{maxStatic + 1, 0, "it has 65 addresses; want at most 64"},
		{0, maxRoutes + 1, "it has 257 routes; want at most 256"},
	} {
		if err := CheckResult(tc.addresses, tc.routes); (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%d, %d: %v; want %q", tc.addresses, tc.routes, err, tc.want)
		}
	}
}
