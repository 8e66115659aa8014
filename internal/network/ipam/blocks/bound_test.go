package blocks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// longNetwork returns a network of an IPv6 /64 range with 1,000 excluded addresses, each of which
// divides a run. pool is empty for a network with a pool of its own.
func longNetwork(t *testing.T, pool string, i int) ipam.Config {
	t.Helper()
	var exclude []string
	for k := range 1000 {
		exclude = append(exclude, fmt.Sprintf(`"2001:db8:1111:%x:aaaa:bbbb:cccc:%x/128"`, 0x1000+i, 0x1000+2*k))
	}
	c, err := ipam.Parse(fmt.Appendf(nil, `{"type":"host-local","subnet":"2001:db8:1111:%x::/64","exclude":[%s]}`, 0x1000+i, strings.Join(exclude, ",")))
	if err != nil {
		t.Fatal(err)
	}
	c.Pool = pool
	return c
}

// requestBytes returns the size of requests in a NodeState.
func requestBytes(t *testing.T, requests []Request) int {
	t.Helper()
	raw, err := json.Marshal(ToObject(requests))
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

// I7: a pod comes and goes with one network of a shared pool after the other. It leaves no requests
// behind while another pod has an address of the pool.
func TestI7UnusedNetworksOfASharedPool(t *testing.T) {
	const pool = "whereabouts:"
	plain := netConfig()
	plain.Pool = pool
	b := NewBook("here", func() {})
	b.Need(pool, plain, nil, podA)()
	held := []Held{{Network: pool, Addr: addr("10.0.0.2"), Owner: podA}}
	for i := range 15 {
		done := b.Need(pool, longNetwork(t, pool, i), nil, vf.Owner{UID: "b"})
		if r := asked(b, held...); len(r) != 2 {
			t.Fatalf("I7: %d requests while a pod waits, want those of two networks", len(r))
		}
		done()
	}
	last := Held{Network: pool, Addr: addr("2001:db8:1111:100e::7"), Owner: vf.Owner{UID: "b"}}
	if r := asked(b, append(held, last)...); len(r) != 2 {
		t.Errorf("I7: %d requests while two networks have addresses", len(r))
	}
	if r := asked(b, held...); len(r) != 1 || r[0].Ranges[0].First != plain.Usable()[0][0].First {
		t.Errorf("I7: %d requests of %d bytes while one network has an address", len(r), requestBytes(t, r))
	}
}

// I7, I4: the requests of a node fit into etcd, whatever networks its pods have. They have all
// claims, and the ranges that pods wait for come first. A pod that waits for ranges that are left
// out gets an error.
func TestI4BoundedRequestsHaveAllClaims(t *testing.T) {
	b := NewBook("here", func() {})
	var held []Held
	for i := range 20 {
		network := fmt.Sprintf("d/net%02d", i)
		b.Need(network, longNetwork(t, "", i), nil, podA)()
		held = append(held, Held{Network: network, Addr: netip.MustParseAddr(fmt.Sprintf("2001:db8:1111:%x::7", 0x1000+i)), Owner: podA, Claim: fmt.Sprint(i)})
	}
	requests := func() []Request {
		l := Ledger{Held: held}
		l.Grants = b.Keep(l, time.Time{})
		out, err := b.Requests(func() (Ledger, error) { return l, nil })
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	ranges := func(all []Request, network string) (n int) {
		for _, r := range all {
			if r.Network == network {
				n += len(r.Ranges)
			}
		}
		return n
	}
	before := requests()
	claims := 0
	for _, r := range before {
		claims += len(r.Claims)
	}
	if n := requestBytes(t, before); n > 1<<20 || claims != len(held) {
		t.Errorf("I4, I7: the requests have %d bytes and %d claims, want %d claims", n, claims, len(held))
	}
	if got := b.Omitted(); !strings.Contains(got, "d/net08") || strings.Contains(got, "d/net07") {
		t.Errorf("omitted: %s", got)
	}
	if ranges(before, "d/net19") != 0 {
		t.Fatal("the last network is requested without a pod that waits")
	}

	done := b.Need("d/net19", longNetwork(t, "", 19), nil, podA)
	if r := requests(); ranges(r, "d/net19") == 0 {
		t.Error("the ranges that a pod waits for are left out")
	}
	if err := b.Why("d/net19", nil, podA); strings.Contains(err.Error(), "NodeState") {
		t.Error(err)
	}
	done()
	for i := range 10 { // more than fit
		defer b.Need(fmt.Sprintf("d/net%02d", i), longNetwork(t, "", i), nil, vf.Owner{UID: fmt.Sprint(i)})()
	}
	defer b.Need("e/plain", netConfig(), nil, podA)()
	r := requests()
	if ranges(r, "e/plain") == 0 {
		t.Error("I9: networks with long lists displace an ordinary one")
	}
	refused := 0
	for i := range 10 {
		err := b.Why(fmt.Sprintf("d/net%02d", i), nil, vf.Owner{UID: fmt.Sprint(i)})
		if strings.Contains(err.Error(), "as many ranges of addresses as its NodeState can have") && errors.Is(err, vf.ErrNotReady) {
			refused++
			if ranges(r, fmt.Sprintf("d/net%02d", i)) > 0 {
				t.Errorf("network %d is requested: %v", i, err)
			}
		}
	}
	if refused != 2 { // eight networks of 1,001 runs fit
		t.Errorf("%d pods get the error, want 2", refused)
	}
}

// Addresses of a pool that are in the ranges of no requested network go back after a while.
func TestIdleAddressesOfAForgottenNetworkGoBack(t *testing.T) {
	const pool = "shared"
	first := netOf("10.0.0.0/24") // the network of the block in 10.1.0.0/24 is forgotten
	first.Pool = pool
	b := NewBook("here", func() {})
	b.Need(pool, first, nil, podA)()
	b.SetPools([]View{{ClusterNodes: 2, Pool: Pool{Network: pool, Blocks: []Block{granted("g", "10.0.0.2-10.0.0.9"), granted("g", "10.1.0.2-10.1.0.9")}}}})
	l := Ledger{Held: []Held{{Network: pool, Addr: addr("10.0.0.2"), Owner: podA}}, Grants: []Kept{{pool, ipam.Grant{ID: "g"}}}}
	start := time.Now()
	for _, after := range []time.Duration{0, idleTime} {
		l.Grants = b.Keep(l, start.Add(after))
	}
	if got := fmt.Sprint(GrantsOf(l.Grants, pool)); !strings.Contains(got, "{g [10.0.0.2-10.0.0.9]}") {
		t.Errorf("the node keeps %s", got)
	}
}
