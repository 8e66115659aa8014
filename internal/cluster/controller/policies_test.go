package controller

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// The condition EmptyPool names a pool that has no VF on any node. It does not name a pool with VFs
// on one node, nor any pool before a node has read the policy.
func TestEmptyPoolsAreNamed(t *testing.T) {
	policy := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 2}}
	policy.Spec.Pools = []v1alpha1.Pool{{Name: "some"}, {Name: "none", Prefix: "x"}}
	state := func(node string, generation int64, pools ...v1alpha1.PoolState) v1alpha1.NodeState {
		return v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.NodeStateStatus{
			Policies: []v1alpha1.PolicyState{{Name: "p", Generation: generation}}, Pools: pools}}
	}
	some, none := v1alpha1.PoolState{Name: "culvert.dev/some", VFs: 3}, v1alpha1.PoolState{Name: "x/none"}
	unread, seven := state("a", 2, none), int32(7)
	unread.Status.PFs = []v1alpha1.PFState{{Error: "PF 0000:01:00.0: no answer within 5s", WantedVFs: &seven}}
	for _, tc := range []struct {
		name   string
		states []v1alpha1.NodeState
		want   string
	}{
		{"nobody has read it", []v1alpha1.NodeState{state("a", 1, none)}, ""},
		{"one is empty", []v1alpha1.NodeState{state("a", 2, none), state("b", 2, some, none)},
			"no VF of the selected nodes is in x/none: compare the selectors with kubectl get nodestates -o yaml"},
		{"a PF cannot be read", []v1alpha1.NodeState{unread, state("b", 2, some, none)}, ""},
		{"none is", []v1alpha1.NodeState{state("a", 2, some), state("b", 2, v1alpha1.PoolState{Name: "x/none", VFs: 1})}, ""},
	} {
		judgePolicy(policy, nil, tc.states, time.Now())
		c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionEmptyPool)
		if c == nil || c.Message != tc.want || (c.Status == metav1.ConditionTrue) != (tc.want != "") {
			t.Errorf("%s: %+v", tc.name, c)
		}
	}
	a, b := state("a", 2, some), state("a", 2, some)
	b.Status.Pools[0].VFs++
	if equality.Semantic.DeepEqual(toldOfPolicies(&a), toldOfPolicies(&b)) {
		t.Error("nobody looks when a pool gets or loses VFs")
	}
	b.Status.Pools[0] = some
	if b.Status.Pools[0].Free++; !equality.Semantic.DeepEqual(toldOfPolicies(&a), toldOfPolicies(&b)) {
		t.Error("each pod that comes or goes has all policies looked at")
	}
}
