package blocks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
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

// rangesOf is a subnet of which ranges are given out, each written "first-last".
func rangesOf(subnet string, ranges ...string) v1alpha1.PoolSubnet {
	s := v1alpha1.PoolSubnet{CIDR: subnet}
	for _, text := range ranges {
		r := run(text)
		s.Ranges = append(s.Ranges, v1alpha1.AddressRange{First: r.First.String(), Last: r.Last.String()})
	}
	return s
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
// namespace. The error is the same for a pool that is not there and one that does not admit the
// namespace.
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

// A declared pool has the subnets, the ranges and the number of addresses that a person wrote,
// without excluded addresses and gateways. A node may request the ranges and no more.
func TestDeclaredAddresses(t *testing.T) {
	spare := rangesOf("10.0.0.0/24", "10.0.0.10-10.0.0.19", "10.0.0.30-10.0.0.39")
	spare.Exclude, spare.Gateway = []string{"10.0.0.12", "10.0.0.16/31"}, "10.0.0.30"
	for name, tc := range map[string]struct {
		subnets   []v1alpha1.PoolSubnet
		text      string
		ranges    []ipam.Run
		addresses int64
	}{
		"a whole subnet": {subnetsOf("10.0.0.0/29"), "10.0.0.0/29", runs("10.0.0.1-10.0.0.6"), 5},
		"parts of a subnet": {
			[]v1alpha1.PoolSubnet{spare}, "10.0.0.0/24", runs("10.0.0.10-10.0.0.19", "10.0.0.30-10.0.0.39"), 16,
		},
		"two of one family": {
			subnetsOf("10.0.0.0/29", "10.0.1.0/30"), "10.0.0.0/29,10.0.1.0/30", runs("10.0.0.1-10.0.0.6", "10.0.1.1-10.0.1.2"), 6,
		},
		"both families": {
			subnetsOf("10.0.0.0/29", "fd00::/125"), "10.0.0.0/29,fd00::/125", runs("10.0.0.1-10.0.0.6", "fd00::1-fd00::7"), 11,
		},
		"more than a number holds": {
			subnetsOf("10.0.0.0/29", "fd00::/60"), "10.0.0.0/29,fd00::/60", runs("10.0.0.1-10.0.0.6", "fd00::1-fd00:0:0:f:ffff:ffff:ffff:ffff"), most,
		},
	} {
		d := declared(t, "p", v1alpha1.AddressPoolSpec{Subnets: tc.subnets}).Declared
		if d.Err != nil || d.Subnets() != tc.text || d.Addresses() != tc.addresses {
			t.Errorf("%s: %d addresses of %q, want %d of %q; %v", name, d.Addresses(), d.Subnets(), tc.addresses, tc.text, d.Err)
		}
		if got := d.Declared(); !slices.Equal(got.allRanges(), tc.ranges) || got.AnyAddress {
			t.Errorf("%s: nodes may request %+v, want %v", name, got, tc.ranges)
		}
	}
}

// A network that names a pool gets the time for which a person lets pods keep their addresses.
func TestSectionBoundsKeptTime(t *testing.T) {
	b := NewBook("here", func() {})
	keeping := v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.0.0.0/29"), KeepAddress: &metav1.Duration{Duration: time.Hour}}
	b.SetPools([]View{{Pool: declared(t, "keeping", keeping)}, {Pool: declared(t, "plain", v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.1.0.0/29")})}})
	for pool, want := range map[string]time.Duration{"keeping": time.Hour, "plain": 0} {
		if c, _, err := b.Section(naming(t, pool), "a"); err != nil || c.KeepAtMost != want {
			t.Errorf("pool %s: addresses are kept for %s, want %s; %v", pool, c.KeepAtMost, want, err)
		}
	}
}

// An AddressPool without a subnet and without a network gives out nothing, and the error names the
// missing field.
func TestPoolWithoutSubnets(t *testing.T) {
	b := NewBook("here", func() {})
	b.SetPools([]View{{Pool: declared(t, "empty", v1alpha1.AddressPoolSpec{})}})
	_, _, err := b.Section(naming(t, "empty"), "a")
	if !errors.Is(err, vf.ErrNotReady) || !strings.Contains(err.Error(), "subnets: missing; want a subnet, e.g. 172.16.91.0/24") {
		t.Errorf("%v", err)
	}
}

// A node serves the declared pools by their IDs. Pools that the controller made are not among
// them, and a pool that a person deleted is not either.
func TestDeclarationsOfABook(t *testing.T) {
	b := NewBook("here", func() {})
	one := View{Pool: declared(t, "one", v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.0.0.0/29"), Namespaces: []string{"a"}})}
	two := View{Pool: declared(t, "two", v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.1.0.0/29"), BlockSize: 4})}
	made := View{Pool: declared(t, "red.net", v1alpha1.AddressPoolSpec{Network: "red/net"})}
	for _, tc := range []struct {
		pools []View
		want  map[string]string
	}{
		{nil, map[string]string{}},
		{[]View{one, made, two}, map[string]string{"pool:one": "10.0.0.0/29 [a] 0", "pool:two": "10.1.0.0/29 [] 4"}},
		{[]View{two, made}, map[string]string{"pool:two": "10.1.0.0/29 [] 4"}},
	} {
		b.SetPools(tc.pools)
		got := map[string]string{}
		for id, d := range b.Declarations() {
			got[id] = fmt.Sprint(d.Subnets(), " ", d.Namespaces, " ", d.BlockSize)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
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

// I9: a pool admits the networks of the namespaces that it lists. Without a list, a pool of a
// network_name of whereabouts admits only the networks of files, and every other pool admits all. A
// node does not refuse a pool that it does not know yet: it has no address of it.
func TestI9AdmittedNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		pool       Pool
		admits     []string
		admitsNone []string
	}{
		"a network":                    {Pool{Network: "red/n"}, []string{"red", "blue", ""}, nil},
		"the network of a file":        {Pool{Network: "n"}, []string{"red", ""}, nil},
		"whereabouts":                  {Pool{Network: "whereabouts:"}, []string{"red", ""}, nil},
		"whereabouts, for some":        {Pool{Network: "whereabouts:", Namespaces: []string{"red"}}, []string{"red"}, []string{"blue", ""}},
		"a network_name without owner": {Pool{Network: "whereabouts:x"}, []string{""}, []string{"red"}},
		"a network_name":               {Pool{Network: "whereabouts:x", Namespaces: []string{"red", "green"}}, []string{"red", "green"}, []string{"blue", "re", ""}},
		"a declared pool":              {declared(t, "p", v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.0.0.0/29")}), []string{"red", ""}, nil},
		"a declared pool for some":     {declared(t, "p", v1alpha1.AddressPoolSpec{Subnets: subnetsOf("10.0.0.0/29"), Namespaces: []string{"red"}}), []string{"red"}, []string{"blue", ""}},
		"a network_name with a slash":  {Pool{Network: "whereabouts:red/n"}, []string{""}, []string{"red"}},
		"a network_name like an ID":    {Pool{Network: "whereabouts:pool:p"}, []string{""}, []string{"red"}},
	} {
		b := NewBook("here", func() {})
		if err := b.Admits(tc.pool.Network, "anything"); err != nil {
			t.Errorf("%s: not known yet: %v", name, err)
		}
		b.SetPools([]View{{Pool: tc.pool}})
		for _, namespace := range tc.admits {
			if err := b.Admits(tc.pool.Network, namespace); err != nil {
				t.Errorf("%s: namespace %q: %v", name, namespace, err)
			}
		}
		for _, namespace := range tc.admitsNone {
			if err := b.Admits(tc.pool.Network, namespace); !errors.Is(err, vf.ErrInvalid) {
				t.Errorf("I9: %s: namespace %q: %v", name, namespace, err)
			}
		}
	}
}
