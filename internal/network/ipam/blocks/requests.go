package blocks

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// Requests returns the node's requests, with the addresses that it released. read reads the
// ledger after Keep. Requests calls it after it has read the waiting attachments: a claim moves
// from the waiting attachments to the ledger, and must not be missed in between
// (TestClaimIsNeverMissed).
func (b *NodeBlocks) Requests(read func() (Ledger, error)) ([]Request, error) {
	b.mu.Lock()
	waiting := maps.Clone(b.waiting)
	b.mu.Unlock()
	l, err := read()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetUnused(l.Held, waiting)
	return b.requests(l, waiting), nil
}

// requested returns the configurations of the networks whose addresses the node needs, and an
// empty configuration for each other network of which the ledger has addresses.
func (b *NodeBlocks) requested(held []Held, waiting map[*wait]bool) configs {
	all := configs{}
	for network, known := range b.known {
		all[network] = slices.Clone(known)
	}
	for network, c := range b.networks {
		all[network] = []ipam.Config{c}
	}
	for w := range waiting {
		all.replace(w.network, w.config)
	}
	for _, h := range held {
		if _, known := all[h.Network]; !known {
			all[h.Network] = []ipam.Config{{}}
		}
	}
	return all
}

func (b *NodeBlocks) requests(l Ledger, waiting map[*wait]bool) []Request {
	all := b.requested(l.Held, waiting)
	for network := range b.pools { // the node may have blocks of them
		if _, known := all[network]; !known {
			all[network] = []ipam.Config{{}}
		}
	}
	sets := b.chooseSets(all, l.Grants, waiting)
	var out []Request
	for _, network := range slices.Sorted(maps.Keys(all)) {
		out = append(out, b.requestsOf(network, all[network], sets[network], l, waiting)...)
	}
	return out
}

// requestsOf returns the requests for one network. sets has the range sets that chooseSets chose
// of the network's configurations all.
func (b *NodeBlocks) requestsOf(network string, all []ipam.Config, sets [][]ipam.Run, l Ledger, waiting map[*wait]bool) (out []Request) {
	grant := openGrant(l.Grants, network)
	for _, usable := range sets {
		used := b.used(network, usable, slices.Concat(l.Held, l.Aside), waiting)
		out = append(out, Request{Network: network, Ranges: usable, Grant: grant, Used: used})
	}
	rest := Request{
		Network: network, Claims: b.claims(network, l.Held, waiting),
		Local: localRuns(l.Held, network), Released: b.released(network, all, l), Reservations: reservations(network, l.Held),
	}
	if len(rest.Claims)+len(rest.Local)+len(rest.Released)+len(rest.Reservations) == 0 {
		return out
	}
	if len(out) == 0 {
		return []Request{rest}
	}
	out[0].Claims, out[0].Local, out[0].Released, out[0].Reservations = rest.Claims, rest.Local, rest.Released, rest.Reservations
	return out
}

// claims returns the single addresses that the node claims of a network: held addresses that were
// claimed, addresses that an attach waits for, and held addresses in no block of the node, which
// are older than the cluster's pool.
func (b *NodeBlocks) claims(network string, held []Held, waiting map[*wait]bool) []Claim {
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
func localRuns(held []Held, network string) []ipam.Run {
	var all []netip.Addr
	for _, h := range held {
		if h.Local && h.Network == network {
			all = append(all, h.Addr)
		}
	}
	return runsOf(all)
}

// runsOf returns the runs of addresses.
func runsOf(all []netip.Addr) []ipam.Run {
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

// inBlock reports whether a block of the node has address a, even if a controller is about to
// take the block back.
func (b *NodeBlocks) inBlock(network string, a netip.Addr) bool {
	block, taken := b.pools[network].at(a)
	return taken && b.owns(block) && block.Claim == ""
}

// used counts the addresses of a set that the node holds in its blocks, and the attachments that
// wait for one. While an attachment waits, addresses that other networks hold also count, since these
// networks may be on the same segment.
func (b *NodeBlocks) used(network string, usable []ipam.Run, held []Held, waiting map[*wait]bool) int64 {
	in := func(a netip.Addr) bool {
		return slices.ContainsFunc(usable, func(r ipam.Run) bool { return r.Contains(a) })
	}
	waits := countWaits(waiting, network)
	taken := map[netip.Addr]bool{}
	for _, h := range held {
		if (h.Network == network || waits > 0) && in(h.Addr) && b.inBlock(network, h.Addr) {
			taken[h.Addr] = true
		}
	}
	return int64(len(taken)) + waits
}

// released returns the addresses of its blocks that the node no longer hands out: the addresses
// that it gave up, and whole blocks of grants that its ledger lacks. It leaves out addresses that
// the node holds.
func (b *NodeBlocks) released(network string, known []ipam.Config, l Ledger) (out []Released) {
	if l.Partial {
		return nil
	}
	grants, held := GrantsOf(l.Grants, network), heldRuns(network, len(known) > 0, l.Held)
	for _, block := range b.own[network] {
		if block.Claim != "" || block.Grant == "" {
			continue
		}
		i := slices.IndexFunc(grants, func(g ipam.Grant) bool { return g.ID == block.Grant })
		rest := []ipam.Run{block.Run}
		switch {
		case i < 0 && l.Strangers:
			continue
		case i >= 0:
			rest = withoutAll(rest, usable(rest, grants[i]))
		}
		for _, r := range withoutAll(rest, held) {
			out = append(out, Released{block.Grant, r})
		}
	}
	return out
}
