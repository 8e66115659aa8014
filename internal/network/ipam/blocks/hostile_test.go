package blocks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
)

// stateWith is the NodeState of a node with requests for addresses of network n.
func stateWith(node string, requests ...v1alpha1.AddressRequest) *v1alpha1.NodeState {
	for i := range requests {
		requests[i].Pool = "n"
	}
	return &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.NodeStateStatus{NodeUID: node, AddressRequests: requests}}
}

// addressAt returns the address at an index of 10.0.0.0/8.
func addressAt(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255) }

// passOver grants the requests of some NodeStates as the controller does.
func passOver(p Pool, states ...*v1alpha1.NodeState) (out Pool, refused []string) {
	var demands []Demand
	for _, s := range states {
		d, _, _ := Demands(s, "n")
		demands = append(demands, d...)
	}
	p = Reserve(p, &Endings{}, demands, time.Unix(1, 0))
	granted, _ := Grant(p, demands, len(states))
	return Fit(p, granted, demands)
}

// I10: a node with a NodeState that is full of long IDs and names of pods leaves room in the AddressPool
// for the blocks of others. etcd accepts no larger object, and the pool would then be lost for all.
func TestI10LongIDsLeaveRoomForOthers(t *testing.T) {
	ask := v1alpha1.AddressRequest{Ranges: []v1alpha1.AddressRange{{First: "10.1.0.0", Last: "10.1.255.255"}}, Grant: "g", Used: 40}
	for name, fill := range map[string]func(r *v1alpha1.AddressRequest){
		"claims": func(r *v1alpha1.AddressRequest) {
			for i := range maxShare {
				r.Claims = append(r.Claims, v1alpha1.AddressClaim{Address: addressAt(i), ID: strings.Repeat("x", 1300) + fmt.Sprint(i), Held: true})
			}
		},
		"all that is read": func(r *v1alpha1.AddressRequest) {
			for i := range maxShare {
				r.Claims = append(r.Claims, v1alpha1.AddressClaim{Address: addressAt(i), ID: fmt.Sprintf("%0384d", i), Held: true})
				r.Reservations = append(r.Reservations, v1alpha1.AddressReservation{Pod: fmt.Sprintf("%0384d", i), Address: addressAt(1<<16 + i), KeepSeconds: 60})
			}
		},
		"one claim": func(r *v1alpha1.AddressRequest) {
			r.Claims = []v1alpha1.AddressClaim{{Address: addressAt(7), ID: strings.Repeat("x", 1_400_000)}}
		},
		"a grant": func(r *v1alpha1.AddressRequest) { r.Grant = strings.Repeat("x", 1_400_000) },
		"a reservation": func(r *v1alpha1.AddressRequest) {
			r.Reservations = []v1alpha1.AddressReservation{{Pod: strings.Repeat("x", 1_400_000), Address: "10.1.0.0", KeepSeconds: 60}}
		},
	} {
		bad := ask
		bad.Used = 1 << 20
		p, _ := passOver(Pool{Network: "n"}, stateWith("a", bad))
		fill(&bad)
		p, _ = passOver(p, stateWith("a", bad))
		p, refused := passOver(p, stateWith("a", bad), stateWith("b", ask), stateWith("c", ask))
		if own := p.byNode(); slices.Contains(refused, "b") || slices.Contains(refused, "c") || len(own.of("b").Blocks) == 0 || len(own.of("c").Blocks) == 0 || p.Bytes() > maxBytes {
			t.Errorf("I10: %s: %s get nothing in a pool of %d bytes", name, refused, p.Bytes())
		}
	}
}

// I10: several nodes together, each with as much as the controller takes of one, leave room in the
// AddressPool for the blocks of others. A node that is alone has all of it.
func TestI10NodesLeaveRoomForOthers(t *testing.T) {
	ask := v1alpha1.AddressRequest{Ranges: []v1alpha1.AddressRange{{First: "10.200.0.0", Last: "10.200.255.255"}}, Grant: "g", Used: 40}
	for count := 1; count <= 8; count++ {
		var states []*v1alpha1.NodeState
		p, refused := Pool{Network: "n"}, []string(nil)
		for n := range count {
			r := v1alpha1.AddressRequest{}
			for i := range maxShare {
				r.Claims = append(r.Claims, v1alpha1.AddressClaim{Address: addressAt(n<<16 + i), ID: fmt.Sprintf("%0384d", i), Held: true})
			}
			states = append(states, stateWith(fmt.Sprint("bad", n), r))
			p, refused = passOver(p, states...)
		}
		if own := p.byNode(); len(own.of("bad0").Blocks) != maxShare || count == 1 && len(refused) > 0 {
			t.Errorf("%d nodes: the first has %d blocks; refused are %v", count, len(own.of("bad0").Blocks), refused)
		}
		for n := range 100 {
			states = append(states, stateWith(fmt.Sprint("good", n), ask))
		}
		p, refused = passOver(p, states...)
		for n := range 100 {
			if node := fmt.Sprint("good", n); slices.Contains(refused, node) || len(p.byNode().of(node).Blocks) == 0 {
				t.Fatalf("I10: beside %d nodes, %s gets nothing in a pool of %d bytes", count, node, p.Bytes())
			}
		}
		if p.Bytes() > maxBytes {
			t.Errorf("I10: beside %d nodes, the pool has %d bytes", count, p.Bytes())
		}
	}
}

// I7: the controller reads as many ranges of a NodeState as culvertd writes. Each request costs it time.
func TestI7RangesOfANodeAreBounded(t *testing.T) {
	var all []v1alpha1.AddressRequest
	for i := range 20000 {
		r := v1alpha1.AddressRequest{Ranges: []v1alpha1.AddressRange{{First: addressAt(i), Last: addressAt(i)}}, Grant: fmt.Sprint(i), Used: 1 << 40}
		r.Claims = []v1alpha1.AddressClaim{{Address: addressAt(1<<16 + i), ID: fmt.Sprint(i), Held: true}}
		all = append(all, r)
	}
	demands, claims, err := Demands(stateWith("a", all...), "n")
	ranges, held := 0, 0
	for _, d := range demands {
		ranges, held = ranges+len(d.Ranges), held+len(d.Claims)
	}
	if ranges*(1+requestRuns) > mostRuns || held != 20000 || len(claims) != 20000 || err == nil {
		t.Errorf("%d ranges, %d claims, %d: %v", ranges, held, len(claims), err)
	}
}

// I7: claims of one node on many addresses of others' blocks do not keep the claims of another node from
// the list of wanted addresses.
func TestI7WantedIsShared(t *testing.T) {
	p := Pool{Network: "n", Blocks: []Block{{Run: ipam.Run{First: netip.MustParseAddr("10.0.0.0"), Last: netip.MustParseAddr("10.0.255.255")}, Node: "c", Grant: "g"}}}
	claims := func(node string, first, count int) (d Demand) {
		d.Node = node
		for i := range count {
			d.Claims = append(d.Claims, Claim{netip.MustParseAddr(addressAt(first + i)), fmt.Sprint(node, i), false})
		}
		return d
	}
	got, _ := Grant(p, []Demand{claims("a", 0, 300), claims("a", 300, 300), claims("b", 2000, 3), claims("d", 3000, 300)}, 4)
	count := func(first, last int) (n int) {
		for _, a := range got.Wanted {
			if r := (ipam.Run{First: netip.MustParseAddr(addressAt(first)), Last: netip.MustParseAddr(addressAt(last))}); r.Contains(a) {
				n++
			}
		}
		return n
	}
	if a, b, d := count(0, 600), count(2000, 2002), count(3000, 3300); b != 3 || a+b+d != mostWanted || a-d > 1 || d-a > 1 || !slices.IsSortedFunc(got.Wanted, netip.Addr.Compare) {
		t.Errorf("I7: wanted are %d addresses of node a, %d of b and %d of d", a, b, d)
	}
}
