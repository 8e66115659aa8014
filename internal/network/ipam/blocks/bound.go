package blocks

import (
	"cmp"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// mostRuns bounds the runs of all requests of a node together, so that the authors of networks
// cannot make its NodeState larger than etcd takes: 1.5 MiB (I7). A run has at most 101 bytes in
// the NodeState, so 8,192 have 0.83 MB. The rest is for the VFs and their addresses, of which the
// authors of networks do not decide.
const mostRuns = 8192

// requestRuns is how many runs the other fields of a request count as: its names and its grant.
const requestRuns = 4

// rangeSet is a range set of a network's configurations.
type rangeSet struct {
	network string
	runs    []ipam.Run
	waits   []*wait // that need an address of it
}

// chooseSets returns, by their networks, the range sets that the node requests, up to mostRuns
// runs. It takes sets that attachments wait for first, and small ones before large ones. So a
// network with a long list of excluded addresses displaces no ordinary one. The attachments that
// wait for the others get an error (Why), and Omitted lists the networks. No claim and no released
// address is ever left out (TestI4BoundedRequestsHaveAllClaims). The node requests no blocks before
// the ledger has an open grant, as for a network that an attachment has just needed for the first
// time.
func (b *NodeBlocks) chooseSets(all configs, grants []Kept, waiting map[*wait]bool) map[string][][]ipam.Run {
	sets := b.listSets(all, grants, waiting)
	order := make([]int, len(sets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		x, y := sets[i], sets[j]
		awaited := cmp.Compare(min(len(y.waits), 1), min(len(x.waits), 1))
		return cmp.Or(awaited, cmp.Compare(len(x.runs), len(y.runs)))
	})
	b.omitted = nil
	chosen, left := make([]bool, len(sets)), mostRuns
	for _, i := range order {
		if cost := len(sets[i].runs) + requestRuns; cost <= left {
			chosen[i], left = true, left-cost
			continue
		}
		b.omitted = append(b.omitted, sets[i].network)
		for _, w := range sets[i].waits {
			w.omitted = true
		}
	}
	slices.Sort(b.omitted)
	b.omitted = slices.Compact(b.omitted)
	out := map[string][][]ipam.Run{}
	for i, set := range sets {
		if chosen[i] {
			out[set.network] = append(out[set.network], set.runs)
		}
	}
	return out
}

// listSets returns the range sets of the networks that have an open grant, sorted by network. It
// resets what chooseSets notes in the attachments that wait.
func (b *NodeBlocks) listSets(all configs, grants []Kept, waiting map[*wait]bool) (out []rangeSet) {
	waits, both := map[string][]*wait{}, map[*wait]bool{}
	maps.Copy(both, waiting)
	maps.Copy(both, b.waiting)
	for w := range both {
		w.omitted = false
		if w.blocks {
			waits[w.network] = append(waits[w.network], w)
		}
	}
	for _, network := range slices.Sorted(maps.Keys(all)) {
		if openGrant(grants, network) == "" {
			continue
		}
		for _, c := range all[network] {
			for _, runs := range c.Usable() {
				set := rangeSet{network: network, runs: runs}
				for _, w := range waits[network] {
					if slices.ContainsFunc(w.usable, func(o []ipam.Run) bool {
						return slices.Equal(o, runs)
					}) {
						set.waits = append(set.waits, w)
					}
				}
				out = append(out, set)
			}
		}
	}
	return out
}

// isOmitted reports whether the last requests lack ranges that an owner's attachment waits for.
func (b *NodeBlocks) isOmitted(network string, owner vf.Owner) bool {
	for w := range b.waiting {
		if w.omitted && w.network == network && w.owner == owner {
			return true
		}
	}
	return false
}

// Omitted describes the networks of which the last Requests lack ranges. It is empty if there are
// none.
func (b *NodeBlocks) Omitted() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return listRuns(b.omitted)
}
