package blocks

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// showDemands lists the ranges and the claims of demands.
func showDemands(all ...Demand) (out []string) {
	for _, d := range all {
		for _, r := range d.Ranges {
			out = append(out, d.Node+" "+r.String())
		}
		for _, c := range d.Claims {
			out = append(out, fmt.Sprintf("%s %s %s, held: %t", d.Node, c.Addr, c.ID, c.Held))
		}
	}
	return out
}

// I10: the controller refuses a node's requests for addresses that the network does not declare,
// and names the node, the addresses and the ranges. It keeps an address that a pod holds among
// the demands: no other node may get it (I4).
func TestI10ConfineRefusesUndeclared(t *testing.T) {
	network := Declared{Sets: [][]ipam.Run{runs("10.0.0.2-10.0.0.9", "10.0.0.20-10.0.0.29"), runs("fd00::2-fd00::9")}}
	const has = "the network has 10.0.0.2-10.0.0.9, 10.0.0.20-10.0.0.29, fd00::2-fd00::9"
	wait := func(a string) Claim { return Claim{addr(a), "waits", false} }
	hold := func(a string) Claim { return Claim{addr(a), "holds", true} }
	asks := func(ranges []string, claims ...Claim) Demand {
		d := demand("a", 1, ranges...)
		d.Claims = claims
		return d
	}
	for name, tc := range map[string]struct {
		declared Declared
		asks     Demand
		kept     Demand
		outside  []string
	}{
		"all is declared": {
			network, asks([]string{"10.0.0.2-10.0.0.9", "fd00::3"}, wait("10.0.0.20"), hold("fd00::9")),
			asks([]string{"10.0.0.2-10.0.0.9", "fd00::3"}, wait("10.0.0.20"), hold("fd00::9")), nil,
		},
		"a range that is not": {
			network, asks([]string{"10.1.0.2-10.1.0.9", "10.0.0.20-10.0.0.29"}), asks([]string{"10.0.0.20-10.0.0.29"}),
			[]string{"node a requests 10.1.0.2-10.1.0.9, which is refused: " + has},
		},
		"a range that is longer": {
			network, asks([]string{"10.0.0.2-10.0.0.10"}), asks(nil), []string{"node a requests 10.0.0.2-10.0.0.10, which is refused: " + has},
		},
		"a range over two": {
			network, asks([]string{"10.0.0.9-10.0.0.20"}), asks(nil), []string{"node a requests 10.0.0.9-10.0.0.20, which is refused: " + has},
		},
		"a claim that waits": {
			network, asks(nil, wait("10.0.0.10"), wait("10.0.0.9")), asks(nil, wait("10.0.0.9")),
			[]string{"node a requests 10.0.0.10, which is refused: " + has},
		},
		"a claim that a pod holds": {
			network, asks(nil, hold("10.0.0.10"), hold("10.0.0.9")), asks(nil, hold("10.0.0.10"), hold("10.0.0.9")),
			[]string{"node a holds 10.0.0.10, and " + has},
		},
		"both, and a range": {
			network, asks([]string{"fd01::2"}, wait("10.0.0.1"), hold("10.0.0.30")), asks(nil, hold("10.0.0.30")),
			[]string{"node a requests fd01::2, 10.0.0.1, which is refused: " + has, "node a holds 10.0.0.30, and " + has},
		},
		"more than a message lists": {
			network, asks([]string{"10.1.0.1", "10.1.0.3", "10.1.0.5", "10.1.0.7", "10.1.0.9", "10.1.0.11"}), asks(nil),
			[]string{"node a requests 10.1.0.1, 10.1.0.3, 10.1.0.5, 10.1.0.7 and 2 more, which is refused: " + has},
		},
		"pods choose their addresses": {
			Declared{AnyAddress: true}, asks([]string{"10.0.0.2"}, wait("10.7.0.1"), hold("10.7.0.2")), asks(nil, wait("10.7.0.1"), hold("10.7.0.2")),
			[]string{"node a requests 10.0.0.2, which is refused: the network has no ranges"},
		},
		"the network has no addresses": {
			Declared{}, asks([]string{"10.0.0.2"}, wait("10.0.0.3")), asks(nil),
			[]string{"node a requests 10.0.0.2, 10.0.0.3, which is refused: the network has no ranges"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := demand("b", 2) // node b's demand stays, whatever node a requests
			other.Claims = []Claim{hold("10.9.9.9")}
			tc.outside = append(tc.outside, "node b holds 10.9.9.9, and the network has "+tc.declared.String())
			if tc.declared.AnyAddress {
				tc.outside = tc.outside[:len(tc.outside)-1]
			}
			before := showDemands(tc.asks)
			kept, outside := tc.declared.Confine([]Demand{tc.asks, other})
			if diff := cmp.Diff(showDemands(tc.kept, other), showDemands(kept...)); diff != "" {
				t.Errorf("I10: demands (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.outside, outside); diff != "" {
				t.Errorf("outside (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, showDemands(tc.asks)); diff != "" {
				t.Errorf("the argument was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// The section of a network declares its fixed addresses and its ranges, each once.
func TestAddSection(t *testing.T) {
	for raw, want := range map[string][][]ipam.Run{
		`{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/29"}],[{"subnet":"fd00::/126"}]]}`: {runs("10.0.0.1-10.0.0.6"), runs("fd00::1-fd00::3")},
		`{"type":"static","addresses":[{"address":"10.0.0.5/24"},{"address":"fd00::5/64"}]}`:    {runs("10.0.0.5-10.0.0.5"), runs("fd00::5-fd00::5")},
	} {
		c, err := ipam.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		var d Declared
		d.AddSection(c)
		d.AddSection(c) // as of a copy of the network
		if diff := cmp.Diff(want, d.Sets, byAddr); diff != "" || d.AnyAddress != (c.Type == ipam.TypeStatic) {
			t.Errorf("%s: any address %t, -want +got:\n%s", raw, d.AnyAddress, diff)
		}
	}
}

// All demands stay while a network of the pool cannot be read, which may declare them.
func TestConfineOfAnOpenPool(t *testing.T) {
	wanted := demand("a", 1)
	wanted.Claims = []Claim{{addr("10.7.0.9"), "wants", false}}
	for name, tc := range map[string]struct {
		declared Declared
		stays    bool
	}{"open": {Declared{Open: true}, true}, "closed": {Declared{}, false}} {
		kept, outside := tc.declared.Confine([]Demand{wanted})
		if stays := len(showDemands(kept...)) == 1; stays != tc.stays || (outside == nil) != tc.stays {
			t.Errorf("%s: kept %q, outside %q", name, showDemands(kept...), outside)
		}
	}
}
