package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	conditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/api/nodestate"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// Bounds on a NodeState, which etcd refuses from 1.5 MiB on: a node may have 256 VFs.
const (
	// MaxProblems is how many problems it lists.
	MaxProblems = 32
	// maxWarnings is how many warnings of networks it lists.
	maxWarnings = 16
)

// ToNodeState converts a node's status to the status of its NodeState. The result has
// no times, so that it changes only when the node does; the API server adds those of
// conditions.
func ToNodeState(n api.NodeStatus) v1alpha1.NodeStateStatus {
	s := v1alpha1.NodeStateStatus{Version: n.Version}
	for _, pf := range n.PFs {
		s.PFs = append(s.PFs, nodestate.FromPF(pf))
		s.Counts.PFs++
		s.Counts.VFs += int32(pf.VFs.Total)
		s.Counts.Used += int32(pf.VFs.Used)
		s.Counts.Free += int32(pf.VFs.Free)
		s.Counts.Quarantined += int32(pf.VFs.Quarantined)
	}
	for _, v := range n.VFs {
		s.VFs = append(s.VFs, nodestate.FromVF(v))
	}
	for _, p := range n.Pools {
		s.Pools = append(s.Pools, v1alpha1.PoolState{Name: p.Name, DeviceType: p.DeviceType, Offer: p.Offer, Unserved: excerpt.Fit(p.Unserved, nodestate.MaxReason), VFs: int32(p.VFs.Total), Free: int32(p.VFs.Free), PFs: p.PFs})
	}
	for _, p := range n.Problems[:min(len(n.Problems), MaxProblems)] {
		s.Problems = append(s.Problems, v1alpha1.Problem{Object: excerpt.Fit(p.Object, nodestate.MaxReason), Reason: excerpt.Fit(p.Reason, nodestate.MaxReason), Next: excerpt.Fit(p.Next, nodestate.MaxReason)})
	}
	s.NetworkWarnings = toNetworkWarnings(n.VFs)
	if n.Services != nil {
		s.ServicesWithoutRoom = n.Services.NoRoom
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reasons.Serving}
	if !n.Ready {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasons.Starting, "the VFs are not made yet"
	}
	s.Conditions = []metav1.Condition{ready}
	return s
}

// toNetworkWarnings returns the warnings of the networks of VFs, each once, in order.
func toNetworkWarnings(vfs []api.VF) []v1alpha1.NetworkWarning {
	var out []v1alpha1.NetworkWarning
	for _, v := range vfs {
		for _, text := range v.Warnings {
			w := v1alpha1.NetworkWarning{Network: v.Network, Text: excerpt.Fit(text, nodestate.MaxReason)}
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.NetworkWarning) int {
		return cmp.Or(strings.Compare(a.Network, b.Network), strings.Compare(a.Text, b.Text))
	})
	return out[:min(len(out), maxWarnings)]
}

// FromNodeState converts a NodeState back to a node's status. VF settings and the times
// of leases stay empty: a NodeState does not have them. Each VF of a network has all of the
// network's warnings.
func FromNodeState(s v1alpha1.NodeState, now time.Time) api.NodeStatus {
	out := api.NodeStatus{
		Node: s.Name, Version: s.Status.Version, Time: now,
		Problems: []api.Problem{}, PFs: []api.PF{}, VFs: []api.VF{}, Pools: []api.Pool{},
	}
	ids := map[string]vf.PFID{}
	for _, pf := range s.Status.PFs {
		ids[pf.Name] = nodestate.ToPF(pf).ID
	}
	for _, v := range s.Status.VFs {
		out.VFs = append(out.VFs, nodestate.ToVF(s.Name, v, ids))
		last := &out.VFs[len(out.VFs)-1]
		for _, w := range s.Status.NetworkWarnings {
			if w.Network == v.Network {
				last.Warnings = append(last.Warnings, w.Text)
			}
		}
	}
	for _, p := range s.Status.PFs {
		pf := pfOf(nodestate.ToPF(p), slices.DeleteFunc(slices.Clone(out.VFs), func(v api.VF) bool { return v.PF != p.Name }))
		if p.WantedVFs != nil {
			n := int(*p.WantedVFs)
			pf.WantedVFs = &n
		}
		pf.Segment, _ = vf.ParseSegment(p.Segment)
		out.PFs = append(out.PFs, pf)
	}
	for _, p := range s.Status.Pools {
		o := cutPool(p.Name, p.DeviceType, out.VFs)
		o.Node, o.Unserved, o.Offer = s.Name, p.Unserved, p.Offer
		out.Pools = append(out.Pools, o)
	}
	ready := conditions.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	out.Ready = ready != nil && ready.Status == metav1.ConditionTrue
	out.Problems = stateProblems(s.Status)
	return out
}
