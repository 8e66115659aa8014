package membership

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/ipam/blocks"
	"github.com/culvert-net/culvert/vf"
)

// pace delays NodeStates that only say which pods have which VFs, so that the attaches of a
// busy node share one write. A NodeState with any other news is written at once.
type pace struct {
	// A change is written when nothing changed for quiet. When the last write is longer ago
	// than longest it is written when nothing changed for settle, or it has waited for quiet.
	settle, quiet, longest time.Duration

	written     time.Time                 // the last write
	waiting     *v1alpha1.NodeStateStatus // what is not written yet
	first, last time.Time                 // its first and its last change
}

func newPace() pace {
	return pace{settle: 2 * time.Second, quiet: 10 * time.Second, longest: time.Minute}
}

// isDue reports whether a NodeState whose owners changed is written now.
func (p *pace) isDue(now time.Time, state *v1alpha1.NodeStateStatus) bool {
	if p.waiting == nil {
		p.first = now
	}
	if p.waiting == nil || !reflect.DeepEqual(p.waiting, state) {
		p.waiting, p.last = state, now
	}
	unchanged, waits := now.Sub(p.last), now.Sub(p.first)
	return unchanged >= p.quiet || now.Sub(p.written) >= p.longest && (unchanged >= p.settle || waits >= p.quiet)
}

// changesOwnersOnly reports whether two NodeStates differ only in which owners have which
// VFs, and in the counts that follow from it. Where a PF waits for its VFs to be free they
// differ in more: the controller empties that node.
func changesOwnersOnly(a, b *v1alpha1.NodeStateStatus) bool {
	return !slices.ContainsFunc(b.PFs, func(pf v1alpha1.PFState) bool { return pf.WantedVFs != nil && *pf.WantedVFs != pf.NumVFs }) &&
		reflect.DeepEqual(withoutOwners(*a), withoutOwners(*b))
}

// withoutOwners returns a NodeState without what an attach and a detach change.
func withoutOwners(s v1alpha1.NodeStateStatus) v1alpha1.NodeStateStatus {
	s.VFs, s.Counts.Used, s.Counts.Free = nil, 0, 0
	s.Pools = slices.Clone(s.Pools)
	for i := range s.Pools {
		s.Pools[i].Free = 0
	}
	s.AddressRequests = slices.Clone(s.AddressRequests)
	for i := range s.AddressRequests {
		s.AddressRequests[i].Used = 0
	}
	return s
}

// needsBlocks reports whether half of the addresses of a network that were free at the last
// write are used: the controller grants more before the node's attaches have to wait.
func (m *Member) needsBlocks(written, now *v1alpha1.NodeStateStatus) bool {
	before := map[string]int64{}
	for _, r := range written.AddressRequests {
		before[cmp.Or(r.Pool, r.Network)] = r.Used
	}
	return slices.ContainsFunc(now.AddressRequests, func(r v1alpha1.AddressRequest) bool {
		pool := cmp.Or(r.Pool, r.Network)
		have := blocks.Total(m.book.Of(pool, vf.Owner{}).Runs)
		return r.Used > before[pool] && have-r.Used <= (have-before[pool])/2
	})
}
