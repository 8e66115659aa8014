package blocks

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// I4: no node is granted an address that a node has held since the scope of the network was the
// node. Grant reserves the address until it is given back.
func TestI4LocalAddressesAreNotGranted(t *testing.T) {
	ranges := runs("10.0.0.2-10.0.0.5")
	holds := func(node string, local ...string) Demand {
		return Demand{Node: node, Request: Request{Network: "n", Ranges: ranges, Used: 4, Local: runs(local...)}}
	}
	got, out := Grant(Pool{}, []Demand{holds("a", "10.0.0.2"), holds("b", "10.0.0.2-10.0.0.3", "10.0.0.3-10.0.0.4"),
		{Node: "c", Request: Request{Network: "n", Claims: []Claim{{addr("10.0.0.3"), "x", false}}}}}, 2)
	if want := []string{"a 10.0.0.5"}; !cmp.Equal(want, show(got)) {
		t.Error("I4: " + cmp.Diff(want, show(got)))
	}
	if want := []string{"10.0.0.3, which node c claims, is in block 10.0.0.3 of node b"}; !cmp.Equal(want, out.Disputed) {
		t.Error(cmp.Diff(want, out.Disputed))
	}
	got, _ = Grant(got, []Demand{holds("a"), holds("b", "10.0.0.3")}, 2)
	if want := []string{"a 10.0.0.2", "a 10.0.0.4-10.0.0.5"}; !cmp.Equal(want, show(got)) {
		t.Error("I4: " + cmp.Diff(want, show(got)))
	}
	// A node may report only so many addresses: otherwise it could take a whole network from the
	// others.
	if got, _ = Grant(Pool{}, []Demand{holds("liar", "10.0.0.0-10.255.255.255"), holds("a")}, 2); got.Total() != 4 {
		t.Errorf("%v", show(got))
	}
}

// A node reports the addresses that it holds of scope node. The report requests no address.
func TestLocalAddressesAreReported(t *testing.T) {
	b := NewBook("here", func() {})
	held := []Held{
		{Network: "n", Addr: addr("10.0.0.3"), Owner: podA, Local: true}, {Network: "n", Addr: addr("10.0.0.2"), Owner: podA, Local: true},
		{Network: "n", Addr: addr("10.0.0.9"), Owner: podA, Local: true},
	}
	want := []Request{{Network: "n", Local: runs("10.0.0.2-10.0.0.3", "10.0.0.9")}}
	got := asked(b, held...)
	if diff := cmp.Diff(want, got, byAddr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	demands, _, err := Demands(&v1alpha1.NodeState{Status: v1alpha1.NodeStateStatus{AddressRequests: ToObject(got)}}, "n")
	if diff := cmp.Diff([]Demand{{Request: want[0]}}, demands, byAddr); diff != "" || err != nil || AnyAsks(demands) {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	b.SetPools([]View{{Pool: Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.2"), Node: "there"}}}}})
	if got := b.Disputed(held); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
