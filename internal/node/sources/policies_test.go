package sources

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// A policy is not applied while a PF has another MTU, and the reason names the bond of the host
// that sets it.
func TestReasonNamesTheHostBond(t *testing.T) {
	pf := vf.PF{ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Name: "enp1s0", MTU: 1500, TotalVFs: 7}
	sources := NewSet(&Current{}, func() []vf.PF { return []vf.PF{pf} }, func() []api.Problem { return nil })
	mtu := int32(9000)
	sources.SetPolicies(asRead(&v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.NodePolicySpec{
		PFs: []v1alpha1.PFRule{{Name: "enp1s0", VFs: intstr.FromInt32(0), MTU: &mtu}},
	}}))
	sources.Merge()
	for _, tt := range []struct {
		master *vf.Master
		want   string
	}{
		{nil, "PF enp1s0 has MTU 1500, wanted is 9000"},
		{&vf.Master{Name: "br0", Kind: vf.MasterBridge}, "PF enp1s0 has MTU 1500, wanted is 9000"},
		{&vf.Master{Name: "bond0", Kind: vf.MasterBond}, "PF enp1s0 has MTU 1500, wanted is 9000, and bond0 of the host sets it for its members"},
	} {
		pf.Master = tt.master
		if got := sources.PolicyStates(); len(got) != 1 || got[0].Applied || got[0].Reason != tt.want {
			t.Errorf("%v: %+v, want %q", tt.master, got, tt.want)
		}
	}
}

// A NodeState lists the policies by priority, with the generation that the node has read. The
// reason of a policy that is not applied names each difference, and each policy that contradicts
// it.
func TestPolicyStates(t *testing.T) {
	one := vf.PF{ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, PCI: vf.PCIAddr{Bus: 1}, Name: "enp1s0", MTU: 1500, TotalVFs: 7}
	pfs := []vf.PF{one}
	var problems []api.Problem
	s := NewSet(&Current{}, func() []vf.PF { return pfs }, func() []api.Problem { return problems })
	policy := func(name string, priority int32, vfs int32, addresses ...string) *v1alpha1.NodePolicy {
		p := newPolicy(name, priority)
		p.Spec.PFs = []v1alpha1.PFRule{{Name: "enp1s0", VFs: intstr.FromInt32(vfs), Addresses: addresses}}
		return p
	}
	unread := newPolicy("broken", 9, v1alpha1.Pool{Name: "fast", DeviceType: "nonsense"})
	const address = "172.16.91.1/24"
	for _, tt := range []struct {
		name     string
		policies []*v1alpha1.NodePolicy
		change   func(*vf.PF)
		problem  string // of the reconciler with the PF
		want     []string
	}{
		{"no policies", nil, func(*vf.PF) {}, "", nil},
		{"as wanted", []*v1alpha1.NodePolicy{policy("a", 0, 4, address)}, func(pf *vf.PF) {
			pf.NumVFs, pf.Addrs = 4, []netip.Prefix{netip.MustParsePrefix(address)}
		}, "its link is down", []string{"a: applied"}},
		{"nothing done yet", []*v1alpha1.NodePolicy{policy("a", 0, 4, address)}, func(*vf.PF) {}, "no room on the bus", []string{
			"a: PF enp1s0 has 0 VFs, should have 4; PF enp1s0 does not have address 172.16.91.1/24; no room on the bus",
		}},
		{"the PF cannot be read", []*v1alpha1.NodePolicy{policy("a", 0, 4, address)}, func(pf *vf.PF) { pf.Err = "no answer within 5s" }, "", []string{
			"a: PF enp1s0 cannot be read: no answer within 5s",
		}},
		{"the one of lower priority has no say", []*v1alpha1.NodePolicy{policy("a", 0, 4), policy("b", 1, 2)}, func(*vf.PF) {}, "", []string{
			"b: PF enp1s0 has 0 VFs, should have 2", "a: applied",
		}},
		{"a contradiction", []*v1alpha1.NodePolicy{policy("b", 0, 4), policy("a", 0, 2)}, func(*vf.PF) {}, "", []string{
			"a: PF enp1s0: policies a, b contradict each other, against b", "b: PF enp1s0: policies a, b contradict each other, against a",
		}},
		{"one cannot be read", []*v1alpha1.NodePolicy{policy("a", 0, 0), unread}, func(*vf.PF) {}, "", []string{
			"broken: pools[0].deviceType", "a: applied",
		}},
	} {
		pfs[0], problems = one, nil
		tt.change(&pfs[0])
		if tt.problem != "" {
			problems = []api.Problem{{Object: "PF enp2s0", Reason: "of another PF"}, {Object: "PF enp1s0", Reason: tt.problem}}
		}
		s.SetPolicies(asRead(tt.policies...))
		s.Merge()
		var got []string
		for _, p := range s.PolicyStates() {
			got = append(got, describeState(p))
			if p.Generation != 3 {
				t.Errorf("%s: generation %d of policy %s", tt.name, p.Generation, p.Name)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A PF that was renamed is not compared with the policy that it followed, until the next Merge.
func TestRenamedPF(t *testing.T) {
	pf := vf.PF{ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Name: "enp1s0", NumVFs: 4, TotalVFs: 7}
	s := NewSet(&Current{}, func() []vf.PF { return []vf.PF{pf} }, func() []api.Problem { return nil })
	p := newPolicy("a", 0)
	p.Spec.PFs = []v1alpha1.PFRule{{Name: "enp1s0", VFs: intstr.FromInt32(4)}}
	s.SetPolicies(asRead(p))
	s.Merge()
	pf.Name = "lan0"
	for range 2 {
		if got := s.PolicyStates(); len(got) != 1 || !got[0].Applied {
			t.Errorf("%+v", got)
		}
		s.Merge()
	}
}

// describeState returns a policy's state on one line, without the details of contradictions and
// mistakes.
func describeState(p v1alpha1.PolicyState) string {
	if p.Applied {
		return p.Name + ": applied" + p.Reason
	}
	reason, _, _ := strings.Cut(p.Reason, " (")
	reason, _, _ = strings.Cut(reason, ` "nonsense"`)
	if len(p.Conflicts) > 0 {
		reason += ", against " + strings.Join(p.Conflicts, ", ")
	}
	return p.Name + ": " + reason
}

// The condition PoliciesApplied sums the policies up. It is unknown until the node knows them, and
// a contradiction counts more than work that is not done.
func TestConditionPoliciesApplied(t *testing.T) {
	applied := v1alpha1.PolicyState{Name: "a", Applied: true}
	pending := v1alpha1.PolicyState{Name: "b", Reason: "PF enp1s0 has 0 VFs, should have 4"}
	conflict := v1alpha1.PolicyState{Name: "c", Reason: "contested", Conflicts: []string{"d"}}
	long := v1alpha1.PolicyState{Name: "e", Reason: strings.Repeat("x", 40000)}
	for _, tt := range []struct {
		name    string
		isKnown bool
		states  []v1alpha1.PolicyState
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{"not known", false, nil, metav1.ConditionUnknown, "NotHeard", "the cluster's policies are not known yet"},
		{"none", true, nil, metav1.ConditionTrue, "NoPolicies", ""},
		{"applied", true, []v1alpha1.PolicyState{applied}, metav1.ConditionTrue, "Applied", ""},
		{"one is pending", true, []v1alpha1.PolicyState{applied, pending}, metav1.ConditionFalse, "Pending", "NodePolicy b: PF enp1s0 has 0 VFs, should have 4"},
		{"a conflict before", true, []v1alpha1.PolicyState{conflict, pending}, metav1.ConditionFalse, "Conflict", "NodePolicy c: contested; NodePolicy b: PF enp1s0 has 0 VFs, should have 4"},
		{"a conflict after", true, []v1alpha1.PolicyState{pending, conflict}, metav1.ConditionFalse, "Conflict", "NodePolicy b: PF enp1s0 has 0 VFs, should have 4; NodePolicy c: contested"},
		{"longer than the API server takes", true, []v1alpha1.PolicyState{long}, metav1.ConditionFalse, "Pending", BoundMessage("NodePolicy e: " + long.Reason)},
	} {
		s, _ := newSet()
		if tt.isKnown {
			s.SetPolicies(nil)
		}
		want := []metav1.Condition{{Type: v1alpha1.ConditionPoliciesApplied, Status: tt.status, Reason: tt.reason, Message: tt.message}}
		got := s.Conditions(tt.states)
		if diff := cmp.Diff(want, got); diff != "" || len(got[0].Message) > 2000 {
			t.Errorf("%s: %d bytes (-want +got):\n%s", tt.name, len(got[0].Message), diff)
		}
	}
}
