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

// Grant gives nodes what they need, where the pool has it: claims first, then
// blocks until a node has what it uses and half a block to spare. It takes
// nothing from anybody. nodes is how many there are in the cluster.
func Grant(p Pool, demands []Demand, nodes int) (Pool, Outcome) {
	p.Blocks = slices.Clone(p.Blocks)
	p.sort()
	demands = slices.Clone(demands)
	slices.SortStableFunc(demands, func(a, b Demand) int { return cmp.Compare(a.Node, b.Node) })
	var out Outcome
	for _, d := range demands {
		for _, c := range d.Claims {
			if s := p.claim(d.Node, c); s != "" {
				out.Disputed = append(out.Disputed, s)
			}
		}
	}
	for _, d := range demands {
		if !p.fill(d, size(total(d.Ranges), nodes)) && !slices.Contains(out.Starved, d.Node) {
			out.Starved = append(out.Starved, d.Node)
		}
	}
	p.join()
	return p, out
}

// claim grants one address, and says in words why it cannot.
func (p *Pool) claim(node string, c Claim) string {
	b, taken := p.at(c.Addr)
	switch {
	case !c.Addr.IsValid() || c.ID == "":
	case !taken:
		p.Blocks = append(p.Blocks, Block{Run: ipam.Run{First: c.Addr, Last: c.Addr}, Node: node, Claim: c.ID})
		p.sort()
	case b.Node != node:
		return fmt.Sprintf("%s, which node %s claims, is in block %s of node %s", c.Addr, node, b.Run, b.Node)
	}
	// Another claim of the node's own on it ends first, see Release.
	return ""
}

// grants bounds what one node is given at once: a request is somebody else's
// word.
const grants = 64

// fill grants blocks until the node has enough, and reports whether it has.
func (p *Pool) fill(d Demand, size int64) bool {
	if len(d.Ranges) == 0 {
		return true
	}
	spare := (size + 1) / 2
	missing := min(max(d.Used, 0), most/2) + spare - p.have(d.Node, d.Ranges)
	for range grants {
		if missing <= 0 {
			return true
		}
		run, ok := p.firstFree(d.Ranges)
		if !ok {
			return missing <= spare // only what it would have had to spare is missing
		}
		run = shorten(run, size)
		p.Blocks = append(p.Blocks, Block{Run: run, Node: d.Node})
		p.sort()
		missing -= Count(run)
	}
	return true
}

func (p *Pool) firstFree(ranges []ipam.Run) (ipam.Run, bool) {
	for run := range p.free(ranges) {
		return run, true
	}
	return ipam.Run{}, false
}
