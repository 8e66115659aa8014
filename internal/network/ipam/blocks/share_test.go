package blocks

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// splitDemands are the requests of a node that asks for 10.1.0.0/16 in 64 pieces, and claims to use
// all of each.
func splitDemands(node string) (out []Demand) {
	for i := range 64 {
		out = append(out, demand(node, 1<<20, fmt.Sprintf("10.1.%d.0-10.1.%d.255", 4*i, 4*i+3)))
	}
	return out
}

// I10: a node has one share of each range set that the networks of a pool declare, however many
// requests it makes. In a pool that no object of the cluster defines, its share is of all addresses
// of a family.
func TestI10SplitRequestsGetOneShare(t *testing.T) {
	wide, besidePart := runs("10.1.0.0-10.1.255.255"), splitDemands("a")
	for i := range besidePart {
		besidePart[i].Ranges = append(besidePart[i].Ranges, run(fmt.Sprintf("10.1.255.%d", i)))
	}
	for name, tc := range map[string]struct {
		sets [][]ipam.Run
		asks []Demand // of node a
		more []Demand
		want map[string]int64
	}{
		"the network of a file":             {nil, splitDemands("a"), nil, map[string]int64{"a": maxShare}},
		"two families":                      {nil, splitDemands("a"), []Demand{demand("a", 1<<20, "fd00::-fd00::ffff")}, map[string]int64{"a": 2 * maxShare}},
		"a network":                         {[][]ipam.Run{wide}, splitDemands("a"), nil, map[string]int64{"a": maxShare}},
		"a network with two sets":           {[][]ipam.Run{runs("10.1.0.0-10.1.127.255"), runs("10.1.128.0-10.1.255.255")}, splitDemands("a"), nil, map[string]int64{"a": 2 * maxShare}},
		"two networks, one within another":  {[][]ipam.Run{wide, runs("10.1.0.0-10.1.0.255")}, splitDemands("a"), nil, map[string]int64{"a": maxShare}},
		"a copy of a part":                  {[][]ipam.Run{wide, runs("10.1.4.0-10.1.7.255")}, splitDemands("a"), nil, map[string]int64{"a": 2 * maxShare}},
		"another node comes after that one": {[][]ipam.Run{wide}, splitDemands("a"), []Demand{demand("b", 40, "10.1.0.0-10.1.255.255")}, map[string]int64{"a": maxShare, "b": 384}},
		"with an address of a part":         {[][]ipam.Run{wide, runs("10.1.255.0-10.1.255.255")}, besidePart, nil, map[string]int64{"a": maxShare}},
	} {
		got, _ := Grant(Pool{Network: "n", Sets: tc.sets}, append(tc.asks, tc.more...), 2)
		has := map[string]int64{}
		for _, b := range got.Blocks {
			has[b.Node] += Count(b.Run)
		}
		if diff := cmp.Diff(tc.want, has); diff != "" {
			t.Errorf("I10: %s (-want +got):\n%s", name, diff)
		}
		if again, _ := Grant(got, append(tc.asks, tc.more...), 2); !cmp.Equal(show(again), show(got)) {
			t.Errorf("I10: %s: a second look grants more: %s", name, cmp.Diff(show(got), show(again)))
		}
	}
}

// I9: a network with a wide range, of any author, takes no addresses of other networks from a node.
func TestI9ShareBesideAWideRange(t *testing.T) {
	for name, all := range map[string][]string{
		"IPv4":                               {"10.0.0.0-10.255.255.255", "10.1.0.0-10.1.255.255", "10.2.0.0-10.2.255.255"},
		"more addresses than a number holds": {"fd00::-fd00:0:0:ffff:ffff:ffff:ffff:ffff", "fd00:0:0:1::-fd00:0:0:1:ffff:ffff:ffff:ffff", "fd00:0:0:2::-fd00:0:0:2:ffff:ffff:ffff:ffff"},
	} {
		for _, wide := range []int{0, 2} { // the first set or the last
			p := Pool{Network: "whereabouts:", Sets: [][]ipam.Run{runs(all[1]), runs(all[2])}}
			p.Sets = slices.Insert(p.Sets, wide, runs(all[0]))
			got, outcome := Grant(p, []Demand{demand("a", maxShare, all[1]), demand("a", maxShare, all[2])}, 1)
			if got.Total() != 2*maxShare || len(outcome.Starved) > 0 {
				t.Errorf("I9: %s: %v, starved %v", name, show(got), outcome.Starved)
			}
		}
	}
}

// Nodes share the addresses that networks declare, and all others where a network may be a file.
func TestSharesOfDeclared(t *testing.T) {
	const all6 = "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
	for name, tc := range map[string]struct {
		declared Declared
		want     string
	}{
		"nothing":                 {Declared{}, "[]"},
		"a network":               {Declared{Sets: [][]ipam.Run{runs("10.0.0.1-10.0.0.6")}}, "[[10.0.0.1-10.0.0.6]]"},
		"a file":                  {Declared{Open: true}, "[[0.0.0.0-255.255.255.255] [" + all6 + "]]"},
		"a file beside a network": {Declared{Open: true, Sets: [][]ipam.Run{runs("10.0.0.1-10.0.0.6")}}, "[[10.0.0.1-10.0.0.6] [0.0.0.0-10.0.0.0 10.0.0.7-255.255.255.255] [" + all6 + "]]"},
	} {
		if got := fmt.Sprint(tc.declared.ShareSets()); got != tc.want || tc.declared.ShareSets() == nil {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// A machine that takes the name of an earlier one has a share of its own.
func TestShareOfAnEarlierMachine(t *testing.T) {
	p := Pool{Network: "n", Blocks: []Block{{Run: run("10.1.0.0-10.1.3.255"), Node: "a", UID: "earlier"}}}
	got, outcome := Grant(p, []Demand{demand("a", 20, "10.1.0.0-10.1.255.255")}, 2)
	if len(got.Blocks) != 2 || len(outcome.Starved) > 0 {
		t.Errorf("%v, starved %v", show(got), outcome.Starved)
	}
}

// I10: the addresses of scope node that one node reports keep at most mostLocal addresses from the
// others, however many requests report them.
func TestI10LocalAddressesOfANodeAreBounded(t *testing.T) {
	var demands []Demand
	for i := range 64 {
		demands = append(demands, Demand{"a", "a", Request{Network: "n", Local: runs(fmt.Sprintf("10.1.%d.0-10.1.%d.255", i, i))}})
	}
	p := Pool{Network: "n"}
	p.reserveLocal(demands)
	if got := p.Total(); got != mostLocal {
		t.Errorf("I10: node a keeps %d addresses from the others, want %d", got, mostLocal)
	}
}
