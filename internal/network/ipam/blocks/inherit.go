package blocks

import (
	"slices"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// mostInherited bounds how many addresses of a range set one node has in the blocks of a pool after
// Inherit: its share and as many claims, and the same of an earlier machine of its name.
const mostInherited = 4 * maxShare

// Inherit adds the blocks of the pool that a network had in earlier versions, as far as p has no
// block there: their nodes hold addresses of them. A claim becomes a block of its node, which
// makes no claim in the new pool. No node can give these blocks back, since its grants are of the
// former pool. A former pool that several networks had goes to each of them
// (TestI4InheritedBlocks).
//
// No object of the cluster defines the former pool, so a node may have got any addresses of it.
// Inherit adds mostInherited of a node, and only blocks in the range sets of p
// (TestI10InheritedAddressesAreBounded).
func Inherit(p, former Pool) Pool {
	p.Blocks = slices.Clone(p.Blocks)
	p.sort()
	own := map[string][]ipam.Run{}
	for _, b := range p.Blocks {
		own[b.Node] = append(own[b.Node], b.Run)
	}
	for _, b := range former.Blocks {
		for _, run := range slices.Collect(p.free([]ipam.Run{b.Run})) {
			left := p.roomIn([]ipam.Run{run}, own[b.Node], mostInherited)
			if left == 0 {
				continue
			}
			b.Run, b.Claim, b.Grant = shorten(run, left), "", ""
			p.Blocks, own[b.Node] = append(p.Blocks, b), append(own[b.Node], b.Run)
		}
		p.sort()
	}
	p.join()
	return p
}

// FormerPools returns the names of the pools that a network had, by what nodes say.
func FormerPools(demands []Demand) []string {
	var out []string
	for _, d := range demands {
		if d.FormerPool != "" && !slices.Contains(out, d.FormerPool) {
			out = append(out, d.FormerPool)
		}
	}
	slices.Sort(out)
	return out
}
