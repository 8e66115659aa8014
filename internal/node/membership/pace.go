package membership

import (
	"reflect"
	"slices"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// pace delays NodeStates that only say which pods have which VFs, so that the attaches of a node
// share a write. No program waits for these: the pods' own annotations have the addresses for
// Services (netannotation.Confirmed). A NodeState with any other change is written at once. The
// takeover of a VF is such a change, since culvert migrate check waits for it.
type pace struct {
	// A change is written when nothing has changed for the time quiet, or when it has waited for
	// longest. If the last write is longer ago than longest, it is written when nothing has
	// changed for settle. A VF without a Confirmation is written when the last write is longer
	// ago than settle.
	settle, quiet, longest time.Duration

	written     time.Time                 // the last write
	waiting     *v1alpha1.NodeStateStatus // the state that is not written yet
	first, last time.Time                 // its first and its last change
	unconfirmed bool                      // a VF in it has no Confirmation
}

func newPace() pace {
	return pace{settle: 10 * time.Second, quiet: time.Minute, longest: 5 * time.Minute}
}

// isDue reports whether a NodeState whose owners changed is written now.
func (p *pace) isDue(now time.Time, state *v1alpha1.NodeStateStatus, unconfirmed bool) bool {
	if p.waiting == nil {
		p.first = now
	}
	p.unconfirmed = unconfirmed
	if p.waiting == nil || !reflect.DeepEqual(p.waiting, state) {
		p.waiting, p.last = state, now
	}
	return !now.Before(p.nextWrite())
}

// nextWrite returns when the waiting state is written if nothing changes until then.
func (p *pace) nextWrite() time.Time {
	if p.unconfirmed {
		return p.written.Add(p.settle)
	}
	due := p.last.Add(p.settle)
	if after := p.written.Add(p.longest); due.Before(after) {
		due = after
	}
	for _, other := range []time.Time{p.last.Add(p.quiet), p.first.Add(p.longest)} {
		if other.Before(due) {
			due = other
		}
	}
	return due
}

// changesOwnersOnly reports whether two NodeStates differ only in the owners of VFs, and in the
// counts that follow from them. It returns false if a PF waits until its VFs are free, since the
// controller then drains that node.
func changesOwnersOnly(a, b *v1alpha1.NodeStateStatus) bool {
	return !slices.ContainsFunc(b.PFs, func(pf v1alpha1.PFState) bool { return pf.WantedVFs != nil && *pf.WantedVFs != pf.NumVFs }) &&
		reflect.DeepEqual(withoutOwners(*a), withoutOwners(*b))
}

// unserved lists the phases of VFs that are not given out. No attach and no detach passes through them.
var unserved = []string{string(vf.PhaseMaking), api.PhaseUnmanaged, api.PhaseMissing}

// withoutOwners returns a NodeState without the parts that attaches, detaches and tenants' Services
// change. A VF without carrier stays.
func withoutOwners(s v1alpha1.NodeStateStatus) v1alpha1.NodeStateStatus {
	s.VFs = slices.DeleteFunc(slices.Clone(s.VFs), func(v v1alpha1.VFState) bool { return !v.NoCarrier && !slices.Contains(unserved, v.Phase) })
	s.NetworkWarnings, s.ServicesWithoutRoom, s.Counts.Used, s.Counts.Free = nil, nil, 0, 0
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

// hasUnconfirmed reports whether a NodeState has new VFs of pods that no Confirmation names. Another
// meta plugin called Culvert for those pods, and writes their network-status itself.
func (m *Member) hasUnconfirmed(state *v1alpha1.NodeStateStatus) bool {
	type attachment struct{ sandbox, network, at string }
	of := func(v v1alpha1.VFState) (attachment, bool) {
		if v.Phase != string(vf.PhaseAttached) || v.Owner == nil || v.Owner.Kind != vf.OwnerPod {
			return attachment{}, false
		}
		return attachment{v.Owner.UID, v.Network, v.Owner.Interface}, true
	}
	known := map[attachment]bool{}
	for _, v := range m.written.VFs {
		if a, is := of(v); is {
			known[a] = true
		}
	}
	unconfirmed := false
	err := m.Node.Ledger.View(func(tx *journal.Tx) error {
		for _, v := range state.VFs {
			if a, is := of(v); is && !known[a] {
				sb, err := tx.Sandbox(a.sandbox)
				unconfirmed = unconfirmed || err != nil || sb.Pod == ""
			}
		}
		return nil
	})
	return unconfirmed || err != nil
}

// needsBlocks reports whether half of the addresses of a network that were free at the last
// write are used: the controller grants more before the node's attaches have to wait.
func (m *Member) needsBlocks(written, now *v1alpha1.NodeStateStatus) bool {
	before := map[string]int64{}
	for _, r := range written.AddressRequests {
		before[r.Pool] = r.Used
	}
	return slices.ContainsFunc(now.AddressRequests, func(r v1alpha1.AddressRequest) bool {
		pool := r.Pool
		have := blocks.Total(m.book.Of(pool, vf.Owner{}, blocks.GrantsOf(m.grants, pool)).Runs)
		return r.Used > before[pool] && have-r.Used <= (have-before[pool])/2
	})
}
