package blocks

import (
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// mostForeign is how many blocks of other nodes a node keeps one by one of a pool. Tenants' networks
// make pools, each node may have a block of each, and every node reads all pools.
const mostForeign = 32

// otherNode stands for the nodes of blocks that Thin merged.
const otherNode = "another node"

// Thin merges the blocks of other nodes in an AddressPool that has more than mostForeign of them. A
// node needs to know which addresses others have, and whether they may give them up. It leaves out
// the nodes' names. An AddressPool that cannot be read stays as it is, since its error names blocks.
func Thin(o *v1alpha1.AddressPool, node string) {
	foreign := 0
	for _, b := range o.Spec.Blocks {
		if b.Node != node {
			foreign++
		}
	}
	if foreign <= mostForeign {
		return
	}
	p, err := FromObject(o)
	if err != nil {
		return
	}
	var out []Block
	for _, b := range p.Blocks {
		if b.Node != node {
			b = b.anonymous()
		}
		if n := len(out); n > 0 && b.Node == otherNode && out[n-1].continuedBy(b) {
			out[n-1].Last = b.Last
			continue
		}
		out = append(out, b)
	}
	p.Blocks = out
	o.Spec.Blocks = p.Object()
}

// anonymous returns the block of another node without its node and IDs. A claim for a pod that the
// address is kept for stays, since the message to that pod differs.
func (b Block) anonymous() Block {
	const some = "-"
	out := Block{Run: b.Run, Node: otherNode}
	switch {
	case strings.HasPrefix(b.Claim, forPod):
		out.Claim = b.Claim
	case b.Claim != "":
		out.Claim = some
	case b.canBeWanted():
		out.Grant = some
	}
	return out
}

// continuedBy reports whether another block begins behind b and is of the same kind.
func (b Block) continuedBy(next Block) bool {
	return b.Last.Next() == next.First && b.Node == next.Node && b.Claim == next.Claim && b.Grant == next.Grant
}
