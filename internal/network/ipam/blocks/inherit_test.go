package blocks

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
)

// I4: blocks that the former pool of a network granted stay their node's, and so do
// claims. Blocks that the pool itself granted meanwhile stay as they are.
func TestI4InheritedBlocks(t *testing.T) {
	former := Pool{Network: "same", Blocks: []Block{
		{Run: run("10.0.0.2-10.0.0.5"), Node: "a"}, {Run: run("10.0.0.9"), Node: "b", Claim: "x"}, {Run: run("10.0.0.16-10.0.0.31"), Node: "c", GoneSince: time.Unix(1e9, 0)},
	}}
	p := Pool{Network: "red/net", Blocks: []Block{{Run: run("10.0.0.20-10.0.0.21"), Node: "b"}}}
	want := Pool{Blocks: []Block{
		{Run: run("10.0.0.2-10.0.0.5"), Node: "a"}, {Run: run("10.0.0.9"), Node: "b"},
		{Run: run("10.0.0.16-10.0.0.19"), Node: "c", GoneSince: time.Unix(1e9, 0)}, {Run: run("10.0.0.20-10.0.0.21"), Node: "b"},
		{Run: run("10.0.0.22-10.0.0.31"), Node: "c", GoneSince: time.Unix(1e9, 0)},
	}}
	got := Inherit(p, former)
	if diff := cmp.Diff(show(want), show(got)); diff != "" {
		t.Errorf("I4: -want +got:\n%s", diff)
	}
	if again := Inherit(got, former); !cmp.Equal(show(got), show(again)) {
		t.Error("it inherits a block twice: " + cmp.Diff(show(got), show(again)))
	}
	if len(p.Blocks) != 1 {
		t.Errorf("the argument was changed: %v", show(p))
	}
}

// I4: the controller adds the blocks of every former pool that a node reports, each pool once
// and in one order, however many nodes report it.
func TestI4FormerPools(t *testing.T) {
	of := func(pools ...string) (out []Demand) {
		for i, pool := range pools {
			out = append(out, Demand{Node: string(rune('a' + i)), Request: Request{Network: "red/net", FormerPool: pool}})
		}
		return out
	}
	for _, tc := range []struct {
		demands []Demand
		want    []string
	}{
		{nil, nil},
		{of("", ""), nil},
		{of("", "same"), []string{"same"}},
		{of("same", "", "same"), []string{"same"}},
		{of("same", "other", "same", "other"), []string{"other", "same"}},
	} {
		if got := FormerPools(tc.demands); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: former pools %q, want %q", tc.demands, got, tc.want)
		}
	}
}

// A node of an earlier version is granted nothing more, and its claims are known.
func TestI4RequestsOfAnEarlierVersion(t *testing.T) {
	s := &v1alpha1.NodeState{}
	s.Status.AddressRequests = []v1alpha1.AddressRequest{
		{Network: "same", Used: 9, Ranges: []v1alpha1.AddressRange{{First: "10.0.0.2", Last: "10.0.0.9"}}, Claims: []v1alpha1.AddressClaim{{Address: "10.0.0.9", ID: "x"}}},
		{Network: "same", Pool: "red/net", Used: 1},
		{Network: "same", Pool: "same", Used: 2},
	}
	for pool, want := range map[string][]Demand{
		"red/net": {{Request: Request{Network: "red/net", FormerPool: "same", Used: 1}}},
		"same":    {{Request: Request{Network: "same", Used: 2}}},
	} {
		got, ids, err := Demands(s, pool)
		if diff := cmp.Diff(want, got, byAddr); diff != "" || err != nil || (len(ids) == 1) != (pool == "same") {
			t.Errorf("I4: %s: %v %v (-want +got):\n%s", pool, ids, err, diff)
		}
	}
}

// Addresses that are held in the former pool count as used: else a node whose inherited
// blocks are full is granted no other.
func TestFormerAddressesAreUsed(t *testing.T) {
	b := NewBook("here", func() {})
	b.SetPools([]View{{Pool: Pool{Network: "red/net", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.5"), Node: "here"}}}}})
	config := netConfig()
	config.FormerPool = "same"
	b.SetNetworks(map[string]ipam.Config{"red/net": config})
	for _, r := range asked(b, Held{Network: "same", Addr: addr("10.0.0.3"), Owner: podA}) {
		if r.Network == "red/net" && (r.Used != 1 || r.FormerPool != "same") {
			t.Errorf("%+v", r)
		}
	}
}
