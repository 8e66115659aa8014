package blocks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// Outcome has the requests that Grant could not fulfil.
type Outcome struct {
	// Starved has the nodes for which no address was left.
	Starved []string
	// Disputed describes the claims on addresses of other nodes.
	Disputed []string
}

// largest is the largest block that is granted at once, in addresses.
const largest = 256

// blockSize returns how many addresses of a range set are granted at once: the BlockSize that the
// pool declares, or size.
func (p Pool) blockSize(addresses int64, nodes int) int64 {
	if p.Declared != nil && p.Declared.BlockSize > 0 {
		return p.Declared.BlockSize
	}
	return size(addresses, nodes)
}

// size returns a power of two of at most a quarter of a node's share and at most largest, so that
// a few nodes of many cannot starve the others.
func size(addresses int64, nodes int) int64 {
	share := addresses / int64(4*max(nodes, 1))
	n := int64(1)
	for n*2 <= share && n < largest {
		n *= 2
	}
	return n
}

// Grant takes back the addresses that nodes released, and grants those that nodes need, as far as
// the pool has them. It grants claims first, then blocks, until a node has the addresses that it
// uses and half a block to spare, or its share. nodes is the number of nodes in the cluster.
func Grant(p Pool, demands []Demand, nodes int) (Pool, Outcome) {
	p.Blocks = slices.Clone(p.Blocks)
	p.sort()
	p.takeBack(demands)
	demands = slices.Clone(demands)
	slices.SortStableFunc(demands, func(a, b Demand) int { return cmp.Compare(a.Node, b.Node) })
	p.reserveLocal(demands)
	var out Outcome
	for _, held := range []bool{true, false} { // claims that pods hold come before those that pods wait for
		if !held {
			p.reserveForeign()
			p.reserveKept()
		}
		for _, d := range demands {
			out.Disputed = append(out.Disputed, p.claims(d, held)...)
		}
	}
	asking, own := countAsking(demands), p.byNode()
	for _, d := range demands {
		addresses := Total(d.Ranges)
		block := p.blockSize(addresses, nodes)
		if !p.fill(d, own.of(d.Node), block, shareOf(addresses, block, asking)) && !slices.Contains(out.Starved, d.Node) {
			out.Starved = append(out.Starved, d.Node)
		}
	}
	p.Blocks = slices.DeleteFunc(p.Blocks, func(b Block) bool { return b.Claim == localID || b.Claim == foreignID || b.Claim == keptID })
	p.join()
	p.Wanted = p.wanted(demands)
	return p, out
}

// localID marks the blocks of reserveLocal, and foreignID those of reserveForeign. No node uses
// these IDs for a claim.
const (
	localID   = "scope node"
	foreignID = "another stack"
)

// reserveForeign keeps Grant from the addresses that pods have from another stack. It comes after
// the claims of attachments: an address that Culvert gave out is not foreign, even if the pool
// has lost its block.
func (p *Pool) reserveForeign() {
	for _, a := range p.Foreign {
		if _, taken := p.at(a); !taken {
			p.insert(Block{Run: ipam.Run{First: a, Last: a}, Claim: foreignID})
		}
	}
}

// mostLocal bounds how many addresses one node can keep from the others by reporting them:
// sixteen for each of 256 VFs.
const mostLocal = 4096

// reserveLocal keeps Grant from the addresses that nodes have held since the network was of scope
// node. Several nodes may hold the same one (TestI4ScopeBecomesTheClusters).
func (p *Pool) reserveLocal(demands []Demand) {
	counts := map[string]int64{}
	for _, d := range demands {
		for _, run := range d.Local {
			n := Count(run)
			if n > mostLocal-counts[d.Node] {
				break
			}
			counts[d.Node] += n
			for _, part := range slices.Collect(p.free([]ipam.Run{run})) {
				p.insert(Block{Run: part, Node: d.Node, UID: d.UID, Claim: localID})
			}
		}
	}
}

// AnyAsks reports whether a node needs anything of the network.
func AnyAsks(demands []Demand) bool {
	return slices.ContainsFunc(demands, func(d Demand) bool { return d.asks() })
}

// claims grants claims of a demand, as far as the node's share allows, and describes those that
// it cannot grant. If held is set, it grants the claims that attachments hold, else the others.
func (p *Pool) claims(d Demand, held bool) (disputed []string) {
	if !slices.ContainsFunc(d.Claims, func(c Claim) bool { return c.Held == held }) {
		return nil
	}
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

// claim grants one address, or describes why it cannot.
func (p *Pool) claim(d Demand, c Claim) string {
	b, taken := p.at(c.Addr)
	switch {
	case !c.Addr.IsValid() || c.ID == "":
	case !taken:
		p.insert(Block{Run: ipam.Run{First: c.Addr, Last: c.Addr}, Node: d.Node, UID: d.UID, Claim: c.ID})
	case b.Claim == keptID && p.admits(c):
		p.Blocks[p.from(c.Addr)] = Block{Run: b.Run, Node: d.Node, UID: d.UID, Claim: c.ID}
	case !p.admits(c):
		r, _ := p.reservation(c.Addr)
		return fmt.Sprintf("%s, which node %s claims, is kept for pod %s", c.Addr, d.Node, r.Pod)
	case b.Claim == foreignID:
		return fmt.Sprintf("%s, which node %s claims, is the address of a pod that another stack attached", c.Addr, d.Node)
	case !d.owns(b) && b.canBeWanted() && !c.Held: // the pool asks the block's node for the address
	case !d.owns(b) && p.sharePod(b, c) && !c.Held: // the block's node had it for an earlier pod of the name
	case !d.owns(b):
		return fmt.Sprintf("%s, which node %s claims, is in block %s of %s", c.Addr, d.Node, b.Run, b.holder(d.Node))
	}
	// Another claim of the same node on the address must end first, see Release.
	return ""
}

// nodeBlocks has the blocks of each node as a pool of their own. A search of all blocks for each
// node would take seconds in a cluster of thousands.
type nodeBlocks map[string]*Pool

func (p Pool) byNode() nodeBlocks {
	out := nodeBlocks{}
	for _, b := range p.Blocks {
		one := out.of(b.Node)
		one.Blocks = append(one.Blocks, b)
	}
	return out
}

func (all nodeBlocks) of(node string) *Pool {
	if all[node] == nil {
		all[node] = &Pool{}
	}
	return all[node]
}

// fill grants blocks and adds them to own, the node's blocks, until the node has enough, or its
// share. It reports whether the node has as many addresses as it uses.
func (p *Pool) fill(d Demand, own *Pool, size, share int64) bool {
	if len(d.Ranges) == 0 {
		return true
	}
	have, used := own.have(d), max(d.Used, 0)
	want := min(min(used, share)+(size+1)/2, share)
	if have < want {
		share = min(share, have+p.roomIn(d.Ranges, own.blocksOf(d), maxShare))
	}
	for have < min(want, share) {
		run, ok := p.firstFree(d.Ranges)
		if !ok {
			break
		}
		run = shorten(run, min(size, share-have))
		block := Block{Run: run, Node: d.Node, UID: d.UID, Grant: d.Grant}
		p.insert(block)
		own.insert(block)
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
