package attach_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// pair has two nodes that share one pool of addresses, and a controller that serves the requests of
// a node that wakes it.
type pair struct {
	nodes   [2]*node.Node
	kernels [2]*fake.Kernel
	books   [2]*blocks.NodeBlocks
	asked   chan struct{}

	mu      sync.Mutex // guards the fields below
	pool    blocks.Pool
	silent  bool // the controller is down
	now     time.Time
	endings blocks.Endings
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{pool: blocks.Pool{Network: "blue"}, now: time.Unix(1e9, 0)}
	p.asked = make(chan struct{}, 1)
	for i := range p.nodes {
		k := fake.New(fake.IGB, 2)
		k.AddNetns(podNetns)
		p.books[i] = blocks.NewBook(fmt.Sprintf("worker0%d", i+1), p.wake)
		p.kernels[i] = k
		p.nodes[i] = startIn(t, machine{k, faulty.New(k)}, p.books[i])
	}
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	t.Cleanup(func() { cancel(); _ = g.Wait() })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-p.asked:
				p.round()
			}
		}
	})
	return p
}

// wake makes the controller serve the nodes' requests.
func (p *pair) wake() {
	select {
	case p.asked <- struct{}{}:
	default:
	}
}

// round makes the controller serve the nodes' requests once.
func (p *pair) round() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent {
		return
	}
	var demands []blocks.Demand
	for i, b := range p.books {
		requests, _ := b.Requests(func() (blocks.Ledger, error) { return p.keep(i), nil })
		for _, r := range requests {
			demands = append(demands, blocks.Demand{Node: fmt.Sprintf("worker0%d", i+1), Request: r})
		}
	}
	p.pool.Blocks = slices.DeleteFunc(slices.Clone(p.pool.Blocks), func(b blocks.Block) bool { // as blocks.Release
		return b.Claim != "" && !slices.ContainsFunc(demands, func(d blocks.Demand) bool {
			return slices.ContainsFunc(d.Claims, func(c blocks.Claim) bool { return c.ID == b.Claim })
		})
	})
	next, out := blocks.Grant(blocks.Reserve(p.pool, &p.endings, demands, p.now), demands, len(p.nodes))
	if !slices.Equal(p.pool.Wanted, next.Wanted) {
		defer p.wake()
	}
	p.pool = next
	for _, b := range p.books {
		b.SetPools([]blocks.View{{Pool: next, Starved: len(out.Starved) > 0, ClusterNodes: len(p.nodes)}})
	}
}

// keep updates the grants in a node's ledger, as package membership does.
func (p *pair) keep(i int) blocks.Ledger {
	l := blocks.Ledger{Held: p.held(i), Aside: p.nodes[i].AddressesAside()}
	_ = p.nodes[i].Ledger.Update(func(tx *journal.Tx) error {
		for _, g := range tx.Grants("") {
			k := blocks.Kept{Network: g.Network, Grant: ipam.Grant{ID: g.ID}}
			for _, r := range g.Runs {
				k.Runs = append(k.Runs, ipam.Run(r))
			}
			l.Grants = append(l.Grants, k)
			_ = tx.DeleteGrant(g)
		}
		l.Grants = p.books[i].Keep(l, time.Now())
		for _, k := range l.Grants {
			g := journal.Grant{Network: k.Network, ID: k.ID}
			for _, r := range k.Runs {
				g.Runs = append(g.Runs, journal.AddressRun(r))
			}
			_ = tx.PutGrant(g)
		}
		return nil
	})
	return l
}

func (p *pair) held(i int) (out []blocks.Held) {
	_ = p.nodes[i].Ledger.View(func(tx *journal.Tx) error {
		all := tx.AddressesOf("")
		for _, a := range all {
			out = append(out, blocks.Held{Network: a.Network, Addr: a.Addr, Owner: a.Owner, Claim: a.Claim, Local: a.Local, Keep: a.Keep})
		}
		return nil
	})
	return out
}

func from(t *testing.T, section string, pod int, named ...string) attach.Request {
	t.Helper()
	cfg, err := ipam.Parse([]byte(section))
	if err != nil {
		t.Fatal(err)
	}
	req := attach.Request{
		Owner:   vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(pod), Name: fmt.Sprintf("default/p%d", pod), Interface: "net1"},
		Network: "blue", Netns: podNetns, IPAM: cfg, Spec: vf.Spec{Interface: fmt.Sprintf("net%d", pod)},
	}
	for _, n := range named {
		req.Addresses = append(req.Addresses, netip.MustParsePrefix(n))
	}
	return req
}

// attached attaches a VF and returns the lease's first address, or the text of the error.
func (p *pair) attached(t *testing.T, node int, req attach.Request) string {
	t.Helper()
	rec, err := p.nodes[node].Engine.Attach(t.Context(), req)
	if err != nil {
		return err.Error()
	}
	return rec.Lease.Wanted.Addresses[0].Prefix.String()
}

// checkRefused fails the test unless the attachment is refused with a reason when its time is over.
// On a busy machine, the nodes and the controller may need longer, so each further attempt has more
// time.
func (p *pair) checkRefused(t *testing.T, node int, req attach.Request, reason string) (err error) {
	t.Helper()
	for within := 200 * time.Millisecond; ; within *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		var rec journal.Record
		rec, err = p.nodes[node].Engine.Attach(ctx, req)
		cancel()
		switch {
		case err == nil:
			t.Errorf("I4: %v is given twice", rec.Lease.Wanted.Addresses)
			return nil
		case strings.Contains(err.Error(), reason):
			return err
		case within > time.Minute:
			t.Errorf("I4: %v; want %q in it", err, reason)
			return err
		}
	}
}

const r0 = `{"type":"host-local","subnet":"172.16.91.0/24","gateway":"172.16.91.1"}`

// I4: two nodes that share a host-local section give out no address twice. With scope node they do,
// as in earlier versions.
func TestI4TwoNodesOfOneSubnet(t *testing.T) {
	p := newPair(t)
	got := []string{p.attached(t, 0, from(t, r0, 1)), p.attached(t, 1, from(t, r0, 2)), p.attached(t, 0, from(t, r0, 3))}
	if diff := cmp.Diff([]string{"172.16.91.2/24", "172.16.91.18/24", "172.16.91.3/24"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const local = `{"type":"host-local","subnet":"10.7.0.0/24","scope":"node"}`
	for i := range p.nodes {
		req := from(t, local, 9)
		req.Network = "local"
		if got := p.attached(t, i, req); got != "10.7.0.2/24" {
			t.Errorf("scope node: %s", got)
		}
	}
	if held := p.held(0); len(held) != 3 || slices.IndexFunc(held, func(h blocks.Held) bool { return h.Local }) != 2 {
		t.Errorf("the cluster is told of %v", held)
	}
}

// I4: when the scope of a network becomes the cluster, the controller grants no addresses that nodes
// already hold, even if two nodes hold the same one.
func TestI4ScopeBecomesTheClusters(t *testing.T) {
	p := newPair(t)
	local := strings.Replace(r0, "{", `{"scope":"node",`, 1)
	got := []string{p.attached(t, 0, from(t, local, 1)), p.attached(t, 1, from(t, local, 2)), p.attached(t, 1, from(t, r0, 3)), p.attached(t, 0, from(t, r0, 4))}
	if diff := cmp.Diff([]string{"172.16.91.2/24", "172.16.91.2/24", "172.16.91.3/24", "172.16.91.19/24"}, got); diff != "" {
		t.Errorf("I4: -want +got:\n%s", diff)
	}
	// The first of the two pods is gone. The second one still has the address, so no node gives it
	// to another pod.
	if err := p.nodes[0].Resets.Detach(t.Context(), from(t, local, 1).Owner); err != nil {
		t.Fatal(err)
	}
	p.round()
	p.checkRefused(t, 0, from(t, r0, 5, "172.16.91.2/24"), "")
}

// I4: an address that a request names, or that the network fixes, is unique in the
// cluster too. Another node can get the address after its owner has released it.
func TestI4NamedAddressesAreClaimed(t *testing.T) {
	for name, section := range map[string]string{"host-local": r0, "static": `{"type":"static"}`} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			const a = "172.16.91.200/24"
			first := from(t, section, 1, a)
			if got := p.attached(t, 0, first); got != a {
				t.Fatal(got)
			}
			want := "address 172.16.91.200 of network blue: held by node worker01 (its block is 172.16.91.200): ask for another address"
			if got := p.attached(t, 1, from(t, section, 2, a)); got != want {
				t.Fatal(got)
			}
			if err := p.nodes[0].Resets.Detach(t.Context(), first.Owner); err != nil {
				t.Fatal(err)
			}
			p.mu.Lock()
			p.pool, _ = blocks.Release(p.pool, &blocks.Absences{}, time.Now(), func(string) (blocks.NodeView, error) { return blocks.NodeView{UID: "uid", Known: true}, nil })
			p.mu.Unlock()
			p.round()
			if got := p.attached(t, 1, from(t, section, 3, a)); got != a {
				t.Fatal(got)
			}
		})
	}
}

// I4: a pod can request by name a free address of another node's block. That node then never gives
// the address out, and keeps the other addresses of its block. A request for an address that a pod
// of that node has is refused, with an error that names the node.
func TestI4NamedAddressOfAnotherNodesBlock(t *testing.T) {
	p := newPair(t)
	if got := p.attached(t, 0, from(t, r0, 1)); got != "172.16.91.2/24" {
		t.Fatal(got)
	}
	if got := p.attached(t, 1, from(t, r0, 2, "172.16.91.3/24")); got != "172.16.91.3/24" {
		t.Fatal(got)
	}
	p.checkRefused(t, 1, from(t, r0, 3, "172.16.91.2/24"), "is in block 172.16.91.2 of node worker01, which was asked to give it up and has not")
	if got := p.attached(t, 0, from(t, r0, 4)); got != "172.16.91.4/24" {
		t.Errorf("I4: the node that gave it up has %s", got)
	}
}

// While the controller does not answer, an attach that needs it fails with vf.ErrNotReady and
// leaves nothing behind. The node still gives out the addresses of the block that it has.
func TestControllerDown(t *testing.T) {
	p := newPair(t)
	p.attached(t, 0, from(t, r0, 1))
	p.mu.Lock()
	p.silent = true
	p.mu.Unlock()
	if got := p.attached(t, 0, from(t, r0, 2)); got != "172.16.91.3/24" {
		t.Error(got)
	}
	if err := p.checkRefused(t, 1, from(t, r0, 3), "culvert-controller was asked for addresses and has not answered yet"); !errors.Is(err, vf.ErrNotReady) {
		t.Error(err)
	}
	requests, _ := p.books[1].Requests(func() (blocks.Ledger, error) { return blocks.Ledger{}, nil })
	for _, r := range requests {
		if r.Used != 0 || len(r.Claims) > 0 {
			t.Errorf("still asked for: %+v", r)
		}
	}
}

// Two tenants whose networks have one CNI name, and a network of a file with that name, take no address
// from each other.
func TestTenantsWithOneNameOfNetwork(t *testing.T) {
	k := fake.New(fake.IGB, 4)
	k.AddNetns(podNetns)
	n := start(t, machine{k, faulty.New(k)})
	var got []string
	for i, pool := range []string{"", "red/net", "blue/net", "red/net"} {
		req := from(t, r0, i)
		req.Spec.VLAN = &vf.VLAN{ID: uint16(len(pool))} // each tenant has its own VLAN
		if pool != "" {
			req.AddressPool = pool
		}
		rec, err := n.Engine.Attach(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rec.Lease.AddressPoolName()+" "+rec.Lease.Wanted.Addresses[0].Prefix.Addr().String())
	}
	if want := []string{"blue 172.16.91.2", "red/net 172.16.91.2", "blue/net 172.16.91.2", "red/net 172.16.91.3"}; !cmp.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
}

// Several pods may have an address of a static network that is shared, on one node and on several.
// No pod gets an address that a pod of another network has (I9).
func TestSharedAddress(t *testing.T) {
	const shared = `{"type":"static","shared":true,"addresses":[{"address":"10.9.0.9/24"}]}`
	const single = `{"type":"static","addresses":[{"address":"10.9.0.9/24"}]}`
	p := newPair(t)
	p.silent = true // the attachments below need no answer of the controller
	first, second := from(t, shared, 1), from(t, shared, 2)
	for i, req := range []attach.Request{first, second} {
		if got := p.attached(t, 0, req); got != "10.9.0.9/24" {
			t.Fatalf("pod %d: %s", i, got)
		}
	}
	if got := p.attached(t, 1, from(t, shared, 3)); got != "10.9.0.9/24" {
		t.Errorf("on the other node: %s", got)
	}
	if held := p.held(0); len(held) != 2 || !held[0].Local || !held[1].Local {
		t.Errorf("the cluster is told of %v", held)
	}
	other := from(t, `{"type":"static","scope":"node","addresses":[{"address":"10.9.0.9/24"}]}`, 4)
	other.Network = "other"
	if got := p.attached(t, 0, other); !strings.Contains(got, "address 10.9.0.9: held by pod default/p") {
		t.Errorf("another network on the segment: %s", got)
	}
	mine := from(t, strings.Replace(single, `"type"`, `"scope":"node","type"`, 1), 5)
	if got := p.attached(t, 0, mine); !strings.Contains(got, "address 10.9.0.9: held by pod default/p") {
		t.Errorf("the network is no longer shared: %s", got)
	}
	for i, left := range []int{1, 0} {
		if err := p.nodes[0].Resets.Detach(t.Context(), []attach.Request{first, second}[i].Owner); err != nil {
			t.Fatal(err)
		}
		if held := p.held(0); len(held) != left {
			t.Errorf("after %d detaches the ledger has %v", i+1, held)
		}
		if got := p.attached(t, 0, other); (left == 0) != (got == "10.9.0.9/24") {
			t.Errorf("with %d holders another network gets %s", left, got)
		}
	}
}

// A shared network takes no address that another network has on the segment (I9).
func TestI9SharedAddressInUseIsRefused(t *testing.T) {
	p := newPair(t)
	holder := from(t, `{"type":"static","scope":"node","addresses":[{"address":"10.9.0.9/24"}]}`, 1)
	holder.Network = "other"
	if got := p.attached(t, 0, holder); got != "10.9.0.9/24" {
		t.Fatal(got)
	}
	got := p.attached(t, 0, from(t, `{"type":"static","shared":true,"addresses":[{"address":"10.9.0.9/24"}]}`, 2))
	if !strings.Contains(got, "address 10.9.0.9: held by pod default/p1") {
		t.Errorf("%s", got)
	}
}
