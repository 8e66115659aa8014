package daemon

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/vf"
)

// mostProblems is how many a NodeState tells.
const mostProblems = 32

// stateOf is a node's status as its NodeState has it. It has no times but those
// of conditions, so that it changes only when something does.
func stateOf(n api.NodeStatus) v1alpha1.NodeStateStatus {
	s := v1alpha1.NodeStateStatus{Version: n.Version}
	for _, pf := range n.PFs {
		s.PFs = append(s.PFs, pfState(pf))
		s.Counts.PFs++
		s.Counts.VFs += int32(pf.VFs.Total)
		s.Counts.Used += int32(pf.VFs.Used)
		s.Counts.Free += int32(pf.VFs.Free)
		s.Counts.Quarantined += int32(pf.VFs.Quarantined)
	}
	for _, v := range n.VFs {
		o := v1alpha1.VFState{Name: v.Name, PCI: v.PCI.String(), Phase: v.Phase, Pool: v.Pool, Network: v.Network, Addresses: v.Addresses, Reason: v.Reason}
		if v.Owner != nil && !v.Owner.IsZero() {
			o.Owner = &v1alpha1.Owner{Kind: v.Owner.Kind, Name: v.Owner.Name, UID: v.Owner.UID, Interface: v.Owner.Interface}
		}
		s.VFs = append(s.VFs, o)
	}
	for _, p := range n.Pools {
		s.Pools = append(s.Pools, v1alpha1.PoolState{Name: p.Name, DeviceType: p.DeviceType, VFs: int32(p.VFs.Total), Free: int32(p.VFs.Free), PFs: p.PFs})
	}
	for _, p := range n.Problems[:min(len(n.Problems), mostProblems)] {
		s.Problems = append(s.Problems, v1alpha1.Problem{Object: p.Object, Reason: p.Reason, Next: p.Next})
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Serving"}
	if !n.Ready {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Starting", "the VFs are not made yet"
	}
	s.Conditions = []metav1.Condition{ready}
	return s
}

func pfState(pf api.PF) v1alpha1.PFState {
	o := v1alpha1.PFState{
		Name: pf.Name, ID: pf.ID.String(), PCI: pf.PCI.String(), Vendor: pf.Vendor, Device: pf.Device, Driver: pf.Driver, NUMA: int32(pf.NUMA),
		Carrier: pf.Carrier, SpeedMbps: int32(pf.SpeedMbps), MTU: int32(pf.MTU), MaxMTU: int32(pf.MaxMTU), TotalVFs: int32(pf.TotalVFs),
		NumVFs: int32(pf.VFs.Total), Error: pf.Error,
	}
	if pf.WantedVFs != nil {
		n := int32(*pf.WantedVFs)
		o.WantedVFs = &n
	}
	for _, setting := range vf.Settings() {
		if pf.Abilities[setting] == vf.No {
			o.Unable = append(o.Unable, string(setting))
		}
	}
	return o
}

// policyStates says of each policy that selects the node whether it is done.
func (w *wishes) policyStates(pfs []api.PF) []v1alpha1.PolicyState {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []v1alpha1.PolicyState
	for _, p := range w.policies {
		o := v1alpha1.PolicyState{Name: p.Name, Generation: p.Generation}
		why := missing(w.merged, p.Name, pfs)
		for _, c := range w.merged.Conflicts {
			if slices.Contains(c.Policies, p.Name) {
				why = append(why, c.String())
				o.Conflicts = append(o.Conflicts, slices.DeleteFunc(slices.Clone(c.Policies), func(n string) bool { return n == p.Name || slices.Contains(o.Conflicts, n) })...)
			}
		}
		if err := w.unread[p.Name]; err != nil {
			why = append(why, oneLine(err))
		}
		o.Applied, o.Reason = len(why) == 0, strings.Join(why, "; ")
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b v1alpha1.PolicyState) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// conditions are those of the NodeState that are about what the cluster wishes.
func (w *wishes) conditions() []metav1.Condition {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.plugin.there {
		return nil
	}
	c := metav1.Condition{Type: v1alpha1.ConditionDevicePluginConfig, Status: metav1.ConditionTrue, Reason: "Read", Message: fmt.Sprintf("%d resources", len(w.plugin.pools))}
	if err := w.plugin.wrong; err != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Invalid", brief(devicePluginMap+": "+oneLine(err))
	}
	return []metav1.Condition{c}
}

// longestMessage is far below what the API server takes of a condition's message.
const longestMessage = 2000

func brief(s string) string {
	if len(s) > longestMessage {
		return s[:longestMessage] + "..."
	}
	return s
}

// missing are the PFs that follow a policy and are not there yet.
func missing(m desired.Merged, policy string, pfs []api.PF) []string {
	var out []string
	for _, pf := range pfs {
		if by, ok := m.PFs[pf.PCI]; ok && by == policy && policy != "" && pf.WantedVFs != nil && *pf.WantedVFs != pf.VFs.Total {
			out = append(out, fmt.Sprintf("PF %s has %d VFs, wanted are %d", pf.Name, pf.VFs.Total, *pf.WantedVFs))
		}
	}
	return out
}
