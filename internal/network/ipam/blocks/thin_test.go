package blocks

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

// poolOfNodes returns an AddressPool in which each node has a block of four addresses.
func poolOfNodes(nodes int) *v1alpha1.AddressPool {
	o := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Network: "d/a"}}
	for i := range nodes {
		first := netip.AddrFrom4([4]byte{10, 0, byte(i / 64), byte(i % 64 * 4)})
		last := netip.AddrFrom4([4]byte{10, 0, byte(i / 64), byte(i%64*4 + 3)})
		o.Spec.Blocks = append(o.Spec.Blocks, v1alpha1.AddressBlock{Node: fmt.Sprint("n", i), NodeUID: fmt.Sprint("u", i), First: first.String(), Last: last.String(), Grant: fmt.Sprint("g", i)})
	}
	return o
}

// A node keeps its own blocks of a pool with many nodes as they are. It still knows which addresses
// others have, and whether they may give them up.
func TestThin(t *testing.T) {
	whole := poolOfNodes(500)
	whole.Spec.Blocks[300].Claim, whole.Spec.Blocks[300].Grant = "0123", ""
	whole.Spec.Blocks[301].Claim, whole.Spec.Blocks[301].Grant = reservedFor("d/db/net1")+"4567", ""
	thin := whole.DeepCopy()
	Thin(thin, "n7")
	if n := len(thin.Spec.Blocks); n != 6 {
		t.Errorf("%d blocks: %+v", n, thin.Spec.Blocks)
	}
	before, err := FromObject(whole)
	after, err2 := FromObject(thin)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	owner := vf.Owner{Kind: vf.OwnerPod, Name: "d/db", Interface: "net1"}
	for _, want := range before.Blocks {
		got, taken := after.at(want.First)
		if !taken || got.canBeWanted() != want.canBeWanted() || got.isFor(PodKey(owner)) != want.isFor(PodKey(owner)) {
			t.Errorf("%+v is %+v", want, got)
		}
		if want.Node == "n7" && got != want {
			t.Errorf("the node's own block %+v is %+v", want, got)
		}
	}
	if _, taken := after.at(netip.MustParseAddr("10.0.8.1")); taken {
		t.Error("an address that no node has is taken")
	}
	b := NewBook("n7", func() {})
	b.SetNode("u7")
	b.SetPools([]View{{Pool: after}})
	if err := b.Why("d/a", []netip.Addr{netip.MustParseAddr("10.0.1.1")}, owner); !errors.Is(err, vf.ErrNotReady) || !strings.Contains(err.Error(), "of another node, which was asked to give it up") {
		t.Error(err)
	}
}

// A pool with few blocks, and one that cannot be read, stay as they are.
func TestThinLeavesOthers(t *testing.T) {
	few, overlapping := poolOfNodes(mostForeign+1), poolOfNodes(100)
	overlapping.Spec.Blocks[3].First = overlapping.Spec.Blocks[2].First
	for _, o := range []*v1alpha1.AddressPool{few, overlapping} {
		got := o.DeepCopy()
		Thin(got, "n7")
		if !reflect.DeepEqual(got, o) {
			t.Errorf("%d blocks became %d", len(o.Spec.Blocks), len(got.Spec.Blocks))
		}
	}
}
