package blocks

import (
	"net/netip"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// maxShare bounds how many addresses of a range set a node has in blocks, and how many of a
// network it claims: enough for four PFs with 256 VFs. The controller cannot verify a node's
// request, and one node must not take a whole network (TestI4GrantProperties).
const maxShare = 4 * largest

// shareOf returns how many addresses of a request's ranges a node may have in blocks: maxShare, or
// less if other nodes that ask would otherwise get no block.
func shareOf(addresses, size int64, asking int) int64 {
	others := int64(max(asking, 1) - 1)
	return min(maxShare, max(addresses/(others+1), addresses-others*size))
}

// countAsking counts the nodes that ask for addresses of a set.
func countAsking(demands []Demand) int {
	nodes := map[string]bool{}
	for _, d := range demands {
		if len(d.Ranges) > 0 {
			nodes[d.Node] = true
		}
	}
	return len(nodes)
}

// roomIn returns how many more addresses of some ranges a node may get that has the runs own: it may
// have limit addresses of the range set that the ranges are in. It may get none of ranges that are
// in no set. A node decides how many requests it divides its needs among, so a bound for each
// request would be none (TestI10SplitRequestsGetOneShare).
//
// If several sets have the ranges, the smallest counts: the author of a network with a wide range
// must not decide how many addresses of other networks a node may have.
func (p Pool) roomIn(ranges, own []ipam.Run, limit int64) (left int64) {
	var (
		some     [][]ipam.Run // sets that have some of the ranges
		smallest []ipam.Run   // of those that have all of them
	)
	for _, set := range p.sets() {
		if len(common(ranges, set)) == 0 {
			continue
		}
		some = append(some, set)
		if len(withoutAll(ranges, set)) == 0 && (smallest == nil || isSmaller(set, smallest)) {
			smallest = set
		}
	}
	if smallest != nil {
		some = [][]ipam.Run{smallest}
	}
	for i, set := range some {
		if here := max(limit-Total(common(own, set)), 0); i == 0 || here < left {
			left = here
		}
	}
	return left
}

// isSmaller reports whether a set has fewer addresses than another one, or as many as Total counts
// and all of them are in the other one.
func isSmaller(set, other []ipam.Run) bool {
	a, b := Total(set), Total(other)
	return a < b || a == b && len(withoutAll(set, other)) == 0
}

// sets returns Sets, or one set for each family if no object of the cluster defines the pool.
func (p Pool) sets() [][]ipam.Run {
	if p.Sets == nil {
		return [][]ipam.Run{anything[:1], anything[1:]}
	}
	return p.Sets
}

// anything has all addresses of both families.
var anything = []ipam.Run{
	{First: netip.IPv4Unspecified(), Last: netip.AddrFrom4([4]byte{255, 255, 255, 255})},
	{First: netip.IPv6Unspecified(), Last: netip.AddrFrom16([16]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255})},
}
