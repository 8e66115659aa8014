package blocks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

func run(s string) ipam.Run {
	first, last, some := strings.Cut(s, "-")
	if !some {
		last = first
	}
	return ipam.Run{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}

func runs(all ...string) (out []ipam.Run) {
	for _, s := range all {
		out = append(out, run(s))
	}
	return out
}

func show(p Pool) (out []string) {
	for _, b := range p.Blocks {
		s := b.Node + " " + b.Run.String()
		if b.Claim != "" {
			s += " claim " + b.Claim
		}
		if !b.GoneSince.IsZero() {
			s += " gone"
		}
		out = append(out, s)
	}
	return out
}

func demand(node string, used int64, ranges ...string) Demand {
	return Demand{node, node, Request{Network: "n", Ranges: runs(ranges...), Used: used}}
}

func TestCount(t *testing.T) {
	for s, want := range map[string]int64{
		"10.0.0.1": 1, "10.0.0.0-10.0.1.255": 512, "0.0.0.0-255.255.255.255": 1 << 32,
		"fd00::-fd00::ffff": 1 << 16, "fd00::-fd00::ffff:ffff:ffff:ffff": most, "fd00::-fd01::": most, "fd00::-fd00::7fff:ffff:ffff:fffe": most,
	} {
		if got := Count(run(s)); got != want {
			t.Errorf("%s: %d, want %d", s, got, want)
		}
	}
	if got := shorten(run("10.0.0.250-10.0.5.0"), 256); got != run("10.0.0.250-10.0.1.249") {
		t.Error(got)
	}
	if got := shorten(run("fd00::ffff-fd00::2:0"), 2); got != run("fd00::ffff-fd00::1:0") {
		t.Error(got)
	}
}

func TestGrant(t *testing.T) {
	const r0 = "172.16.91.2-172.16.91.254" // R0's subnet without its gateway
	for _, tc := range []struct {
		name    string
		have    Pool
		demands []Demand
		nodes   int
		want    []string
		outcome Outcome
	}{
		{"a block for each of two nodes", Pool{}, []Demand{demand("b", 0, r0), demand("a", 0, r0)}, 2,
			[]string{"a 172.16.91.2-172.16.91.17", "b 172.16.91.18-172.16.91.33"}, Outcome{}},
		{"again: nothing new", Pool{Blocks: []Block{{Run: run("172.16.91.2-172.16.91.17"), Node: "a", UID: "a"}}}, []Demand{demand("a", 8, r0)}, 2,
			[]string{"a 172.16.91.2-172.16.91.17"}, Outcome{}},
		{"before it runs out", Pool{Blocks: []Block{{Run: run("172.16.91.2-172.16.91.17"), Node: "a", UID: "a"}}}, []Demand{demand("a", 9, r0)}, 2,
			[]string{"a 172.16.91.2-172.16.91.33"}, Outcome{}},
		{"a burst", Pool{}, []Demand{demand("a", 40, r0)}, 2, []string{"a 172.16.91.2-172.16.91.49"}, Outcome{}},
		{"five addresses, two nodes", Pool{}, []Demand{demand("a", 0, "10.0.0.2-10.0.0.6"), demand("b", 0, "10.0.0.2-10.0.0.6")}, 2,
			[]string{"a 10.0.0.2", "b 10.0.0.3"}, Outcome{}},
		{"nothing left", Pool{Blocks: []Block{{Run: run("10.0.0.2-10.0.0.6"), Node: "a", UID: "a"}}}, []Demand{demand("a", 5, "10.0.0.2-10.0.0.6"), demand("b", 1, "10.0.0.2-10.0.0.6")}, 2,
			[]string{"a 10.0.0.2-10.0.0.6"}, Outcome{Starved: []string{"b"}}},
		{"holes and two ranges", Pool{Blocks: []Block{{Run: run("10.0.0.3"), Node: "x", UID: "x", Claim: "1"}}}, []Demand{demand("a", 3, "10.0.0.2-10.0.0.4", "10.9.0.1-10.9.0.2")}, 1,
			[]string{"a 10.0.0.2", "x 10.0.0.3 claim 1", "a 10.0.0.4", "a 10.9.0.1-10.9.0.2"}, Outcome{}},
		{"claims", Pool{Blocks: []Block{{Run: run("10.0.0.2-10.0.0.9"), Node: "a", UID: "a"}, {Run: run("10.0.0.20"), Node: "a", UID: "a", Claim: "old"}}}, []Demand{
			{"a", "a", Request{Claims: []Claim{{netip.MustParseAddr("10.0.0.5"), "in its block", false}, {netip.MustParseAddr("10.0.0.30"), "c", false}, {netip.MustParseAddr("10.0.0.20"), "new", false}}}},
			{"b", "b", Request{Claims: []Claim{{netip.MustParseAddr("10.0.0.9"), "d", false}, {netip.MustParseAddr("10.0.0.30"), "e", false}}}}}, 2,
			[]string{"a 10.0.0.2-10.0.0.9", "a 10.0.0.20 claim old", "a 10.0.0.30 claim c"},
			Outcome{Disputed: []string{"10.0.0.9, which node b claims, is in block 10.0.0.2-10.0.0.9 of node a", "10.0.0.30, which node b claims, is in block 10.0.0.30 of node a"}}},
		{"a /64", Pool{}, []Demand{demand("a", 0, "fd00::1-fd00::ffff:ffff:ffff:ffff")}, 2, []string{"a fd00::1-fd00::100"}, Outcome{}},
		{"a request beyond reason", Pool{}, []Demand{demand("a", 1<<62, "fd00::1-fd00::ffff:ffff:ffff:ffff")}, 2, []string{"a fd00::1-fd00::400"}, Outcome{Starved: []string{"a"}}},
		{"again", Pool{Blocks: []Block{{Run: run("10.1.0.0-10.1.3.255"), Node: "a", UID: "a"}}}, []Demand{demand("a", 1<<62, "10.1.0.0-10.1.255.255")}, 2, []string{"a 10.1.0.0-10.1.3.255"}, Outcome{Starved: []string{"a"}}},
		{"all of a small range", Pool{}, []Demand{demand("a", 1000, r0), demand("b", 0, r0), demand("c", 0, r0)}, 3,
			[]string{"a 172.16.91.2-172.16.91.222", "b 172.16.91.223-172.16.91.238", "c 172.16.91.239-172.16.91.254"}, Outcome{Starved: []string{"a"}}},
	} {
		got, outcome := Grant(tc.have, tc.demands, tc.nodes)
		if diff := cmp.Diff(tc.want, show(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if diff := cmp.Diff(tc.outcome, outcome); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// I4: a pod keeps its address after the API server was restored, while a pod of another
// node waits for that address. The names of the nodes do not matter.
func TestI4HeldClaimsComeFirst(t *testing.T) {
	a := addr("10.0.0.13")
	got, out := Grant(Pool{Network: "n"}, []Demand{
		{Node: "a", Request: Request{Network: "n", Claims: []Claim{{a, "waits", false}}}},
		{Node: "b", Request: Request{Network: "n", Claims: []Claim{{a, "has", true}}}},
	}, 2)
	if len(got.Blocks) != 1 || got.Blocks[0].Node != "b" || len(out.Disputed) != 1 {
		t.Errorf("I4: %v, %q", show(got), out.Disputed)
	}
}

// One node's claims take no more than its share.
func TestGrantBoundsClaims(t *testing.T) {
	var r Request
	for a := addr("10.1.0.1"); len(r.Claims) < 2*maxShare; a = a.Next() {
		r.Claims = append(r.Claims, Claim{a, "x", false})
	}
	p, out := Grant(Pool{}, []Demand{{"a", "a", r}}, 2)
	if len(p.Blocks) != maxShare || len(out.Disputed) != 1 || out.Disputed[0] != "node a claims more addresses than its share of 1024: 1024 of them are refused" {
		t.Errorf("%d blocks, disputed: %q", len(p.Blocks), out.Disputed)
	}
}

func TestRelease(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	marked := now.Add(-time.Hour) // by a clock that says nothing to this controller
	before := Pool{Blocks: []Block{
		{Run: run("10.0.0.2-10.0.0.9"), Node: "here", UID: "1", GoneSince: marked}, // its Node is back, by a restored API server
		{Run: run("10.0.0.10-10.0.0.19"), Node: "here", UID: "1"},
		{Run: run("10.0.0.20-10.0.0.29"), Node: "gone", UID: "2"},
		{Run: run("10.0.0.30-10.0.0.39"), Node: "gone", UID: "3", GoneSince: marked},
		{Run: run("10.0.0.50"), Node: "here", UID: "1", Claim: "kept"},
		{Run: run("10.0.0.51"), Node: "here", UID: "1", Claim: "dropped"},
		{Run: run("10.0.0.52"), Node: "silent", UID: "4", Claim: "x"},
		{Run: run("10.0.0.60"), Node: "here", UID: "0", GoneSince: marked}, // an earlier machine of that name
		{Run: run("10.0.0.61"), Node: "here", UID: "0", GoneSince: marked, Claim: "kept"},
		{Run: run("10.0.0.62"), Node: "silent", UID: "0", GoneSince: marked},
		{Run: run("10.0.0.63"), Node: "here"},
	}}
	views := map[string]NodeView{"here": {UID: "1", Known: true, Claims: []Claim{{addr("10.0.0.50"), "kept", true}, {addr("10.0.0.60"), "held", true}}}, "silent": {UID: "4"}}
	look := func(node string) (NodeView, error) { return views[node], nil }
	var absences Absences
	got, err := Release(before, &absences, now, look)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"here 10.0.0.2-10.0.0.19", "gone 10.0.0.20-10.0.0.29 gone", "gone 10.0.0.30-10.0.0.39 gone", "here 10.0.0.50 claim kept", "silent 10.0.0.52 claim x",
		"here 10.0.0.60 gone", "here 10.0.0.61 claim kept gone", "silent 10.0.0.62 gone", "here 10.0.0.63"}
	if diff := cmp.Diff(want, show(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got, err = Release(got, &absences, now.Add(Grace), look)
	if err != nil {
		t.Fatal(err)
	}
	want = []string{"here 10.0.0.2-10.0.0.19", "gone 10.0.0.20-10.0.0.29 gone", "here 10.0.0.50 claim kept", "silent 10.0.0.52 claim x", "here 10.0.0.60 gone", "silent 10.0.0.62 gone", "here 10.0.0.63"}
	if diff := cmp.Diff(want, show(got)); diff != "" {
		t.Errorf("later (-want +got):\n%s", diff)
	}
	broken := fmt.Errorf("the API server is down")
	got, err = Release(before, &absences, now, func(string) (NodeView, error) { return NodeView{}, broken })
	if err == nil || len(got.Blocks) != len(before.Blocks) {
		t.Errorf("%v %v", got, err)
	}
}

// I4: the Node object of a machine is deleted and made again, and much later it is
// deleted once more. The machine runs on with an address of the earliest Node's block.
// Other nodes get the block when the grace period after the last deletion is over, and
// not at once.
func TestI4SecondDeletionHasItsGrace(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	p := Pool{Blocks: []Block{{Run: run("10.0.0.2-10.0.0.9"), Node: "a", UID: "1", GoneSince: now}}}
	view := NodeView{UID: "2", Known: true, Claims: []Claim{{addr("10.0.0.3"), "held", true}}}
	var absences Absences
	release := func(after time.Duration) int {
		t.Helper()
		var err error
		if p, err = Release(p, &absences, now.Add(after), func(string) (NodeView, error) { return view, nil }); err != nil {
			t.Fatal(err)
		}
		return len(p.Blocks)
	}
	release(0)
	release(3 * Grace)
	view = NodeView{}
	if release(3*Grace+time.Second) != 1 || release(4*Grace) != 1 {
		t.Error("I4: the block of a machine that runs is given to others")
	}
	if release(5*Grace) != 0 {
		t.Error("its block stays for good")
	}
}

// I4: for any requests blocks never overlap, and no address moves that has an owner.
// Plain blocks are within the request, and a second look gives nothing more. A node
// starves only when nothing is free or it has its share.
func TestI4GrantProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pool{Network: "n"}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			var demands []Demand
			for _, n := range []string{"a", "b", "c"} {
				demands = append(demands, Demand{n, n, drawRequest(t)})
			}
			n := rapid.IntRange(0, 5).Draw(t, "nodes")
			after, outcome := Grant(p, demands, n)
			checkGrant(t, p, after, demands, n, outcome)
			p = after
		}
	})
}

func drawRequest(t *rapid.T) Request {
	base := netip.MustParseAddr("10.0.0.0").As4()
	at := func(n int) netip.Addr { b := base; b[3] = byte(n); return netip.AddrFrom4(b) }
	r := Request{Network: "n", Used: rapid.Int64Range(-1, 20).Draw(t, "used")}
	from := rapid.IntRange(0, 30).Draw(t, "from")
	for range rapid.IntRange(0, 2).Draw(t, "ranges") {
		to := from + rapid.IntRange(0, 15).Draw(t, "length")
		r.Ranges = append(r.Ranges, ipam.Run{First: at(from), Last: at(to)})
		from = to + 2
	}
	for range rapid.IntRange(0, 2).Draw(t, "claims") {
		r.Claims = append(r.Claims, Claim{at(rapid.IntRange(0, 60).Draw(t, "claimed")), fmt.Sprint(rapid.IntRange(0, 1000).Draw(t, "ID")), false})
	}
	return r
}

func checkGrant(t *rapid.T, before, after Pool, demands []Demand, nodes int, outcome Outcome) {
	has := map[netip.Addr]string{}
	for _, b := range after.Blocks {
		for a := b.First; b.Contains(a); a = a.Next() {
			if has[a] != "" {
				t.Fatalf("I4: %s is %s's and %s's", a, has[a], b.Node)
			}
			has[a] = b.Node
		}
	}
	for _, b := range before.Blocks {
		for a := b.First; b.Contains(a); a = a.Next() {
			if has[a] != b.Node {
				t.Fatalf("I4: %s was %s's and is %s's", a, b.Node, has[a])
			}
		}
	}
	for _, d := range demands {
		if !slices.Contains(outcome.Starved, d.Node) {
			continue
		}
		addresses := Total(d.Ranges)
		if after.have(d) >= shareOf(addresses, size(addresses, nodes), countAsking(demands)) {
			continue
		}
		for _, r := range d.Ranges {
			for a := r.First; r.Contains(a); a = a.Next() {
				if has[a] == "" {
					t.Fatalf("node %s starves and %s is free: %v", d.Node, a, show(after))
				}
			}
		}
	}
	if again, _ := Grant(after, demands, nodes); !cmp.Equal(show(again), show(after)) {
		t.Fatalf("%v, then %v", show(after), show(again))
	}
}
