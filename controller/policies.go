package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/culvert-net/culvert/desired"
)

// mostPending is how many nodes a policy's status names.
const mostPending = 16

// Policies says in each NodePolicy's status what became of it, by what the
// nodes tell in their NodeStates.
type Policies struct {
	Client client.Client
	Now    func() time.Time
}

// Reconcile writes the status of one policy, when it is not what it should be.
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
	judge(policy, nodes.Items, states.Items, p.Now())
	if equality.Semantic.DeepEqual(before, &policy.Status) {
		return ctrl.Result{}, nil
	}
	err := p.Client.Status().Update(ctx, policy)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// judge fills in a policy's status.
func judge(policy *v1alpha1.NodePolicy, nodes []metav1.PartialObjectMetadata, states []v1alpha1.NodeState, now time.Time) {
	s := &policy.Status
	s.ObservedGeneration, s.Nodes, s.AppliedNodes, s.Pending = policy.Generation, 0, 0, nil
	conflicts := map[string]bool{}
	pending := 0
	for _, n := range nodes {
		if !labels.SelectorFromSet(policy.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
			continue
		}
		s.Nodes++
		done, why, others := onNode(policy, n.Name, states)
		for _, o := range others {
			conflicts[o] = true
		}
		if done {
			s.AppliedNodes++
			continue
		}
		if pending++; pending <= mostPending {
			s.Pending = append(s.Pending, v1alpha1.PendingNode{Node: n.Name, Reason: why})
		}
	}
	condition := func(kind string, is bool, reason, message string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: policy.Generation, LastTransitionTime: metav1.NewTime(now)}
		if is {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	_, err := desired.FromPolicy(policy.Name, policy.Spec)
	if err != nil {
		condition(v1alpha1.ConditionValid, false, "Invalid", err.Error())
	} else {
		condition(v1alpha1.ConditionValid, true, "Valid", "")
	}
	switch {
	case s.Nodes == 0:
		condition(v1alpha1.ConditionApplied, false, "NoNodes", "no node has the labels of nodeSelector")
	case pending > 0:
		condition(v1alpha1.ConditionApplied, false, "Pending", fmt.Sprintf("%d of %d nodes have not applied it: %s: %s", pending, s.Nodes, s.Pending[0].Node, s.Pending[0].Reason))
	default:
		condition(v1alpha1.ConditionApplied, true, "Applied", "")
	}
	if empty := emptyPools(policy, states); len(empty) > 0 {
		condition(v1alpha1.ConditionEmptyPool, true, "NoVF", "no VF of the selected nodes is in "+strings.Join(empty, ", ")+": compare the selectors with kubectl get nodestates -o yaml")
	} else {
		condition(v1alpha1.ConditionEmptyPool, false, "VFs", "")
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range conflicts {
			if !yield(n) {
				return
			}
		}
	})
	if len(names) == 0 {
		condition(v1alpha1.ConditionConflict, false, "NoConflict", "")
		return
	}
	condition(v1alpha1.ConditionConflict, true, "Contradicts", fmt.Sprintf("it has the priority of %s and wants something else of the same PF or pool, so neither is followed there: give one of them a higher priority", strings.Join(names, ", ")))
}

// emptyPools are the pools of a policy that have no VF on any of the nodes that
// have read it. Before a node has nobody knows.
func emptyPools(policy *v1alpha1.NodePolicy, states []v1alpha1.NodeState) []string {
	var readers []v1alpha1.NodeState
	for _, s := range states {
		if slices.ContainsFunc(s.Status.Policies, func(p v1alpha1.PolicyState) bool { return p.Name == policy.Name && p.Generation == policy.Generation }) {
			readers = append(readers, s)
		}
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

// onNode says whether a node has applied this generation of a policy, why not,
// and which policies contradict it there.
func onNode(policy *v1alpha1.NodePolicy, node string, states []v1alpha1.NodeState) (done bool, why string, conflicts []string) {
	i := slices.IndexFunc(states, func(s v1alpha1.NodeState) bool { return s.Name == node })
	if i < 0 {
		return false, "culvertd does not run there, or has not told anything yet", nil
	}
	for _, p := range states[i].Status.Policies {
		switch {
		case p.Name != policy.Name:
			continue
		case p.Generation != policy.Generation:
			return false, "culvertd has not read it yet", nil
		}
		return p.Applied, p.Reason, p.Conflicts
	}
	return false, "culvertd has not read it yet", nil
}

// toldOfPolicies is the part of a NodeState that the status of policies is made
// of.
func toldOfPolicies(s *v1alpha1.NodeState) any {
	sizes := map[string]int32{}
	for _, p := range s.Status.Pools {
		sizes[p.Name] = p.VFs
	}
	return []any{s.Status.Policies, sizes}
}
