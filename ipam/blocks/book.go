package blocks

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"

	"github.com/culvert-net/culvert/change"
	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/vf"
)

// Book is what a node may hand out of each network, and what it asks for. Its
// methods may be called concurrently; none of them waits for anybody.
type Book struct {
	node string
	wake func() // what is asked for has changed and somebody waits

	changed change.Signal

	mu       sync.Mutex // guards the rest
	uid      string     // of the Node object
	pools    map[string]View
	networks map[string]ipam.Config // that can be used
	known    configs                // that attachments use
	waiting  map[*wait]bool
}

// View is a pool as the node sees it.
type View struct {
	Pool
	Starved bool // the controller has nothing left for this node
}

// wait is an attachment that waits for addresses.
type wait struct {
	network string
	config  ipam.Config
	owner   vf.Owner
	claims  map[netip.Addr]string
}

// Held is an address that the node's ledger holds.
type Held struct {
	Network string
	Addr    netip.Addr
	Owner   vf.Owner
	Claim   string
	// Local addresses are of scope node: other nodes may hold the same.
	Local bool
}

// NewBook returns the book of a node. wake is called when what Requests says
// should be told at once; it must not call the Book.
func NewBook(node string, wake func()) *Book {
	return &Book{
		node: node, wake: wake,
		pools: map[string]View{}, known: configs{}, waiting: map[*wait]bool{},
	}
}

// SetNode takes note of the UID of the Node object: the blocks of an earlier Node of the
// same name are another machine's.
func (b *Book) SetNode(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if uid != b.uid {
		b.uid = uid
		b.changed.Notify()
	}
}

// owns reports whether a block is the node's. An earlier controller named no UID.
func (b *Book) owns(block Block) bool {
	return block.Node == b.node && (block.UID == b.uid || block.UID == "")
}

// SetPools takes note of all pools of the cluster.
func (b *Book) SetPools(pools []View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := map[string]View{}
	for _, p := range pools {
		now[p.Network] = p
	}
	if reflect.DeepEqual(now, b.pools) {
		return
	}
	b.pools = now
	b.changed.Notify()
}

// SetNetworks takes note of the networks that can be used on the node and take
// addresses from the cluster: blocks are asked for before they are needed.
func (b *Book) SetNetworks(networks map[string]ipam.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.networks = maps.Clone(networks)
}

// Changed is closed when Of may say something else.
func (b *Book) Changed() <-chan struct{} { return b.changed.Next() }

// Of returns the addresses that the node may hand out of a network to an attachment.
func (b *Book) Of(network string, owner vf.Owner) ipam.Own {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := ipam.Own{Claims: map[netip.Addr]string{}}
	mine := map[string]bool{}
	for w := range b.waiting {
		if w.network == network && w.owner == owner {
			for _, id := range w.claims {
				mine[id] = true
			}
		}
	}
	for _, block := range b.pools[network].Blocks {
		switch {
		case !b.owns(block) || !block.GoneSince.IsZero():
		case block.Claim == "":
			own.Runs = append(own.Runs, block.Run)
		case mine[block.Claim]:
			own.Claims[block.First] = block.Claim
		}
	}
	return own
}

// Need asks for an address of each set of a network, or for those that are
// named. It stands until the function that it returns is called, which is after
// the ledger holds what was got.
func (b *Book) Need(network string, c ipam.Config, named []netip.Addr, owner vf.Owner) (done func()) {
	w := &wait{network: network, config: c, owner: owner, claims: map[netip.Addr]string{}}
	b.mu.Lock()
	for _, a := range named {
		w.claims[a] = newID()
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

// newID is one that nobody has used.
func newID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// Why says why an attachment that waited has got nothing: vf.ErrHeld with the
// node that has a named address, vf.ErrNothingFree when there is nothing left,
// else vf.ErrNotReady.
func (b *Book) Why(network string, named []netip.Addr) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.pools[network]
	for _, a := range named {
		if block, taken := p.at(a); taken && !b.owns(block) {
			return fmt.Errorf("address %s of network %s: %w by node %s (its block is %s): ask for another address", a, network, vf.ErrHeld, block.name(b.node), block.Run)
		}
	}
	switch {
	case !known:
		return fmt.Errorf("network %s: %w: the cluster has no AddressPool for it yet: culvert-controller makes it; is it running?", network, vf.ErrNotReady)
	case p.Starved && len(named) == 0:
		return fmt.Errorf("network %s: %w in the cluster: every address is in a node's block, or this node has its share (kubectl get addresspools): widen the network's range", network, vf.ErrNothingFree)
	}
	return fmt.Errorf("network %s: %w: culvert-controller was asked for addresses and has not answered yet", network, vf.ErrNotReady)
}

// Requests says what the node needs. held reads every address that its ledger
// holds of networks that take theirs from the cluster. It is called after a look
// at who waits: a claim moves from the one to the other, and must not be missed
// in between (TestClaimIsNeverMissed).
func (b *Book) Requests(held func() ([]Held, error)) ([]Request, error) {
	b.mu.Lock()
	waiting := maps.Clone(b.waiting)
	b.mu.Unlock()
	all, err := held()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests(all, waiting), nil
}

// forgetUnused drops the networks whose addresses no attachment holds or waits for, so
// that the requests do not grow with each network that was ever used.
func (b *Book) forgetUnused(held []Held, waiting map[*wait]bool) {
	used := map[string]bool{}
	for _, h := range held {
		used[h.Network] = true
	}
	for _, all := range []map[*wait]bool{waiting, b.waiting} {
		for w := range all {
			used[w.network] = true
		}
	}
	maps.DeleteFunc(b.known, func(network string, _ []ipam.Config) bool { return !used[network] })
}

func (b *Book) requests(held []Held, waiting map[*wait]bool) []Request {
	b.forgetUnused(held, waiting)
	all := configs{}
	for network, known := range b.known {
		all[network] = slices.Clone(known)
	}
	for network, c := range b.networks {
		all[network] = []ipam.Config{c}
	}
	for w := range waiting {
		all.add(w.network, w.config)
	}
	for _, h := range held {
		if _, known := all[h.Network]; !known {
			all[h.Network] = []ipam.Config{{}}
		}
	}
	var out []Request
	for _, network := range slices.Sorted(maps.Keys(all)) {
		former := all[network][0].FormerPool
		claims := b.claims(network, held, waiting)
		first := len(out)
		for _, c := range all[network] {
			for _, usable := range c.Usable() {
				out = append(out, Request{Network: network, FormerPool: former, Ranges: usable, Used: b.used(network, former, usable, held, waiting)})
			}
		}
		local := localRuns(held, network, former)
		if len(claims)+len(local) > 0 && len(out) == first {
			out = append(out, Request{Network: network, FormerPool: former})
		}
		if len(out) > first {
			out[first].Claims, out[first].Local = claims, local
		}
	}
	return out
}

// claims are the single addresses of a network: those that were claimed and are
// held, those that somebody waits for, and those that are held and in no block
// of the node's, since they are older than the cluster's pool.
func (b *Book) claims(network string, held []Held, waiting map[*wait]bool) []Claim {
	var out []Claim
	for _, h := range held {
		switch {
		case h.Network != network || h.Local:
		case h.Claim != "":
			out = append(out, Claim{h.Addr, h.Claim, true})
		case !b.inBlock(network, h.Addr):
			out = append(out, Claim{h.Addr, "held/" + h.Owner.UID + "/" + h.Owner.Interface, true})
		}
	}
	for w := range waiting {
		if w.network != network {
			continue
		}
		for a, id := range w.claims {
			if !b.inBlock(network, a) {
				out = append(out, Claim{a, id, false})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Claim) int { return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.ID, b.ID)) })
	return slices.CompactFunc(out, func(a, b Claim) bool { return a.Addr == b.Addr && a.ID == b.ID })
}

// localRuns returns the addresses of scope node that are held of a network.
func localRuns(held []Held, network, former string) []ipam.Run {
	var all []netip.Addr
	for _, h := range held {
		if h.Local && (h.Network == network || h.Network == former) {
			all = append(all, h.Addr)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	var out []ipam.Run
	for _, a := range slices.Compact(all) {
		if n := len(out); n > 0 && out[n-1].Last.Next() == a {
			out[n-1].Last = a
			continue
		}
		out = append(out, ipam.Run{First: a, Last: a})
	}
	return out
}

// Disputed says in words which of the held addresses are in blocks of other
// nodes.
func (b *Book) Disputed(held []Held) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, h := range held {
		if block, taken := b.pools[h.Network].at(h.Addr); taken && !b.owns(block) && !h.Local {
			out = append(out, fmt.Sprintf("address %s of network %s, which %s has, is in block %s of node %s", h.Addr, h.Network, h.Owner, block.Run, block.name(b.node)))
		}
	}
	slices.Sort(out)
	return out
}

// inBlock reports whether a block of the node's has a, also one that is about
// to be taken back.
func (b *Book) inBlock(network string, a netip.Addr) bool {
	block, taken := b.pools[network].at(a)
	return taken && b.owns(block) && block.Claim == ""
}

// used counts the addresses of a set that are held of the node's blocks, and
// those that are waited for. Those that are held in the former pool count: the node
// cannot hand them out. While an attachment waits, so do those that other networks hold:
// they may be on one segment with this one.
func (b *Book) used(network, former string, usable []ipam.Run, held []Held, waiting map[*wait]bool) int64 {
	in := func(a netip.Addr) bool {
		return slices.ContainsFunc(usable, func(r ipam.Run) bool { return r.Contains(a) })
	}
	var waits int64
	for w := range waiting {
		if w.network == network && len(w.claims) == 0 {
			waits++
		}
	}
	taken := map[netip.Addr]bool{}
	for _, h := range held {
		if (h.Network == network || h.Network == former || waits > 0) && in(h.Addr) && b.inBlock(network, h.Addr) {
			taken[h.Addr] = true
		}
	}
	return int64(len(taken)) + waits
}
