package blocks

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/vf"
)

// declared is an AddressPool that a person made.
func declared(t *testing.T, name string, spec v1alpha1.AddressPoolSpec) Pool {
	t.Helper()
	p, err := FromObject(&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func subnetsOf(all ...string) (out []v1alpha1.PoolSubnet) {
	for _, s := range all {
		out = append(out, v1alpha1.PoolSubnet{CIDR: s})
	}
	return out
}

func naming(t *testing.T, pool string) ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"type": "culvert", "addressPool": "` + pool + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A network that names an AddressPool has its addresses, if the pool admits the network's
// namespace. A pool that is not there and one that does not admit read alike.
func TestSectionOfDeclaredPool(t *testing.T) {
	b := NewBook("here", func() {})
	if _, _, err := b.Section(naming(t, "open"), "a"); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("before the pools are known: %v", err)
	}
	b.SetPools([]View{
		{Pool: declared(t, "open", v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.0.0.0/29", "fd00::/125")})},
		{Pool: declared(t, "narrow", v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.0.0.0/29"), Namespaces: []string{"a"}})},
		{Pool: declared(t, "wrong", v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.0.0.1/29")})},
		{Pool: Pool{Network: "implicit"}},
	})
	for _, tc := range []struct{ pool, namespace, want string }{
		{"open", "a", ""}, {"open", "", ""}, {"narrow", "a", ""},
		{"narrow", "b", "AddressPool narrow: invalid: there is none that admits namespace b"},
		{"narrow", "", "AddressPool narrow: invalid: there is none that admits the network of a file"},
		{"missing", "b", "AddressPool missing: invalid: there is none that admits namespace b"},
		{"implicit", "b", "there is none that admits"},
		{"wrong", "a", "gives out no addresses until its subnets are corrected: invalid: subnets[0].cidr"},
	} {
		c, id, err := b.Section(naming(t, tc.pool), tc.namespace)
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s for namespace %q: %v, want %q", tc.pool, tc.namespace, err, tc.want)
			}
			continue
		}
		if err != nil || id != "pool:"+tc.pool || !c.Sets[0][0].Contains(addr("10.0.0.3")) {
			t.Errorf("%s for namespace %q: %s %v %v", tc.pool, tc.namespace, id, c.Sets, err)
		}
	}
}

// I4: an edit that cannot be served takes no block from a node.
func TestI4WrongSubnetsKeepBlocks(t *testing.T) {
	spec := v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.0.0.0/99"), Blocks: []v1alpha1.AddressBlock{{Node: "here", First: "10.0.0.2", Last: "10.0.0.3", Grant: "g"}}}
	b := NewBook("here", func() {})
	b.SetPools([]View{{Pool: declared(t, "p", spec)}})
	own := b.Of("pool:p", podA, []ipam.Grant{{ID: "g"}})
	if !slices.Equal(own.Runs, runs("10.0.0.2-10.0.0.3")) {
		t.Errorf("the node has %v", own.Runs)
	}
}

func TestPoolsOverlap(t *testing.T) {
	pool := func(subnets ...string) *Declaration {
		return declared(t, "p", v1alpha1.AddressPoolSpec{Subnets: subnetsOf(subnets...)}).Declared
	}
	for _, tc := range []struct {
		a, b *Declaration
		want string
	}{
		{pool("10.0.0.0/24"), pool("10.0.0.128/25"), "10.0.0.130-10.0.0.254"},
		{pool("10.0.0.0/24", "fd00::/120"), pool("10.0.1.0/24", "fd00::/64"), "fd00::2-fd00::ff"},
		{pool("10.0.0.0/24"), pool("10.0.1.0/24"), ""},
		{pool("10.0.0.0/24"), pool("fd00::/64"), ""},
	} {
		got := ""
		if run, some := tc.a.Overlap(tc.b); some {
			got = run.String()
		}
		if got != tc.want {
			t.Errorf("%s and %s: %q, want %q", tc.a.Subnets(), tc.b.Subnets(), got, tc.want)
		}
	}
}

// I4: nodes get blocks of the size that the pool declares, of each family, and no two of them
// overlap. No node starves while there is room for a block of each.
func TestI4DeclaredBlockSize(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.Int64Range(1, 1024).Draw(r, "blockSize")
		p := declared(t, "p", v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.0.0.0/22", "fd00::/64"), BlockSize: int32(size)})
		nodes := rapid.IntRange(1, 20).Draw(r, "nodes")
		var demands []Demand
		for i := range nodes {
			for _, ranges := range p.Declared.Section.Usable() {
				demands = append(demands, Demand{Node: string(rune('a' + i)), UID: "u", Request: Request{Network: p.Network, Ranges: ranges, Grant: "g", Used: 1}})
			}
		}
		got, out := Grant(p, demands, nodes)
		if len(out.Starved) > 0 {
			r.Fatalf("starved %v with %d addresses for %d nodes, blocks of %d", out.Starved, Total(demands[0].Ranges), nodes, size)
		}
		for i, b := range got.Blocks {
			if i > 0 && b.First.Compare(got.Blocks[i-1].Last) <= 0 {
				r.Fatalf("I4: %s and %s overlap", got.Blocks[i-1].Run, b.Run)
			}
		}
		if n, blocks := got.have(demands[1]), (size/2+size)/size; n < size || n%size != 0 || n > size*max(blocks, 2) {
			r.Fatalf("a node has %d IPv6 addresses, want blocks of %d", n, size)
		}
	})
}
