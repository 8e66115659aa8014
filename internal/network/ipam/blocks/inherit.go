package blocks

import (
	"slices"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// Inherit adds the blocks of the pool that a network had in earlier versions, as far as p has no
// block there: their nodes hold addresses of them. A claim becomes a block of its node, which
// makes no claim in the new pool. No node can give these blocks back, since its grants are of the
// former pool. A former pool that several networks had goes to each of them
// (TestI4InheritedBlocks).
func Inherit(p, former Pool) Pool {
	p.Blocks = slices.Clone(p.Blocks)
	p.sort()
	for _, b := range former.Blocks {
		for _, run := range slices.Collect(p.free([]ipam.Run{b.Run})) {
			b.Run, b.Claim, b.Grant = run, "", ""
			p.Blocks = append(p.Blocks, b)
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
