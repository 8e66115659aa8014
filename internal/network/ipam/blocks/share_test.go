package blocks

import (
	"fmt"
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
	wide := runs("10.1.0.0-10.1.255.255")
	for name, tc := range map[string]struct {
		sets [][]ipam.Run
		more []Demand
		want map[string]int64
	}{
		"the network of a file":             {nil, nil, map[string]int64{"a": maxShare}},
		"two families":                      {nil, []Demand{demand("a", 1<<20, "fd00::-fd00::ffff")}, map[string]int64{"a": 2 * maxShare}},
		"a network":                         {[][]ipam.Run{wide}, nil, map[string]int64{"a": maxShare}},
		"a network with two sets":           {[][]ipam.Run{runs("10.1.0.0-10.1.127.255"), runs("10.1.128.0-10.1.255.255")}, nil, map[string]int64{"a": 2 * maxShare}},
		"two networks, one within another":  {[][]ipam.Run{wide, runs("10.1.0.0-10.1.0.255")}, nil, map[string]int64{"a": maxShare}},
		"a copy of a part":                  {[][]ipam.Run{wide, runs("10.1.4.0-10.1.7.255")}, nil, map[string]int64{"a": 2 * maxShare}},
		"another node comes after that one": {[][]ipam.Run{wide}, []Demand{demand("b", 40, "10.1.0.0-10.1.255.255")}, map[string]int64{"a": maxShare, "b": 384}},
	} {
		got, _ := Grant(Pool{Network: "n", Sets: tc.sets}, append(splitDemands("a"), tc.more...), 2)
		has := map[string]int64{}
		for _, b := range got.Blocks {
			has[b.Node] += Count(b.Run)
		}
		if diff := cmp.Diff(tc.want, has); diff != "" {
			t.Errorf("I10: %s (-want +got):\n%s", name, diff)
		}
		if again, _ := Grant(got, append(splitDemands("a"), tc.more...), 2); !cmp.Equal(show(again), show(got)) {
			t.Errorf("I10: %s: a second look grants more: %s", name, cmp.Diff(show(got), show(again)))
		}
	}
}

// I9: a network with a wide range, of any author, takes no addresses of other networks from a node.
func TestI9ShareBesideAWideRange(t *testing.T) {
	p := Pool{Network: "whereabouts:", Sets: [][]ipam.Run{runs("10.0.0.0-10.255.255.255"), runs("10.1.0.0-10.1.255.255"), runs("10.2.0.0-10.2.255.255")}}
	got, outcome := Grant(p, []Demand{demand("a", maxShare, "10.1.0.0-10.1.255.255"), demand("a", maxShare, "10.2.0.0-10.2.255.255")}, 1)
	if got.Total() != 2*maxShare || len(outcome.Starved) > 0 {
		t.Errorf("I9: %v, starved %v", show(got), outcome.Starved)
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

// I10: a pool inherits a bounded number of addresses for each node: the pool of a CNI name has no
// definition in the cluster, and a node can have blocks of any range there.
func TestI10InheritedAddressesAreBounded(t *testing.T) {
	var former Pool
	for i := range 64 {
		former.Blocks = append(former.Blocks, Block{Run: run(fmt.Sprintf("10.1.%d.0-10.1.%d.255", i, i)), Node: "a", UID: "a", Claim: fmt.Sprint(i)})
	}
	former.Blocks = append(former.Blocks, Block{Run: run("10.1.200.0-10.1.200.15"), Node: "b", UID: "b"})
	got := Inherit(Pool{Network: "red/n", Sets: [][]ipam.Run{runs("10.1.0.0-10.1.255.255")}}, former)
	if total := got.Total(); total != mostInherited+16 {
		t.Errorf("I10: %d addresses are inherited, want %d: %v", total, mostInherited+16, show(got))
	}
	if again := Inherit(got, former); !cmp.Equal(show(got), show(again)) {
		t.Errorf("I10: a second look inherits more: %s", cmp.Diff(show(got), show(again)))
	}
}
