package blocks

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// Ledger has the part of the node's ledger that is about addresses.
type Ledger struct {
	Held   []Held
	Grants []Kept
	// Aside are addresses that the node does not hand out for a while, since other machines have
	// them. They count as used, so that the node requests others in their place.
	Aside []Held
	// Partial is set while entries of the ledger cannot be read: it may lack addresses that
	// attachments hold. The node gives nothing back then.
	Partial bool
	// Strangers is set while VFs may be in use that the ledger does not know. The ledger may then
	// have replaced a lost one. So the node keeps blocks of grants that the ledger lacks, and
	// does not use them.
	Strangers bool
}

// Kept is a grant of a pool in the node's ledger.
type Kept struct {
	Network string
	ipam.Grant
}

// Idle addresses go back after idleTime, and after starvedTime while a node of the cluster
// has none left.
const (
	idleTime    = 10 * time.Minute
	starvedTime = 30 * time.Second
)

// idle says since when a node has had more addresses of a range set than it needs, and how many
// it had to spare at least in that time.
type idle struct {
	since time.Time
	least int64
}

type idleKey struct {
	network string
	set     int
}

// noSet is the set of an idleKey for the addresses of a pool that are in no range set which the
// node requests.
const noSet = -1

// Keep returns the grants that the ledger should have from now on. They include an open grant for
// each network whose blocks the node requests, and no grant whose blocks the node has lost. Keep
// closes a grant when the node gives addresses of it up: addresses that attachments of another
// node claim, or that were idle for some time. The caller stores the grants in the transaction
// that l was read in, so that no attachment gets such an address (I4), and calls Requests only
// afterwards.
func (b *NodeBlocks) Keep(l Ledger, now time.Time) []Kept {
	b.mu.Lock()
	defer b.mu.Unlock()
	requested := b.requested(l.Held, b.waiting)
	networks := map[string]bool{}
	for network, all := range requested {
		networks[network] = networks[network] || slices.ContainsFunc(all, func(c ipam.Config) bool { return len(c.Sets) > 0 })
	}
	for _, g := range l.Grants {
		networks[g.Network] = networks[g.Network] || false
	}
	var out []Kept
	for _, network := range slices.Sorted(maps.Keys(networks)) {
		grants := b.prune(network, GrantsOf(l.Grants, network), networks[network])
		if !l.Partial {
			grants = b.giveUp(network, requested[network], grants, l, now)
		}
		if networks[network] && !slices.ContainsFunc(grants, isOpen) {
			grants = append(grants, ipam.Grant{ID: newID()})
		}
		slices.SortFunc(grants, func(a, b ipam.Grant) int { return cmp.Compare(a.ID, b.ID) })
		for _, g := range grants {
			out = append(out, Kept{network, g})
		}
	}
	maps.DeleteFunc(b.idle, func(k idleKey, _ idle) bool { _, known := networks[k.network]; return !known })
	return out
}

func isOpen(g ipam.Grant) bool { return len(g.Runs) == 0 }

// GrantsOf returns the grants of one network.
func GrantsOf(all []Kept, network string) (out []ipam.Grant) {
	for _, g := range all {
		if g.Network == network {
			out = append(out, g.Grant)
		}
	}
	return out
}

// openGrant returns the ID under which the node requests blocks of a network.
func openGrant(all []Kept, network string) string {
	for _, g := range GrantsOf(all, network) {
		if isOpen(g) {
			return g.ID
		}
	}
	return ""
}

// granted returns the runs that the node's blocks of a pool have under a grant.
func (b *NodeBlocks) granted(network, id string) (out []ipam.Run) {
	for _, block := range b.own[network] {
		if block.Grant == id && block.Claim == "" {
			out = append(out, block.Run)
		}
	}
	return out
}

// usable returns the addresses that the node may hand out of the blocks of a grant.
func usable(granted []ipam.Run, g ipam.Grant) []ipam.Run {
	if isOpen(g) {
		return granted
	}
	return common(granted, g.Runs)
}

// prune removes the grants of which the pool has no block any more. While the node does not know
// the pool, prune keeps the grants of requested networks.
func (b *NodeBlocks) prune(network string, grants []ipam.Grant, requested bool) (out []ipam.Grant) {
	_, known := b.pools[network]
	for _, g := range grants {
		has := usable(b.granted(network, g.ID), g)
		switch {
		case requested && (isOpen(g) || !known):
			out = append(out, g)
		case len(has) > 0:
			if !isOpen(g) {
				g.Runs = has
			}
			out = append(out, g)
		}
	}
	return out
}

// giveUp removes the addresses that the node gives up from its grants.
func (b *NodeBlocks) giveUp(network string, known []ipam.Config, grants []ipam.Grant, l Ledger, now time.Time) []ipam.Grant {
	held := heldRuns(network, len(known) > 0, l.Held)
	var unused []ipam.Run // addresses of the grants that no attachment holds
	for _, g := range grants {
		unused = append(unused, withoutAll(usable(b.granted(network, g.ID), g), held)...)
	}
	var up []ipam.Run
	for _, a := range b.pools[network].Wanted {
		up = append(up, common(unused, []ipam.Run{{First: a, Last: a}})...)
	}
	unused = withoutAll(unused, up)
	slices.SortStableFunc(unused, func(x, y ipam.Run) int { return cmp.Compare(Count(y), Count(x)) })
	outside := unused
	for i, set := range idleSets(known) {
		up = append(up, b.idleRuns(idleKey{network, i}, set, held, unused, grants, now)...)
		outside = withoutAll(outside, set)
	}
	if slices.ContainsFunc(known, func(c ipam.Config) bool { return c.Pool != "" }) { // forgetUnused drops configurations
		up = append(up, b.idleRuns(idleKey{network, noSet}, outside, held, unused, grants, now)...)
	}
	if len(up) == 0 {
		return grants
	}
	var out []ipam.Grant
	for _, g := range grants {
		has := usable(b.granted(network, g.ID), g)
		switch {
		case len(common(has, up)) == 0:
			out = append(out, g)
		default:
			if g.Runs = withoutAll(has, up); len(g.Runs) > 0 {
				out = append(out, g)
			}
		}
	}
	return out
}

// idleSets returns the range sets of a network's configurations, or one of all addresses for
// a network that the node does not request any more.
func idleSets(known []ipam.Config) (out [][]ipam.Run) {
	for _, c := range known {
		out = append(out, c.Usable()...)
	}
	if len(out) == 0 {
		return [][]ipam.Run{anything}
	}
	return out
}

// idleRuns returns those of the unused runs of a range set that the node has had to spare for
// long enough. The node keeps a block and a half to spare, or half a block while a node of the
// cluster has no address left.
func (b *NodeBlocks) idleRuns(key idleKey, set, held, unused []ipam.Run, grants []ipam.Grant, now time.Time) (up []ipam.Run) {
	view := b.pools[key.network]
	if view.ClusterNodes == 0 {
		return nil // the controller has not reported the number, or is an earlier version
	}
	after, keep := idleTime, int64(0)
	block := view.blockSize(Total(set), view.ClusterNodes)
	if key.set != noSet && !slices.Equal(set, anything) {
		keep = block + (block+1)/2
	}
	if view.Exhausted {
		after, keep = starvedTime, min(keep, (block+1)/2)
	}
	spare := Total(common(withoutAll(b.handsOut(key.network, grants), held), set)) - countWaits(b.waiting, key.network) - keep
	one, noted := b.idle[key]
	if spare <= 0 {
		delete(b.idle, key)
		return nil
	}
	if !noted || one.since.After(now) { // or the clock was set back
		one = idle{now, spare}
	}
	one.least = min(one.least, spare)
	b.idle[key] = one
	if now.Sub(one.since) < after {
		return nil
	}
	left := one.least
	for _, run := range common(unused, set) {
		if left <= 0 {
			break
		}
		run = shorten(run, left)
		left -= Count(run)
		up = append(up, run)
	}
	return up
}

// handsOut returns all addresses that the node may hand out of a network's blocks, without the
// claimed ones.
func (b *NodeBlocks) handsOut(network string, grants []ipam.Grant) (out []ipam.Run) {
	for _, block := range b.own[network] {
		if !block.GoneSince.IsZero() || block.Claim != "" {
			continue
		}
		if block.Grant == "" {
			out = append(out, block.Run)
			continue
		}
		for _, g := range grants {
			if g.ID == block.Grant {
				out = append(out, usable([]ipam.Run{block.Run}, g)...)
			}
		}
	}
	return out
}

// countWaits counts the attachments that wait for addresses of a network's blocks.
func countWaits(waiting map[*wait]bool, network string) (n int64) {
	for w := range waiting {
		if w.network == network && w.blocks {
			n++
		}
	}
	return n
}

// heldRuns returns the addresses of a network that the node holds. If the Book does not know the
// network, heldRuns returns the held addresses of all networks.
func heldRuns(network string, known bool, held []Held) []ipam.Run {
	var all []netip.Addr
	for _, h := range held {
		if !known || h.Network == network {
			all = append(all, h.Addr)
		}
	}
	return runsOf(all)
}

// WantsAny reports whether a pool wants an address of the node's blocks.
func (b *NodeBlocks) WantsAny() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pools {
		for _, a := range p.Wanted {
			if block, taken := p.at(a); taken && b.owns(block) {
				return true
			}
		}
	}
	return false
}
