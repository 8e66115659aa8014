package blocks

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

var (
	addr   = netip.MustParseAddr
	byAddr = cmpopts.EquateComparable(netip.Addr{})
	podA   = vf.Owner{Kind: vf.OwnerPod, UID: "a", Name: "default/a", Interface: "net1"}
)

// Book.Of returns no block whose Node is marked as gone, no block of another node and no claim of
// another attachment.
func TestBookOf(t *testing.T) {
	woken := 0
	b := NewBook("here", func() { woken++ })
	done := b.Need("n", netConfig(), []netip.Addr{addr("10.0.0.9")}, podA)
	id := asked(b)[0].Claims[0].ID
	changed := b.Changed()
	b.SetPools([]View{{Pool: Pool{Network: "n", Blocks: []Block{
		{Run: run("10.0.0.2-10.0.0.3"), Node: "here"}, {Run: run("10.0.0.4"), Node: "there"}, {Run: run("10.0.0.5"), Node: "here", GoneSince: time.Now()},
		{Run: run("10.0.0.9"), Node: "here", Claim: id}, {Run: run("10.0.0.10"), Node: "here", Claim: "another"},
	}}}})
	select {
	case <-changed:
	default:
		t.Error("nobody was told of the change")
	}
	changed = b.Changed()
	var same []View
	for _, v := range b.pools {
		same = append(same, v)
	}
	b.SetPools(same)
	select {
	case <-changed:
		t.Error("those who wait are woken for nothing")
	default:
	}
	want := ipam.Own{Runs: runs("10.0.0.2-10.0.0.3"), Claims: map[netip.Addr]string{addr("10.0.0.9"): id}}
	if diff := cmp.Diff(want, b.Of("n", podA, nil), byAddr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	done()
	want.Claims = map[netip.Addr]string{}
	if diff := cmp.Diff(want, b.Of("n", podA, nil), byAddr); diff != "" {
		t.Errorf("after the claim ended (-want +got):\n%s", diff)
	}
	if got := b.Of("other", podA, nil); len(got.Runs) != 0 || woken != 1 {
		t.Errorf("%v, woken %d times", got, woken)
	}
	// The node requests addresses of a network in use before its block runs out, also if the
	// cluster has other networks, and only as long as the network is used.
	b.SetNetworks(nil)
	if r := asked(b, []Held{{Network: "n", Addr: addr("10.0.0.2")}, {Network: "n", Addr: addr("10.0.0.3")}}...); len(r) != 1 || len(r[0].Ranges) == 0 || r[0].Used != 2 {
		t.Errorf("%+v", r)
	}
	for i := range 100 {
		b.Need(fmt.Sprint(i), netConfig(), nil, podA)()
	}
	if r := asked(b, Held{Network: "7", Addr: addr("10.0.0.2")}); len(r) != 1 || r[0].Network != "7" || len(r[0].Ranges) == 0 {
		t.Errorf("%d networks are requested, one is used", len(r))
	}
}

func TestBookRequests(t *testing.T) {
	b := NewBook("here", func() {})
	b.SetPools([]View{{Pool: Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.5"), Node: "here"}, {Run: run("10.0.0.6-10.0.0.7"), Node: "there"}}}}})
	b.SetNetworks(map[string]ipam.Config{"n": netConfig(), "empty": netConfig()})
	defer b.Need("n", netConfig(), nil, podA)()
	held := []Held{
		{Network: "n", Addr: addr("10.0.0.3"), Owner: podA},                  // of its block
		{Network: "n", Addr: addr("10.0.0.12"), Owner: podA, Claim: "id"},    // claimed
		{Network: "n", Addr: addr("10.0.0.6"), Owner: podA},                  // older than the pool, disputed
		{Network: "no network any more", Addr: addr("10.7.0.1"), Claim: "x"}, // its network was deleted
	}
	usable := netConfig().Usable()[0]
	want := []Request{
		{Network: "empty", Ranges: usable},
		{Network: "n", Ranges: usable, Used: 2, Claims: []Claim{{addr("10.0.0.6"), "held/a/net1", true}, {addr("10.0.0.12"), "id", true}}},
		{Network: "no network any more", Claims: []Claim{{addr("10.7.0.1"), "x", true}}},
	}
	if diff := cmp.Diff(want, asked(b, held...), byAddr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// I9: an attachment that waits gets another block where other networks have the
// addresses of the node's block. The networks may be on one segment, where no address
// may be given twice.
func TestI9BookAsksPastOtherNetworks(t *testing.T) {
	b := NewBook("here", func() {})
	b.SetPools([]View{{Pool: Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.5"), Node: "here"}}}}})
	b.SetNetworks(map[string]ipam.Config{"n": netConfig()})
	held := []Held{{Network: "n", Addr: addr("10.0.0.2")}, {Network: "m", Addr: addr("10.0.0.2")}, {Network: "m", Addr: addr("10.0.0.3")}, {Network: "m", Addr: addr("10.0.0.9")}}
	if r := asked(b, held...); r[1].Network != "n" || r[1].Used != 1 {
		t.Errorf("nothing waits: %+v", r)
	}
	defer b.Need("n", netConfig(), nil, podA)()
	if r := asked(b, held...); r[1].Network != "n" || r[1].Used != 3 {
		t.Errorf("one waits: %+v", r)
	}
}

// Disputed names held addresses in blocks of other nodes. A held address in no block is not
// disputed: no node has it yet.
func TestBookDisputed(t *testing.T) {
	b := NewBook("here", func() {})
	b.SetPools([]View{{Pool: Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.5"), Node: "here"}, {Run: run("10.0.0.6-10.0.0.7"), Node: "there"}}}}})
	got := b.Disputed([]Held{{"n", addr("10.0.0.2"), podA, "", false, 0}, {"n", addr("10.0.0.6"), podA, "", false, 0}, {"n", addr("10.0.0.9"), podA, "", false, 0}, {"m", addr("10.0.0.6"), podA, "", false, 0}})
	if want := []string{"address 10.0.0.6 of network n, which pod default/a has, is in block 10.0.0.6-10.0.0.7 of node there"}; !cmp.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestBookWhy(t *testing.T) {
	b := NewBook("here", func() {})
	named := []netip.Addr{addr("10.0.0.4")}
	for _, tc := range []struct {
		pools []View
		named []netip.Addr
		err   error
		want  string
	}{
		{nil, nil, vf.ErrNotReady, "network n: not ready: the cluster has no AddressPool for it yet: culvert-controller makes it; is it running?"},
		{[]View{{Pool: Pool{Network: "n"}}}, named, vf.ErrNotReady, "network n: not ready: culvert-controller was asked for addresses and has not answered yet"},
		{[]View{{Pool: Pool{Network: "n"}, Starved: true}}, nil, vf.ErrNothingFree, "network n: nothing free in the cluster: every address is in a node's block, or this node has its share (kubectl get addresspools): widen the network's range"},
		{[]View{{Pool: Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.5"), Node: "there"}}}}}, named, vf.ErrHeld,
			"address 10.0.0.4 of network n: held by node there (its block is 10.0.0.2-10.0.0.5): ask for another address"},
		{[]View{{Pool: Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.5"), Node: "there", Grant: "g"}}}}}, named, vf.ErrNotReady,
			"address 10.0.0.4 of network n: not ready: it is in block 10.0.0.2-10.0.0.5 of node there, which was asked to give it up and has not: a pod there may have it; ask for another address"},
	} {
		b.SetPools(tc.pools)
		if err := b.Why("n", tc.named, podA); !errors.Is(err, tc.err) || err.Error() != tc.want {
			t.Errorf("%v\nwant %s", err, tc.want)
		}
	}
}

// asked returns the requests of a book whose ledger has the given held addresses.
func asked(b *NodeBlocks, held ...Held) []Request {
	l := Ledger{Held: held}
	l.Grants = b.Keep(l, time.Time{})
	r, _ := b.Requests(func() (Ledger, error) { return l, nil })
	for i := range r {
		r[i].Grant = ""
	}
	return r
}

// I4: a claim that moves from the waiting attachments to the ledger while the requests are made is
// in the requests.
func TestClaimIsNeverMissed(t *testing.T) {
	b := NewBook("here", func() {})
	done := b.Need("n", netConfig(), []netip.Addr{addr("10.0.0.9")}, podA)
	id := asked(b)[0].Claims[0].ID
	got, _ := b.Requests(func() (Ledger, error) {
		done() // the ledger holds it from just before this moment on
		return Ledger{Held: []Held{{Network: "n", Addr: addr("10.0.0.9"), Owner: podA, Claim: id}}}, nil
	})
	if len(got) != 1 || len(got[0].Claims) != 1 || got[0].Claims[0].ID != id {
		t.Errorf("%+v", got)
	}
	done = b.Need("n", netConfig(), []netip.Addr{addr("10.0.0.10")}, podA)
	got, _ = b.Requests(func() (Ledger, error) { done(); return Ledger{}, nil }) // the ledger was read just before
	if len(got) != 1 || len(got[0].Claims) != 1 {
		t.Errorf("%+v", got)
	}
}

// I4: a node whose ledger cannot be read reports no requests: an empty report would end claims
// of addresses that its pods hold.
func TestI4UnreadLedgerIsNotReported(t *testing.T) {
	b := NewBook("here", func() {})
	b.SetNetworks(map[string]ipam.Config{"n": netConfig()})
	defer b.Need("n", netConfig(), []netip.Addr{addr("10.0.0.9")}, podA)()
	damaged := errors.New("the ledger is damaged")
	if got, err := b.Requests(func() (Ledger, error) { return Ledger{}, damaged }); !errors.Is(err, damaged) || len(got) > 0 {
		t.Errorf("it reports %+v, %v", got, err)
	}
}

// I4: the blocks of an earlier Node of the same name belong to another machine. This
// node gives nothing out of them, claims the addresses that it holds there, and reports
// the dispute. Blocks that an earlier controller granted name no UID, and belong to the
// node.
func TestI4BookOfAnEarlierNode(t *testing.T) {
	b := NewBook("a", func() {})
	b.SetNode("second")
	mine, old, others := run("10.0.0.2-10.0.0.5"), run("10.0.0.6-10.0.0.9"), run("10.0.0.10-10.0.0.13")
	b.SetPools([]View{{Pool: Pool{Network: "n", Blocks: []Block{
		{Run: mine, Node: "a", UID: "second"}, {Run: old, Node: "a"}, {Run: others, Node: "a", UID: "first"},
	}}}})
	if diff := cmp.Diff([]ipam.Run{mine, old}, b.Of("n", vf.Owner{}, nil).Runs, byAddr); diff != "" {
		t.Errorf("I4: it gives out of (-want +got):\n%s", diff)
	}
	held := []Held{{Network: "n", Addr: others.First, Owner: vf.Owner{UID: "u", Interface: "net1"}}, {Network: "n", Addr: mine.First}, {Network: "n", Addr: old.First}}
	requests, err := b.Requests(func() (Ledger, error) { return Ledger{Held: held}, nil })
	if err != nil || len(requests) != 1 || len(requests[0].Claims) != 1 || requests[0].Claims[0].Addr != others.First {
		t.Errorf("I4: it claims %+v (%v), want %s", requests, err, others.First)
	}
	if got := b.Disputed(held); len(got) != 1 || !strings.Contains(got[0], "a that was there before") {
		t.Errorf("disputed: %q", got)
	}
	b.SetNode("first") // the pools stay as they are
	if diff := cmp.Diff([]ipam.Run{old, others}, b.Of("n", vf.Owner{}, nil).Runs, byAddr); diff != "" {
		t.Errorf("I4: under another UID it gives out of (-want +got):\n%s", diff)
	}
}

func runAddrs(all ...string) (out []netip.Addr) {
	for _, a := range all {
		out = append(out, addr(a))
	}
	return out
}
