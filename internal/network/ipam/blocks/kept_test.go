package blocks

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// sharedPool is pool n with the nodes that have addresses of it. Pool and requests pass through
// the objects of the API server.
type sharedPool struct {
	*testing.T
	pool     Pool
	now      time.Time
	absences Absences
	endings  Endings
	books    map[string]*NodeBlocks
	ledgers  map[string]*Ledger
	disputed []string // of the last pass
}

func newSharedPool(t *testing.T, blocks ...Block) *sharedPool {
	t.Helper()
	p := &sharedPool{T: t, pool: Pool{Network: "n", Blocks: blocks}, now: time.Unix(1e9, 0), books: map[string]*NodeBlocks{}, ledgers: map[string]*Ledger{}}
	for _, name := range []string{"a", "b", "c"} {
		p.books[name], p.ledgers[name] = NewBook(name, func() {}), &Ledger{}
		p.books[name].SetNode(name)
		p.books[name].SetPools([]View{{Pool: p.pool}})
	}
	return p
}

// reportRequests returns the requests of a node as the controller reads them.
func (p *sharedPool) reportRequests(node string) []Demand {
	p.Helper()
	b, l := p.books[node], p.ledgers[node]
	l.Grants = b.Keep(*l, p.now)
	requests, err := b.Requests(func() (Ledger, error) { return *l, nil })
	if err != nil {
		p.Fatal(err)
	}
	s := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.NodeStateStatus{NodeUID: node, AddressRequests: ToObject(requests)}}
	demands, _, err := Demands(s, "n")
	if err != nil {
		p.Fatal(err)
	}
	return demands
}

// runPass has the nodes report and the controller answer, and shows every node the pool.
func (p *sharedPool) runPass() {
	p.Helper()
	p.now = p.now.Add(time.Second)
	var demands []Demand
	claims := map[string][]Claim{}
	for _, node := range []string{"a", "b", "c"} {
		for _, d := range p.reportRequests(node) {
			demands, claims[node] = append(demands, d), append(claims[node], d.Claims...)
		}
	}
	released, err := Release(p.pool, &p.absences, p.now, func(node string) (NodeView, error) {
		return NodeView{UID: node, Claims: claims[node], Known: true}, nil
	})
	if err != nil {
		p.Fatal(err)
	}
	granted, out := Grant(Reserve(released, &p.endings, demands, p.now), demands, len(p.books))
	p.disputed = out.Disputed
	text, err := json.Marshal(v1alpha1.AddressPoolSpec{
		Network: "n", Blocks: granted.Object(), Wanted: granted.WantedAddresses(), Reservations: ReservationObjects(granted.Reservations),
	})
	if err != nil {
		p.Fatal(err)
	}
	o := &v1alpha1.AddressPool{}
	if err := json.Unmarshal(text, &o.Spec); err != nil {
		p.Fatal(err)
	}
	if p.pool, err = FromObject(o); err != nil {
		p.Fatal(err)
	}
	for _, b := range p.books {
		b.SetPools([]View{{Pool: p.pool}})
	}
}

// requireOwner fails unless the address is in a block of a node, and no other node may give it
// to the pod.
func (p *sharedPool) requireOwner(step string, a netip.Addr, owner string, pod vf.Owner) {
	p.Helper()
	if b, taken := p.pool.at(a); !taken || b.Node != owner {
		p.Errorf("I4: %s: %s is in the block of node %q, want %q", step, a, b.Node, owner)
	}
	for name, b := range p.books {
		if own := b.Of("n", pod, GrantsOf(p.ledgers[name].Grants, "n")); name != owner && own.Has(a) {
			p.Errorf("I4: %s: node %s may give out %s of node %s", step, name, a, owner)
		}
	}
}

// I4: a kept address in no block goes to a pod of its name alone. An address that an attachment
// of another pod already holds stays with that pod.
func TestI4FreeKeptAddress(t *testing.T) {
	const db, refusal = "default/db-0 net1", "10.0.0.3, which node a claims, is kept for pod default/db-0 net1"
	for name, tc := range map[string]struct {
		claim    Claim
		granted  []string
		disputed []string
	}{
		"its own pod":          {Claim{addr("10.0.0.3"), reservedFor(db) + "x", false}, []string{"a 10.0.0.3 claim for default/db-0 net1 x"}, nil},
		"another pod":          {Claim{addr("10.0.0.3"), "x", false}, nil, []string{refusal}},
		"a pod of like name":   {Claim{addr("10.0.0.3"), reservedFor("default/db-0 net10") + "x", false}, nil, []string{refusal}},
		"another pod holds it": {Claim{addr("10.0.0.3"), "held/u/net1", true}, []string{"a 10.0.0.3 claim held/u/net1"}, nil},
	} {
		p := Pool{Network: "n", Reservations: []Reservation{{Pod: db, Addr: addr("10.0.0.3"), For: time.Hour}}}
		asks := demand("a", 3, "10.0.0.2-10.0.0.4") // node a takes every address that it can get
		asks.Claims = []Claim{tc.claim}
		got, out := Grant(p, []Demand{asks}, 1)
		want := append([]string{"a 10.0.0.2"}, tc.granted...)
		if diff := cmp.Diff(append(want, "a 10.0.0.4"), show(got)); diff != "" {
			t.Errorf("I4: %s (-want +got):\n%s", name, diff)
		}
		if !slices.Equal(out.Disputed, tc.disputed) {
			t.Errorf("%s: disputed %q, want %q", name, out.Disputed, tc.disputed)
		}
	}
}

// I4: an address that is kept for a pod follows the pod from node to node, and is on one node at
// a time. A pod of another name does not get it, and a node does not give it up while its pod
// has it.
func TestI4KeptAddressFollowsItsPod(t *testing.T) {
	db, web, kept := statefulPod("db-0"), podA, addr("10.0.0.3")
	p := newSharedPool(t, Block{Run: run("10.0.0.2-10.0.0.5"), Node: "a", UID: "a", Grant: "g"})
	hold := func(node, claim string, owner vf.Owner) {
		*p.ledgers[node] = Ledger{Grants: p.ledgers[node].Grants, Held: []Held{
			{Network: "n", Addr: addr("10.0.0.5"), Owner: statefulPod("db-1"), Keep: time.Minute}, {Network: "n", Addr: kept, Owner: owner, Claim: claim, Keep: time.Hour},
		}}
		if node != "a" {
			p.ledgers[node].Held = p.ledgers[node].Held[1:]
		}
	}
	p.ledgers["a"].Grants = []Kept{{"n", ipam.Grant{ID: "g"}}}
	hold("a", "", db)
	p.runPass()
	want := []string{"10.0.0.3 default/db-0 net1", "10.0.0.5 default/db-1 net1"}
	if diff := cmp.Diff(want, showReservations(p.pool)); diff != "" {
		t.Fatalf("while the pods run (-want +got):\n%s", diff)
	}

	other := p.books["b"].Need("n", netConfig(), []netip.Addr{kept}, web)
	p.ledgers["a"].Held = p.ledgers["a"].Held[:1] // db-0 ended
	p.runPass()
	refusal := []string{"10.0.0.3, which node b claims, is kept for pod default/db-0 net1"}
	if !slices.Equal(p.disputed, refusal) || len(p.pool.Wanted) > 0 {
		t.Errorf("another pod claims it: disputed %q, wanted %v", p.disputed, p.pool.Wanted)
	}
	want[0] += " runs"
	if diff := cmp.Diff(want, showReservations(p.pool)); diff != "" {
		t.Errorf("after the pod ended (-want +got):\n%s", diff)
	}
	p.requireOwner("another pod claims it", kept, "a", web)
	other()

	started := p.books["b"].Need("n", netConfig(), []netip.Addr{kept}, db)
	p.runPass()
	if !slices.Equal(p.pool.Wanted, []netip.Addr{kept}) || len(p.disputed) > 0 {
		t.Errorf("the pod starts on node b: wanted %v, disputed %q", p.pool.Wanted, p.disputed)
	}
	p.requireOwner("the pod starts on node b", kept, "a", db)
	p.runPass()
	p.requireOwner("node a gave it up", kept, "b", db)
	claim := p.books["b"].Of("n", db, nil).Claims[kept]
	if !strings.HasPrefix(claim, "for default/db-0 net1 ") {
		t.Fatalf("node b has the address under the claim %q", claim)
	}
	hold("b", claim, db)
	started()

	restarted := p.books["c"].Need("n", netConfig(), []netip.Addr{kept}, db)
	defer restarted()
	p.runPass()
	p.requireOwner("two pods of the name run", kept, "b", db)
	reason := fmt.Sprint(p.books["c"].Why("n", []netip.Addr{kept}, db))
	if len(p.disputed) > 0 || !strings.Contains(reason, "not ready: node b had it for an earlier pod of that name and has not given it back") {
		t.Errorf("two pods of the name run: disputed %q, node c says %s", p.disputed, reason)
	}
	p.ledgers["b"].Held = nil
	p.runPass()
	p.requireOwner("the first of them ended", kept, "c", db)
}
