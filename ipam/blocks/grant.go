package blocks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/ipam"
)

// Outcome is what Grant could not do.
type Outcome struct {
	// Starved are nodes for which there was nothing left.
	Starved []string
	// Disputed are claims on addresses of other nodes, in words.
	Disputed []string
}

// largest is the largest block that is granted at once, in addresses.
const largest = 256

// size is how many addresses are granted at once: a quarter of a node's share,
// a power of two, so that a few nodes of many cannot starve the others, and no
// more than largest.
func size(addresses int64, nodes int) int64 {
	share := addresses / int64(4*max(nodes, 1))
	n := int64(1)
	for n*2 <= share && n < largest {
		n *= 2
	}
	return n
}

// maxShare bounds how many addresses of a range set a node has in blocks, and how many
// of a network it claims: those of four PFs with 256 VFs. A request is another machine's
// word, and one node must not take a whole network (TestI4GrantProperties).
const maxShare = 4 * largest

// shareOf returns how many addresses of a set a node may have in blocks: maxShare, as
// far as that leaves each of the other nodes that ask for some a block.
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

// Grant gives nodes what they need, where the pool has it: claims first, then
// blocks until a node has what it uses and half a block to spare, or its share. It
// takes nothing from anybody. nodes is how many there are in the cluster.
func Grant(p Pool, demands []Demand, nodes int) (Pool, Outcome) {
	p.Blocks = slices.Clone(p.Blocks)
	p.sort()
	demands = slices.Clone(demands)
	slices.SortStableFunc(demands, func(a, b Demand) int { return cmp.Compare(a.Node, b.Node) })
	p.reserveLocal(demands)
	var out Outcome
	for _, held := range []bool{true, false} { // what a pod has comes before what one waits for
		for _, d := range demands {
			out.Disputed = append(out.Disputed, p.claims(d, held)...)
		}
	}
	asking := countAsking(demands)
	for _, d := range demands {
		addresses := Total(d.Ranges)
		block := size(addresses, nodes)
		if !p.fill(d, block, shareOf(addresses, block, asking)) && !slices.Contains(out.Starved, d.Node) {
			out.Starved = append(out.Starved, d.Node)
		}
	}
	p.Blocks = slices.DeleteFunc(p.Blocks, func(b Block) bool { return b.Claim == localID })
	p.join()
	return p, out
}

// localID marks the blocks of reserveLocal. No node uses it for a claim.
const localID = "scope node"

// mostLocal bounds how many addresses one node keeps from the others by its word: it is
// sixteen for each of 256 VFs.
const mostLocal = 4096

// reserveLocal keeps Grant from the addresses that nodes hold since the network was of
// scope node: several nodes may hold one (TestI4ScopeBecomesTheClusters).
func (p *Pool) reserveLocal(demands []Demand) {
	for _, d := range demands {
		left := int64(mostLocal)
		for _, run := range d.Local {
			if left -= Count(run); left < 0 {
				break
			}
			for _, part := range slices.Collect(p.free([]ipam.Run{run})) {
				p.Blocks = append(p.Blocks, Block{Run: part, Node: d.Node, UID: d.UID, Claim: localID})
			}
			p.sort()
		}
	}
}

// AnyAsks reports whether a node needs anything of the network.
func AnyAsks(demands []Demand) bool {
	return slices.ContainsFunc(demands, func(d Demand) bool { return d.asks() })
}

// claims grants the claims of a demand that an attachment holds, or the others, as far as
// the node's share goes, and says in words which it cannot.
func (p *Pool) claims(d Demand, held bool) (disputed []string) {
	left := maxShare
	for _, b := range p.Blocks {
		if d.owns(b) && b.Claim != "" && b.Claim != localID {
			left--
		}
	}
	refused := 0
	for _, c := range d.Claims {
		if c.Held != held {
			continue
		}
		before := len(p.Blocks)
		if _, taken := p.at(c.Addr); !taken && left <= 0 {
			refused++
			continue
		}
		if s := p.claim(d, c); s != "" {
			disputed = append(disputed, s)
		}
		left -= len(p.Blocks) - before
	}
	if refused > 0 {
		disputed = append(disputed, fmt.Sprintf("node %s claims more addresses than its share of %d: %d of them are refused", d.Node, maxShare, refused))
	}
	return disputed
}

// claim grants one address, and says in words why it cannot.
func (p *Pool) claim(d Demand, c Claim) string {
	b, taken := p.at(c.Addr)
	switch {
	case !c.Addr.IsValid() || c.ID == "":
	case !taken:
		p.Blocks = append(p.Blocks, Block{Run: ipam.Run{First: c.Addr, Last: c.Addr}, Node: d.Node, UID: d.UID, Claim: c.ID})
		p.sort()
	case !d.owns(b):
		return fmt.Sprintf("%s, which node %s claims, is in block %s of node %s", c.Addr, d.Node, b.Run, b.name(d.Node))
	}
	// Another claim of the node's own on it ends first, see Release.
	return ""
}

// fill grants blocks until the node has enough, or its share, and reports whether it has
// what it uses.
func (p *Pool) fill(d Demand, size, share int64) bool {
	if len(d.Ranges) == 0 {
		return true
	}
	have, used := p.have(d), max(d.Used, 0)
	for want := min(min(used, share)+(size+1)/2, share); have < want; {
		run, ok := p.firstFree(d.Ranges)
		if !ok {
			break
		}
		run = shorten(run, min(size, share-have))
		p.Blocks = append(p.Blocks, Block{Run: run, Node: d.Node, UID: d.UID})
		p.sort()
		have += Count(run)
	}
	return have >= used
}

func (p *Pool) firstFree(ranges []ipam.Run) (ipam.Run, bool) {
	for run := range p.free(ranges) {
		return run, true
	}
	return ipam.Run{}, false
}
