package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/excerpt"
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
		if v.Missing {
			o.Phase = api.PhaseMissing
		}
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

// policyStates says of each policy that selects the node whether it is done, in
// the order in which they are followed.
func (w *wishes) policyStates() []v1alpha1.PolicyState {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []v1alpha1.PolicyState
	for _, p := range slices.SortedFunc(slices.Values(w.policies), func(a, b *v1alpha1.NodePolicy) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), cmp.Compare(a.Name, b.Name))
	}) {
		o := v1alpha1.PolicyState{Name: p.Name, Generation: p.Generation}
		why := w.undone(p.Name)
		for _, c := range w.merged.Conflicts {
			if slices.Contains(c.Policies, p.Name) {
				why = append(why, c.String())
				o.Conflicts = append(o.Conflicts, slices.DeleteFunc(slices.Clone(c.Policies), func(n string) bool { return n == p.Name || slices.Contains(o.Conflicts, n) })...)
			}
		}
		if err := w.unread[p.Name]; err != nil {
			why = append(why, excerpt.Error(err))
		}
		o.Applied, o.Reason = len(why) == 0, strings.Join(why, "; ")
		out = append(out, o)
	}
	return out
}

// undone says which PFs follow a policy and are not as it wants them.
func (w *wishes) undone(policy string) []string {
	var out []string
	for _, pf := range w.node.Inventory.PFs() {
		if by, ok := w.merged.PFs[pf.PCI]; !ok || by != policy {
			continue
		}
		want, _ := w.merged.Spec.ForPF(pf)
		object, before := "PF "+pf.Label(), len(out)
		if pf.NumVFs != want.VFs {
			out = append(out, fmt.Sprintf("%s has %d VFs, wanted are %d", object, pf.NumVFs, want.VFs))
		}
		if want.MTU != 0 && pf.MTU != want.MTU {
			out = append(out, fmt.Sprintf("%s has MTU %d, wanted is %d", object, pf.MTU, want.MTU))
		}
		for _, p := range w.node.problems() {
			if p.Object == object && len(out) > before {
				out = append(out, p.Reason)
			}
		}
	}
	return out
}

// conditions are those of the NodeState that are about what the cluster wishes.
func (w *wishes) conditions(policies []v1alpha1.PolicyState) []metav1.Condition {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := []metav1.Condition{w.applied(policies)}
	if !w.plugin.there {
		return all
	}
	c := metav1.Condition{Type: v1alpha1.ConditionDevicePluginConfig, Status: metav1.ConditionTrue, Reason: "Read", Message: fmt.Sprintf("%d resources", len(w.plugin.pools))}
	if err := w.plugin.wrong; err != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Invalid", excerpt.Fit(devicePluginMap+": "+excerpt.Error(err), longestMessage)
	}
	return append(all, c)
}

// applied is the condition that sums up the policies.
func (w *wishes) applied(policies []v1alpha1.PolicyState) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionPoliciesApplied, Status: metav1.ConditionTrue, Reason: "Applied"}
	var why []string
	for _, p := range policies {
		switch {
		case p.Applied:
			continue
		case len(p.Conflicts) > 0:
			c.Reason = "Conflict"
		case c.Reason == "Applied":
			c.Reason = "Pending"
		}
		why = append(why, "NodePolicy "+p.Name+": "+p.Reason)
	}
	switch {
	case !w.heard:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "NotHeard", "the cluster's policies are not known yet"
	case len(policies) == 0:
		c.Reason = "NoPolicies"
	case len(why) > 0:
		c.Status, c.Message = metav1.ConditionFalse, excerpt.Fit(strings.Join(why, "; "), longestMessage)
	}
	return c
}

// owned is the condition of the addresses that the node's attachments have;
// disputed are those that are other nodes'.
func owned(disputed []string) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAddresses, Status: metav1.ConditionTrue, Reason: "Owned"}
	if len(disputed) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Disputed", excerpt.Fit(strings.Join(disputed, "; ")+": delete the pods that have them", longestMessage)
	}
	return c
}

// longestMessage is far below what the API server takes of a condition's message.
const longestMessage = 2000
