package blocks

import (
	"cmp"
	"maps"
	"slices"
)

// maxBytes bounds the blocks of an AddressPool as JSON. etcd accepts requests of up to 1.5 MiB
// (--max-request-bytes) by default, and the rest of the object is much smaller than the
// difference.
const maxBytes = 1_300_000

// Bytes returns an upper bound, and a close one, of the length of blocks and reservations as JSON
// in an AddressPool.
func (p Pool) Bytes() (n int) {
	for _, r := range p.Reservations {
		n += len(`{"pod":"","address":"","keepSeconds":1234567890,"since":"2026-11-26T06:00:00Z"},`) + len(r.Pod) + longestText(r.Addr.Is4())
	}
	for _, b := range p.Blocks {
		n += b.bytes()
	}
	return n
}

// bytes returns the part of a block in Pool.Bytes.
func (b Block) bytes() int {
	n := len(`{"node":"","nodeUID":"","first":"","last":""},`) + len(b.Node) + len(b.UID) + longestText(b.First.Is4())*2
	if b.Grant != "" {
		n += len(`,"grant":""`) + len(b.Grant)
	}
	if b.Claim != "" {
		n += len(`,"claim":""`) + len(b.Claim)
	}
	if !b.GoneSince.IsZero() {
		n += len(`,"nodeGoneSince":"2026-11-26T06:00:00Z"`)
	}
	return n
}

// bytesByNode returns how many of the pool's bytes the blocks of each node are.
func (p Pool) bytesByNode() map[string]int {
	out := map[string]int{}
	for _, b := range p.Blocks {
		out[b.Node] += b.bytes()
	}
	return out
}

// longestText is how long an address of a family is at most, as text.
func longestText(is4 bool) int {
	if is4 {
		return len("255.255.255.255")
	}
	return len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
}

// Fit returns granted, the pool that Grant made from before, as far as etcd accepts its object. A
// node whose blocks are larger than the room that is left keeps the blocks that it had, so that
// no number of nodes leaves the others without room (TestI10NodesLeaveRoomForOthers). If the object
// is still too large, and larger than it was, nothing is granted: nodes keep their blocks, and
// released addresses go back if the result fits. Fit also returns the nodes that would have got
// something.
func Fit(before, granted Pool, demands []Demand) (fits Pool, refused []string) {
	limit := max(maxBytes, before.Bytes())
	left, sizes := limit-granted.Bytes(), granted.bytesByNode()
	if left >= 0 && (len(sizes) == 0 || slices.Max(slices.Collect(maps.Values(sizes))) <= left) {
		return granted, nil
	}
	kept := before
	kept.Blocks = slices.Clone(before.Blocks)
	kept.takeBack(demands)
	kept.sort()
	kept.join()
	greedy := findGreedy(kept.bytesByNode(), sizes, left)
	if len(greedy) == 0 && left >= 0 {
		return granted, nil
	}
	fits = granted.withBlocksOf(kept, greedy)
	if fits.Bytes() > limit {
		fits = kept
	}
	if fits.Bytes() > limit {
		fits = before
	}
	refused = greedy
	would, has := granted.byNode(), fits.byNode()
	for _, d := range demands {
		if would.of(d.Node).have(d) > has.of(d.Node).have(d) && !slices.Contains(refused, d.Node) {
			refused = append(refused, d.Node)
		}
	}
	slices.Sort(refused)
	return fits, refused
}

// findGreedy returns the nodes whose blocks would be larger than they were, and larger than the room
// that is left. Each of them adds what it got to that room for the next smaller one.
func findGreedy(had, sizes map[string]int, left int) (greedy []string) {
	bySize := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b)) })
	for _, node := range bySize {
		if sizes[node] <= left {
			break
		}
		if got := sizes[node] - had[node]; got > 0 {
			greedy = append(greedy, node)
			left += got
		}
	}
	return greedy
}

// withBlocksOf returns the pool in which some nodes have the blocks of another pool in place of theirs.
func (p Pool) withBlocksOf(other Pool, nodes []string) Pool {
	if len(nodes) == 0 {
		return p
	}
	named := map[string]bool{}
	for _, node := range nodes {
		named[node] = true
	}
	isOne := func(b Block) bool { return named[b.Node] }
	out := slices.DeleteFunc(slices.Clone(p.Blocks), isOne)
	for _, b := range other.Blocks {
		if isOne(b) {
			out = append(out, b)
		}
	}
	p.Blocks = out
	p.sort()
	return p
}
