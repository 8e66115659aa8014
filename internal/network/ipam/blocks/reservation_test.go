package blocks

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

func statefulPod(name string) vf.Owner {
	return vf.Owner{Kind: vf.OwnerPod, UID: "sandbox", Name: "default/" + name, Interface: "net1"}
}

// keeps returns a node's report of an address that a pod holds and keeps for some time after its
// end.
func keeps(node, address string, pod vf.Owner, keep time.Duration) Demand {
	return Demand{node, node, Request{Network: "n", Reservations: []Reservation{{Pod: PodKey(pod), Addr: addr(address), For: keep}}}}
}

// showReservations lists who an address is kept for, and whether its time runs.
func showReservations(p Pool) (out []string) {
	for _, r := range p.Reservations {
		s := r.Addr.String() + " " + r.Pod
		if !r.Since.IsZero() {
			s += " runs"
		}
		out = append(out, s)
	}
	return out
}

// A pool keeps an address from the time when a node reports it until the time that it is kept after
// the pod's end is over. That time begins anew when a pod of the name has had the address once
// more.
func TestReservationsBeginAndEnd(t *testing.T) {
	var endings Endings
	db, at := statefulPod("db-0"), time.Unix(1e9, 0)
	p := Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.9"), Node: "a", UID: "a"}, {Run: run("10.0.0.10-10.0.0.19"), Node: "b", UID: "b"}}}
	const kept, running = "10.0.0.5 default/db-0 net1", "10.0.0.5 default/db-0 net1 runs"
	for _, step := range []struct {
		name    string
		after   time.Duration
		demands []Demand
		want    []string
	}{
		{"nobody keeps any", 0, nil, nil},
		{"a pod has it", 0, []Demand{keeps("a", "10.0.0.5", db, time.Hour)}, []string{kept}},
		{"of another node's block", 0, []Demand{keeps("a", "10.0.0.5", db, time.Hour), keeps("a", "10.0.0.12", statefulPod("x"), time.Hour)}, []string{kept}},
		{"the pod ended", time.Minute, nil, []string{running}},
		{"just before its time is over", 59 * time.Minute, nil, []string{running}},
		{"a pod of the name has it again", 0, []Demand{keeps("a", "10.0.0.5", db, time.Hour)}, []string{kept}},
		{"and ends", time.Minute, nil, []string{running}},
		{"its time is over", time.Hour, nil, nil},
		{"it is held", 0, []Demand{keeps("a", "10.0.0.5", db, time.Hour)}, []string{kept}},
		{"the pod has another address", 0, []Demand{keeps("b", "10.0.0.12", db, time.Hour)}, []string{"10.0.0.12 default/db-0 net1"}},
		{"another pod has that one", 0, []Demand{keeps("b", "10.0.0.12", statefulPod("db-1"), time.Hour)}, []string{"10.0.0.12 default/db-1 net1"}},
	} {
		at = at.Add(step.after)
		p = Reserve(p, &endings, step.demands, at)
		if got := showReservations(p); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
}

// A leader compares no time of another machine's clock: a new one keeps an address for its whole time
// from when it first finds that no node holds it, whether its clock is ahead or behind.
func TestKeptAddressesOfLeadersWithOtherClocks(t *testing.T) {
	at, db := time.Unix(1e9, 0), statefulPod("db-0")
	var endings Endings
	p := Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.9"), Node: "a", UID: "a"}}}
	look := func(after time.Duration, want int, demands ...Demand) {
		t.Helper()
		at = at.Add(after)
		if p = Reserve(p, &endings, demands, at); len(p.Reservations) != want {
			t.Errorf("after %s: %v", after, p.Reservations)
		}
	}
	look(0, 1, keeps("a", "10.0.0.5", db, 10*time.Minute))
	look(time.Second, 1)
	for _, ahead := range []time.Duration{6 * time.Hour, -48 * time.Hour} {
		endings = Endings{}
		look(ahead, 1)
		look(9*time.Minute, 1)
	}
	look(time.Minute, 0)
}

// A pool keeps no more addresses than its bound. The kept addresses stay, also when pods with lower
// addresses come, and looks at unchanged reports change nothing.
func TestReservationsBeyondTheBound(t *testing.T) {
	var endings Endings
	at := time.Unix(1e9, 0)
	p := Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.0-10.0.15.255"), Node: "a", UID: "a"}}}
	report := func(first netip.Addr, count int) Demand {
		d := Demand{Node: "a", UID: "a"}
		for range count {
			d.Reservations = append(d.Reservations, Reservation{Pod: "default/" + first.String() + " net1", Addr: first, For: time.Hour})
			first = first.Next()
		}
		return d
	}
	high, low := report(addr("10.0.8.0"), 1100), report(addr("10.0.0.0"), 1100)
	p = Reserve(p, &endings, []Demand{high}, at)
	kept := slices.Clone(p.Reservations)
	if len(kept) != mostReservations || kept[0].Addr != addr("10.0.8.0") || kept[mostReservations-1].Addr != addr("10.0.11.255") {
		t.Fatalf("%d are kept: %v", len(kept), kept)
	}
	for look := range 10 {
		if look == 5 {
			high.Reservations = append(high.Reservations, low.Reservations...)
		}
		if p = Reserve(p, &endings, []Demand{high}, at); !slices.Equal(p.Reservations, kept) {
			t.Fatalf("look %d changed the kept addresses", look+1)
		}
	}
	high.Reservations = high.Reservations[1:] // that pod ended
	p = Reserve(p, &endings, []Demand{high}, at)
	kept[0].Since = at
	if !slices.Equal(p.Reservations, kept) {
		t.Error("a pod ended, and its address is not kept")
	}
	p = Reserve(p, &endings, []Demand{high}, at.Add(time.Hour))
	if want := append([]Reservation{low.Reservations[0]}, kept[1:]...); !slices.Equal(p.Reservations, want) {
		t.Errorf("the freed place is not that of the lowest address: %v", p.Reservations[0])
	}
}

// TestI9KeptAddressesAreShared: pods of one namespace that come and go under new names take no kept
// addresses from those of other namespaces. A namespace within its share keeps all of them. In a
// namespace beyond its share, the addresses of pods that ended last stay, and a second look changes
// nothing.
func TestI9KeptAddressesAreShared(t *testing.T) {
	var endings Endings
	at := time.Unix(1e9, 0)
	p := Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.0-10.0.31.255"), Node: "a", UID: "a"}}}
	next := addr("10.0.0.0")
	report := func(namespace string, count int) (out []Reservation) {
		for range count {
			out = append(out, Reservation{Pod: namespace + "/" + next.String() + " net1", Addr: next, For: 72 * time.Hour})
			next = next.Next()
		}
		return out
	}
	look := func(of ...[]Reservation) {
		p = Reserve(p, &endings, []Demand{{Node: "a", UID: "a", Request: Request{Reservations: slices.Concat(of...)}}}, at)
	}
	wantCounts := func(step string, want map[string]int) {
		t.Helper()
		got := map[string]int{}
		for _, r := range p.Reservations {
			namespace, _, _ := strings.Cut(r.Pod, "/")
			got[namespace]++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step, diff)
		}
	}
	var latest []Reservation
	for range 12 { // a hundred new pods each hour
		latest = report("greedy", 100)
		look(latest)
		at = at.Add(time.Hour)
	}
	wantCounts("alone", map[string]int{"greedy": 1024})
	db, web := report("db", 100), report("web", 4)
	look(latest, db, web)
	wantCounts("beside others", map[string]int{"greedy": 920, "db": 100, "web": 4})
	first, _ := p.reservation(addr("10.0.0.99"))
	last, _ := p.reservation(addr("10.0.3.232")) // the first of the eleventh hour
	if first.Pod != "" || last.Pod == "" {
		t.Errorf("kept are %q of the first pods and %q of the last ones", first.Pod, last.Pod)
	}
	before := slices.Clone(p.Reservations)
	if look(latest, db, web); !slices.Equal(p.Reservations, before) {
		t.Error("a second look changed the kept addresses")
	}
	other := report("other", 900)
	look(latest, db, web, other)
	wantCounts("beside another one that is greedy", map[string]int{"greedy": 460, "other": 460, "db": 100, "web": 4})
	look(nil, nil, other)
	wantCounts("after the pods ended", map[string]int{"greedy": 460, "other": 460, "db": 100, "web": 4})
}

// A node gives a kept address to a pod of the name alone, also when it has no other one left.
func TestKeptAddressIsNotGivenToOthers(t *testing.T) {
	db := statefulPod("db-0")
	b := NewBook("here", func() {})
	b.SetPools([]View{{Pool: Pool{
		Network: "n", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.4"), Node: "here", Grant: "g"}}, Reservations: []Reservation{{Pod: PodKey(db), Addr: addr("10.0.0.3")}},
	}}})
	grants := []ipam.Grant{{ID: "g"}}
	others := b.Of("n", podA, grants)
	if !slices.Equal(others.Runs, runs("10.0.0.2", "10.0.0.4")) || len(others.Kept) > 0 {
		t.Errorf("others get %v", others)
	}
	own := b.Of("n", db, grants)
	if !slices.Equal(own.Runs, runs("10.0.0.2-10.0.0.4")) || !slices.Equal(own.Kept, []netip.Addr{addr("10.0.0.3")}) {
		t.Errorf("the pod gets %v", own)
	}
	if err := b.Why("n", []netip.Addr{addr("10.0.0.3")}, podA); err == nil || !strings.Contains(err.Error(), "held for pod default/db-0 net1") {
		t.Errorf("another pod asks for it by name: %v", err)
	}
}

// I4: a node is granted a kept address only for the claim of a pod of that name. No request takes
// an address from a node that has it.
func TestI4ReservationProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		at := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}) }
		index := rapid.IntRange(2, 60)
		p := Pool{Network: "n"}
		p, _ = Grant(p, []Demand{demand("a", 3, "10.0.0.2-10.0.0.60"), demand("b", 3, "10.0.0.2-10.0.0.60")}, 8)
		pods := []string{"default/db-0 net1", "default/db-1 net1"}
		for _, n := range rapid.SliceOfNDistinct(index, 0, 5, rapid.ID).Draw(r, "kept") {
			p.Reservations = append(p.Reservations, Reservation{Pod: rapid.SampledFrom(pods).Draw(r, "pod"), Addr: at(n), For: time.Hour})
		}
		slices.SortFunc(p.Reservations, func(a, b Reservation) int { return a.Addr.Compare(b.Addr) })
		c := demand("c", int64(rapid.IntRange(0, 60).Draw(r, "used")), "10.0.0.2-10.0.0.60")
		for _, n := range rapid.SliceOfNDistinct(index, 0, 5, rapid.ID).Draw(r, "claimed") {
			id := newID()
			if rapid.Bool().Draw(r, "for a kept pod") {
				id = reservedFor(rapid.SampledFrom(pods).Draw(r, "its name")) + id
			}
			c.Claims = append(c.Claims, Claim{at(n), id, false})
		}
		got, _ := Grant(p, []Demand{c}, 8)
		for _, b := range p.Blocks {
			if now, taken := got.at(b.First); !taken || now.Node != b.Node {
				r.Fatalf("I4: %s of %s is %v's now", b.Run, b.Node, now.Node)
			}
		}
		for i, b := range got.Blocks {
			if i > 0 && b.First.Compare(got.Blocks[i-1].Last) <= 0 {
				r.Fatalf("I4: %s and %s overlap", got.Blocks[i-1].Run, b.Run)
			}
			for _, kept := range p.Reservations {
				if b.Node == "c" && b.Contains(kept.Addr) && !strings.HasPrefix(b.Claim, reservedFor(kept.Pod)) {
					r.Fatalf("%s is kept for %s and in block %s of c, claim %q", kept.Addr, kept.Pod, b.Run, b.Claim)
				}
			}
		}
	})
}
