package sources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// PolicyStates returns for each policy that selects the node whether it is applied, the
// policy of the highest priority first.
func (s *Set) PolicyStates() []v1alpha1.PolicyState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []v1alpha1.PolicyState
	for _, p := range slices.SortedFunc(slices.Values(s.policies), func(a, b Policy) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), cmp.Compare(a.Name, b.Name))
	}) {
		out = append(out, s.policyState(p))
	}
	return out
}

func (s *Set) policyState(p Policy) v1alpha1.PolicyState {
	out := v1alpha1.PolicyState{Name: p.Name, Generation: p.Generation}
	pending := s.pendingReasons(p.Name)
	for _, c := range s.merged.Conflicts {
		if !slices.Contains(c.Policies, p.Name) {
			continue
		}
		pending = append(pending, c.String())
		for _, other := range c.Policies {
			if other != p.Name && !slices.Contains(out.Conflicts, other) {
				out.Conflicts = append(out.Conflicts, other)
			}
		}
	}
	if s.unread[p.Name] != nil {
		pending = append(pending, s.explainUnread(p.Name))
	}
	out.Applied, out.Reason = len(pending) == 0, strings.Join(pending, "; ")
	return out
}

// pendingReasons returns how the PFs that follow a policy differ from it.
func (s *Set) pendingReasons(policy string) []string {
	var out []string
	for _, pf := range s.pfs() {
		if by, ok := s.merged.PFs[pf.PCI]; !ok || by != policy {
			continue
		}
		want, ok := s.merged.Spec.ForPF(pf)
		if !ok {
			continue // the PF was renamed since the last Merge
		}
		object, before := "PF "+pf.Label(), len(out)
		if pf.Err != "" {
			out = append(out, fmt.Sprintf("%s cannot be read: %s", object, pf.Err))
			continue
		}
		if pf.NumVFs != want.VFs {
			out = append(out, fmt.Sprintf("%s has %s, should have %d", object, vf.CountText(pf.NumVFs), want.VFs))
		}
		if want.MTU != 0 && pf.MTU != want.MTU {
			reason := fmt.Sprintf("%s has MTU %d, wanted is %d", object, pf.MTU, want.MTU)
			if pf.Master.SetsMTU() {
				reason += fmt.Sprintf(", and %s of the host sets it for its members", pf.Master.Name)
			}
			out = append(out, reason)
		}
		for _, a := range want.Addresses {
			if !slices.Contains(pf.Addrs, a) {
				out = append(out, fmt.Sprintf("%s does not have address %s", object, a))
			}
		}
		for _, p := range s.problems() {
			if p.Object == object && len(out) > before {
				out = append(out, p.Reason)
			}
		}
	}
	return out
}

// Conditions returns those of the NodeState that are about policies and the device
// plugin's ConfigMap.
func (s *Set) Conditions(policies []v1alpha1.PolicyState) []metav1.Condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []metav1.Condition{s.policiesApplied(policies)}
	if !s.plugin.exists {
		return all
	}
	return append(all, s.devicePluginCondition())
}

// policiesApplied returns the condition that sums up the policies.
func (s *Set) policiesApplied(policies []v1alpha1.PolicyState) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionPoliciesApplied, Status: metav1.ConditionTrue, Reason: reasons.Applied}
	var pending []string
	for _, p := range policies {
		switch {
		case p.Applied:
			continue
		case len(p.Conflicts) > 0:
			c.Reason = reasons.Conflict
		case c.Reason == reasons.Applied:
			c.Reason = reasons.Pending
		}
		pending = append(pending, "NodePolicy "+p.Name+": "+p.Reason)
	}
	switch {
	case !s.known:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, reasons.NotHeard, "the cluster's policies are not known yet"
	case len(policies) == 0:
		c.Reason = reasons.NoPolicies
	case len(pending) > 0:
		c.Status, c.Message = metav1.ConditionFalse, BoundMessage(strings.Join(pending, "; "))
	}
	return c
}

// longestMessage is far below the longest message of a condition that the API server
// takes (32768 bytes, metav1.Condition).
const longestMessage = 2000

// BoundMessage shortens a condition's message to a length that suits an object.
func BoundMessage(s string) string { return excerpt.Fit(s, longestMessage) }
