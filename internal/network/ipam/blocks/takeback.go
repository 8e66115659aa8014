package blocks

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// takeBack removes released addresses from the blocks of their nodes. It does not need to read
// the nodes again: a node never hands out an address again under the grant under which it
// released it (TestI4AcrossNodes).
func (p *Pool) takeBack(demands []Demand) {
	for _, d := range demands {
		for _, r := range d.Released {
			p.cut(d, r)
		}
	}
}

// cut removes one run from the blocks of a node that have its grant.
func (p *Pool) cut(d Demand, r Released) {
	if r.Grant == "" || !p.hasRun(d, r) {
		return
	}
	var out []Block
	for _, b := range p.Blocks {
		if b.Grant != r.Grant || b.Claim != "" || !d.owns(b) {
			out = append(out, b)
			continue
		}
		for _, rest := range without([]ipam.Run{b.Run}, r.Run) {
			b.Run = rest
			out = append(out, b)
		}
	}
	p.Blocks = out
}

// hasRun reports whether a block of a node still has addresses that the node released. Nodes list
// released addresses until they see the pool without them.
func (p *Pool) hasRun(d Demand, r Released) bool {
	for _, b := range p.Blocks[p.from(r.Run.First):] {
		if _, some := overlap(b.Run, r.Run); !some {
			return false
		}
		if b.Grant == r.Grant && b.Claim == "" && d.owns(b) {
			return true
		}
	}
	return false
}

// canBeWanted reports whether the block's node can give up an address of it.
func (b Block) canBeWanted() bool { return b.Grant != "" && b.Claim == "" && b.GoneSince.IsZero() }

// mostWanted bounds how many addresses a pool wants at a time.
const mostWanted = 256

// wanted lists the claimed addresses that are in blocks of other nodes. These nodes give up the
// addresses that they do not hold. The claims of each node are listed in turn, so that one with many
// displaces no other (TestI7WantedIsShared).
func (p *Pool) wanted(demands []Demand) []netip.Addr {
	claimed := map[string][]netip.Addr{} // by node
	for _, d := range demands {
		for _, c := range d.Claims {
			if b, taken := p.at(c.Addr); taken && !d.owns(b) && b.canBeWanted() && p.admits(c) {
				claimed[d.Node] = append(claimed[d.Node], c.Addr)
			}
		}
	}
	longest := 0
	for node, all := range claimed {
		slices.SortFunc(all, netip.Addr.Compare)
		claimed[node] = slices.Compact(all)
		longest = max(longest, len(claimed[node]))
	}
	nodes, listed := slices.Sorted(maps.Keys(claimed)), map[netip.Addr]bool{}
	for i := range longest {
		for _, node := range nodes {
			if all := claimed[node]; i < len(all) && len(listed) < mostWanted {
				listed[all[i]] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(listed), netip.Addr.Compare)
}

// without returns the runs without the addresses of r, in the same order.
func without(runs []ipam.Run, r ipam.Run) []ipam.Run {
	var out []ipam.Run
	for _, run := range runs {
		c, some := overlap(run, r)
		if !some {
			out = append(out, run)
			continue
		}
		if run.First.Less(c.First) {
			out = append(out, ipam.Run{First: run.First, Last: c.First.Prev()})
		}
		if c.Last.Less(run.Last) {
			out = append(out, ipam.Run{First: c.Last.Next(), Last: run.Last})
		}
	}
	return out
}

// withoutAll returns the runs less those of others.
func withoutAll(runs, others []ipam.Run) []ipam.Run {
	for _, o := range others {
		runs = without(runs, o)
	}
	return runs
}

// common returns the addresses that are both in runs and in others.
func common(runs, others []ipam.Run) []ipam.Run {
	var out []ipam.Run
	for _, r := range runs {
		for _, o := range others {
			if c, some := overlap(r, o); some {
				out = append(out, c)
			}
		}
	}
	return out
}
