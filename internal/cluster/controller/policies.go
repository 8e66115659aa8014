package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/reasons"
)

// mostPending is how many nodes a policy's status names. longestReason bounds a text of a node in it:
// the API server refuses a status with a message of more than 32768 bytes.
const mostPending, longestReason = 16, 2000

// Policies writes the status of each NodePolicy, by the nodes' reports in their NodeStates, and keeps the
// DeviceTaintRules of its maintenance.
type Policies struct {
	Client client.Client
	Now    func() time.Time
}

// Reconcile writes the status of one policy if it has changed, and the rules of its maintenance.
func (p *Policies) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	policy := &v1alpha1.NodePolicy{}
	if err := p.Client.Get(ctx, req.NamespacedName, policy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var states v1alpha1.NodeStateList
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(nodeKind.GroupVersion().WithKind("NodeList"))
	if err := errors.Join(p.Client.List(ctx, &states), p.Client.List(ctx, &nodes)); err != nil {
		return ctrl.Result{}, fmt.Errorf("NodePolicy %s: list the nodes: %w", policy.Name, err)
	}
	policy = policy.DeepCopy()
	before := policy.Status.DeepCopy()
	// The cache lists the nodes in any order, which must not change the status.
	slices.SortFunc(nodes.Items, func(a, b metav1.PartialObjectMetadata) int { return strings.Compare(a.Name, b.Name) })
	judgePolicy(policy, nodes.Items, states.Items, p.Now())
	again, rulesErr := p.keepMaintenance(ctx, policy, nodes.Items, states.Items)
	var result ctrl.Result
	if again {
		result.RequeueAfter = maintenanceLook
	}
	if equality.Semantic.DeepEqual(before, &policy.Status) {
		return result, rulesErr
	}
	err := p.Client.Status().Update(ctx, policy)
	if apierrors.IsConflict(err) || err == nil && again { // what was written may be the reason to go on
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, rulesErr
	}
	return result, errors.Join(rulesErr, client.IgnoreNotFound(err))
}

// survey has the reports about a policy from the nodes that it selects.
type survey struct {
	conflicts map[string]bool // names of other policies
	pending   int             // nodes that have not applied it
	ailments  []ailment
}

// surveyNodes collects the reports of the nodes that a policy selects, and counts them in its
// status.
func surveyNodes(policy *v1alpha1.NodePolicy, spec desired.Spec, isValid bool, nodes []metav1.PartialObjectMetadata, states []v1alpha1.NodeState) survey {
	s, found := &policy.Status, survey{conflicts: map[string]bool{}}
	byNode := make(map[string]*v1alpha1.NodeState, len(states))
	for i := range states {
		byNode[states[i].Name] = &states[i]
	}
	s.ObservedGeneration, s.Nodes, s.AppliedNodes, s.Pending = policy.Generation, 0, 0, nil
	for _, n := range nodes {
		if !labels.SelectorFromSet(policy.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
			continue
		}
		s.Nodes++
		state := byNode[n.Name]
		if state != nil && isValid {
			found.ailments = append(found.ailments, findAilments(spec, state)...)
		}
		done, why, others := onNode(policy, state)
		for _, o := range others {
			found.conflicts[o] = true
		}
		if done {
			s.AppliedNodes++
			continue
		}
		if found.pending++; found.pending <= mostPending {
			s.Pending = append(s.Pending, v1alpha1.PendingNode{Node: n.Name, Reason: why})
		}
	}
	return found
}

// judgePolicy fills in a policy's status.
func judgePolicy(policy *v1alpha1.NodePolicy, nodes []metav1.PartialObjectMetadata, states []v1alpha1.NodeState, now time.Time) {
	s := &policy.Status
	spec, err := desired.FromPolicy(policy.Name, policy.Spec)
	found := surveyNodes(policy, spec, err == nil, nodes, states)
	condition := func(kind string, is bool, reason, message string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: policy.Generation, LastTransitionTime: metav1.NewTime(now)}
		if is {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	reason, message := describeAilments(found.ailments)
	condition(v1alpha1.ConditionHealthy, len(found.ailments) == 0, reason, message)
	if err != nil {
		condition(v1alpha1.ConditionValid, false, reasons.Invalid, err.Error())
	} else {
		condition(v1alpha1.ConditionValid, true, reasons.Valid, "")
	}
	switch {
	case s.Nodes == 0:
		condition(v1alpha1.ConditionApplied, false, reasons.NoNodes, "no node has the labels of nodeSelector")
	case found.pending > 0:
		condition(v1alpha1.ConditionApplied, false, reasons.Pending, fmt.Sprintf("nodes that have not applied it: %d of %d: %s: %s", found.pending, s.Nodes, s.Pending[0].Node, s.Pending[0].Reason))
	default:
		condition(v1alpha1.ConditionApplied, true, reasons.Applied, "")
	}
	if empty := emptyPools(policy, states); len(empty) > 0 {
		condition(v1alpha1.ConditionEmptyPool, true, reasons.NoVF, "no VF of the selected nodes is in "+strings.Join(empty, ", ")+": compare the selectors with kubectl get nodestates -o yaml")
	} else {
		condition(v1alpha1.ConditionEmptyPool, false, reasons.VFs, "")
	}
	names := slices.Sorted(maps.Keys(found.conflicts))
	if len(names) == 0 {
		condition(v1alpha1.ConditionConflict, false, reasons.NoConflict, "")
		return
	}
	condition(v1alpha1.ConditionConflict, true, reasons.Contradicts, fmt.Sprintf("it has the priority of %s and wants something else of the same PF or pool, so neither is followed there: give one of them a higher priority", excerpt.Fit(strings.Join(names, ", "), longestReason)))
}

// emptyPools returns the pools of a policy that have no VF on any node that has read the policy.
// It returns none until a node has read it, nor while such a node cannot read a PF whose VFs may be
// those of a pool.
func emptyPools(policy *v1alpha1.NodePolicy, states []v1alpha1.NodeState) []string {
	var readers []v1alpha1.NodeState
	for _, s := range states {
		if slices.ContainsFunc(s.Status.Policies, func(p v1alpha1.PolicyState) bool { return p.Name == policy.Name && p.Generation == policy.Generation }) {
			readers = append(readers, s)
		}
	}
	if slices.ContainsFunc(readers, hasUnreadPF) {
		return nil
	}
	var out []string
	for _, p := range policy.Spec.Pools {
		name := cmp.Or(p.Prefix, desired.DefaultPrefix) + "/" + p.Name
		has := func(s v1alpha1.NodeState) bool {
			return slices.ContainsFunc(s.Status.Pools, func(o v1alpha1.PoolState) bool { return o.Name == name && o.VFs > 0 })
		}
		if len(readers) > 0 && !slices.ContainsFunc(readers, has) {
			out = append(out, name)
		}
	}
	return out
}

// hasUnreadPF reports whether a node cannot read a PF that a policy wants VFs of.
func hasUnreadPF(s v1alpha1.NodeState) bool {
	return slices.ContainsFunc(s.Status.PFs, func(pf v1alpha1.PFState) bool { return pf.Error != "" && pf.WantedVFs != nil })
}

// onNode reports whether a node has applied this generation of a policy, the reason if it has not,
// and the policies that contradict it there. state is nil if the node has no NodeState.
func onNode(policy *v1alpha1.NodePolicy, state *v1alpha1.NodeState) (done bool, why string, conflicts []string) {
	if state == nil {
		return false, "culvertd does not run there, or has not reported yet", nil
	}
	for _, p := range state.Status.Policies {
		switch {
		case p.Name != policy.Name:
			continue
		case p.Generation != policy.Generation:
			return false, "culvertd has not read it yet", nil
		}
		return p.Applied, excerpt.Fit(p.Reason, longestReason), p.Conflicts
	}
	return false, "culvertd has not read it yet", nil
}

// toldOfPolicies returns the part of a NodeState from which the status of policies is computed.
func toldOfPolicies(s *v1alpha1.NodeState) any {
	sizes := map[string]int32{}
	for _, p := range s.Status.Pools {
		sizes[p.Name] = p.VFs
	}
	return []any{s.Status.Policies, sizes, healthOf(s)}
}
