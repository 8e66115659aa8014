package blocks

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// NodeBlocks has the addresses that a node may hand out of each network, and the addresses that it
// requests. Its methods may be called concurrently, and none of them blocks.
type NodeBlocks struct {
	node string
	wake func() // called when the requests have changed and an attachment waits

	changed change.Signal

	mu       sync.Mutex // guards the rest
	uid      string     // of the Node object
	pools    map[string]View
	own      map[string][]Block     // of pools, by network: the node's blocks
	versions map[string]Version     // the newest of each pool, also of one that is gone
	behind   map[string]bool        // roll calls; see Behind
	heard    bool                   // SetPools was called
	networks map[string]ipam.Config // that can be used
	known    configs                // that attachments use
	waiting  map[*wait]bool
	omitted  []string // networks of which the last requests lack a range set
	idle     map[idleKey]idle
}

// View is a pool as the node sees it.
type View struct {
	Pool
	Name      string // of the AddressPool
	Version   Version
	Starved   bool // the controller has nothing left for this node
	Exhausted bool // the controller has nothing left for some node
	// ClusterNodes is how many nodes share the pool; 0 when that is not known.
	ClusterNodes int
}

// wait is an attachment that waits for addresses.
type wait struct {
	network string
	config  ipam.Config
	owner   vf.Owner
	claims  map[netip.Addr]string
	blocks  bool         // it needs an address of a block, too
	usable  [][]ipam.Run // of config
	omitted bool         // the last requests lack a range set that it needs
}

// Held is an address that the node's ledger holds.
type Held struct {
	Network string
	Addr    netip.Addr
	Owner   vf.Owner
	Claim   string
	// Local is set for an address of scope node, which other nodes may hold too.
	Local bool
	// Keep is the time for which the address is kept for a pod of the same name after its pod has
	// ended.
	Keep time.Duration
}

// NewBook returns the book of a node. The Book calls wake when the caller should report the
// Requests at once. wake must not call the Book.
func NewBook(node string, wake func()) *NodeBlocks {
	return &NodeBlocks{
		node: node, wake: wake,
		pools: map[string]View{}, versions: map[string]Version{}, behind: map[string]bool{}, known: configs{}, waiting: map[*wait]bool{}, idle: map[idleKey]idle{},
	}
}

// SetNode sets the UID of the Node object. The blocks of an earlier Node of the same name belong
// to another machine.
func (b *NodeBlocks) SetNode(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if uid != b.uid {
		b.uid = uid
		b.findOwn()
		b.changed.Notify()
	}
}

// owns reports whether a block belongs to the node. A block that an earlier version of the
// controller granted has no UID.
func (b *NodeBlocks) owns(block Block) bool {
	return block.Node == b.node && (block.UID == b.uid || block.UID == "")
}

// findOwn finds the node's blocks. A pool of a large cluster has thousands of blocks, and each
// attach reads those of the node.
func (b *NodeBlocks) findOwn() {
	b.own = map[string][]Block{}
	for network, p := range b.pools {
		for _, block := range p.Blocks {
			if b.owns(block) {
				b.own[network] = append(b.own[network], block)
			}
		}
	}
}

// SetPools sets all pools of the cluster, as the node sees them.
func (b *NodeBlocks) SetPools(pools []View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := map[string]View{}
	for _, p := range pools {
		now[p.Network] = p
	}
	if b.heard && maps.EqualFunc(now, b.pools, isSameView) {
		return
	}
	b.heard = true
	b.noteVersions(now)
	b.pools = now
	b.findOwn()
	b.changed.Notify()
}

// isSameView compares two views. A pool of a large cluster has thousands of blocks, and
// reflect.DeepEqual is slow.
func isSameView(a, b View) bool {
	same := slices.Equal(a.Blocks, b.Blocks) && slices.Equal(a.Wanted, b.Wanted) && slices.Equal(a.Reservations, b.Reservations)
	a.Blocks, a.Wanted, a.Reservations = b.Blocks, b.Wanted, b.Reservations
	a.Pool.Blocks, b.Pool.Blocks = nil, nil
	return same && reflect.DeepEqual(a, b)
}

// SetNetworks sets the networks that pods of the node can use and that take addresses from the
// cluster. The node requests blocks of them before a pod needs an address.
func (b *NodeBlocks) SetNetworks(networks map[string]ipam.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.networks = maps.Clone(networks)
}

// Changed returns a channel that is closed when Of may return other addresses.
func (b *NodeBlocks) Changed() <-chan struct{} { return b.changed.Next() }

// Of returns the addresses of a network that the node may hand out to an attachment. grants are the
// ledger's grants for the network, in the transaction that records the outcome.
func (b *NodeBlocks) Of(network string, owner vf.Owner, grants []ipam.Grant) ipam.Own {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := ipam.Own{Claims: map[netip.Addr]string{}}
	own.Runs, own.Kept = b.pools[network].divide(b.handsOut(network, grants), owner)
	mine := map[string]bool{}
	for w := range b.waiting {
		if w.network == network && w.owner == owner {
			for _, id := range w.claims {
				mine[id] = true
			}
		}
	}
	for _, block := range b.own[network] {
		if block.GoneSince.IsZero() && block.Claim != "" && mine[block.Claim] {
			own.Claims[block.First] = block.Claim
		}
	}
	return own
}

// Need requests an address of each range set of a network, or the named addresses. The request
// stands until the caller calls done, which it does after the ledger holds the addresses.
func (b *NodeBlocks) Need(network string, c ipam.Config, named []netip.Addr, owner vf.Owner) (done func()) {
	w := &wait{network: network, config: c, owner: owner, claims: map[netip.Addr]string{}, blocks: c.NeedsBlocks(named), usable: c.Usable()}
	b.mu.Lock()
	for _, a := range named {
		w.claims[a] = newID()
		if r, kept := b.pools[network].reservation(a); kept && r.Pod == PodKey(owner) {
			w.claims[a] = reservedFor(r.Pod) + w.claims[a]
		}
	}
	b.waiting[w] = true
	if len(c.Sets) > 0 { // from now on blocks are asked for before they run out
		b.known.add(network, c)
	}
	b.mu.Unlock()
	b.wake()
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting, w)
	}
}

// newID returns an ID that was never used.
func newID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// Why returns the reason why an attachment that waited got no address: vf.ErrHeld with the node
// that has a named address, vf.ErrNothingFree if no address is left, else vf.ErrNotReady.
func (b *NodeBlocks) Why(network string, named []netip.Addr, owner vf.Owner) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.pools[network]
	for _, a := range named {
		block, taken := p.at(a)
		if r, kept := p.reservation(a); kept && r.Pod != PodKey(owner) {
			return fmt.Errorf("address %s of network %s: %w for pod %s (culvert.dev/keep-address): ask for another address", a, network, vf.ErrHeld, r.Pod)
		}
		if taken && !b.owns(block) && block.isFor(PodKey(owner)) {
			return fmt.Errorf("address %s of network %s: %w: %s had it for an earlier pod of that name and has not given it back: is that pod gone, and the Node object of a machine that is?",
				a, network, vf.ErrNotReady, block.holder(b.node))
		}
		if taken && !b.owns(block) && block.canBeWanted() {
			return fmt.Errorf("address %s of network %s: %w: it is in block %s of %s, which was asked to give it up and has not: a pod there may have it; ask for another address",
				a, network, vf.ErrNotReady, block.Run, block.holder(b.node))
		}
		if taken && !b.owns(block) {
			return fmt.Errorf("address %s of network %s: %w by %s (its block is %s): ask for another address", a, network, vf.ErrHeld, block.holder(b.node), block.Run)
		}
	}
	switch {
	case b.isOmitted(network, owner):
		return fmt.Errorf("network %s: %w: the node requests as many ranges of addresses as its NodeState can have (%d): shorten the lists of excluded addresses in the networks of this node's pods, or run the pod on another node",
			network, vf.ErrNotReady, mostRuns)
	case !known:
		return fmt.Errorf("network %s: %w: the cluster has no AddressPool for it yet: culvert-controller makes it; is it running?", network, vf.ErrNotReady)
	case p.Starved && len(named) == 0:
		return fmt.Errorf("network %s: %w in the cluster: every address is in a node's block, or this node has its share (kubectl get addresspools): widen the network's range", network, vf.ErrNothingFree)
	}
	return fmt.Errorf("network %s: %w: culvert-controller was asked for addresses and has not answered yet", network, vf.ErrNotReady)
}

// Disputed describes the held addresses that are in blocks of other nodes.
func (b *NodeBlocks) Disputed(held []Held) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, h := range held {
		if block, taken := b.pools[h.Network].at(h.Addr); taken && !b.owns(block) && !h.Local {
			out = append(out, fmt.Sprintf("address %s of network %s, which %s has, is in block %s of %s", h.Addr, h.Network, h.Owner, block.Run, block.holder(b.node)))
		}
	}
	slices.Sort(out)
	return out
}
