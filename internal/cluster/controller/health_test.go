package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// healthPolicy is a policy for the PFs of driver igb on the nodes with the label nic.
func healthPolicy() *v1alpha1.NodePolicy {
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}}
	p.Spec.NodeSelector = map[string]string{"nic": "igb"}
	p.Spec.PFs = []v1alpha1.PFRule{{Name: "idle", VFs: intstr.FromInt32(0)}, {Driver: "igb", VFs: intstr.FromString("max")}}
	return p
}

// healthOfNodes returns the condition Healthy for nodes in these states, in any order.
func healthOfNodes(states []v1alpha1.NodeState) *metav1.Condition {
	policy, nodes := healthPolicy(), make([]metav1.PartialObjectMetadata, len(states))
	for i, s := range states {
		nodes[i].Name, nodes[i].Labels = s.Name, map[string]string{"nic": "igb"}
	}
	judgePolicy(policy, nodes, states, time.Unix(1, 0))
	return meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionHealthy)
}

func stateOf(node string, pfs []v1alpha1.PFState, vfs ...v1alpha1.VFState) v1alpha1.NodeState {
	return v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.NodeStateStatus{PFs: pfs, VFs: vfs}}
}

// The condition Healthy of a policy names the nodes and PFs on which something is wrong: a link
// that is missing or flapping, errors of late, VFs without carrier or in quarantine, a PF that
// cannot be read. PFs that the policy does not name, or on which it wants no VF, do not count.
func TestHealthOfAPolicy(t *testing.T) {
	pf := func(name string, change func(*v1alpha1.PFState)) v1alpha1.PFState {
		p := v1alpha1.PFState{Name: name, PCI: "0000:01:00.0", Driver: "igb", Carrier: true, TotalVFs: 7}
		if change != nil {
			change(&p)
		}
		return p
	}
	down := func(p *v1alpha1.PFState) { p.Carrier = false }
	flapping := func(p *v1alpha1.PFState) { p.Carrier, p.Flapping = false, true }
	for _, tc := range []struct {
		name            string
		states          []v1alpha1.NodeState
		reason, message string
	}{
		{"sound", []v1alpha1.NodeState{stateOf("a", []v1alpha1.PFState{pf("enp1s0", nil)})}, "Healthy", ""},
		{"others", []v1alpha1.NodeState{stateOf("a", []v1alpha1.PFState{pf("idle", down), pf("x", func(p *v1alpha1.PFState) { down(p); p.Driver = "ice" })})}, "Healthy", ""},
		{"no link", []v1alpha1.NodeState{stateOf("b", []v1alpha1.PFState{pf("enp1s0", nil)}), stateOf("a", []v1alpha1.PFState{pf("enp1s0", down), pf("enp2s0", nil)})},
			"NoLink", "PFs with problems: 1, nodes: 1: a: enp1s0 has no link: see kubectl get nodestates -o yaml"},
		{"flapping", []v1alpha1.NodeState{stateOf("b", []v1alpha1.PFState{pf("enp1s0", flapping)}), stateOf("a", []v1alpha1.PFState{pf("enp2s0", flapping)})},
			"Flapping", "PFs with problems: 2, nodes: 2: a: enp2s0 has a link that is flapping; b: enp1s0 has a link that is flapping: see kubectl get nodestates -o yaml"},
		{"errors", []v1alpha1.NodeState{stateOf("a", []v1alpha1.PFState{pf("enp1s0", func(p *v1alpha1.PFState) { p.Faults = []string{"PCIe", "TransmitQueue", "New"} })})},
			"DeviceErrors", "a: enp1s0 had PCIe errors; a: enp1s0 had a transmit queue that did not send in time; a: enp1s0 had errors (New)"},
		{"VFs", []v1alpha1.NodeState{stateOf("a", []v1alpha1.PFState{pf("enp1s0", nil)},
			v1alpha1.VFState{Name: "enp1s0#0", Phase: "quarantined"}, v1alpha1.VFState{Name: "enp1s0#1", Phase: "attached", NoCarrier: true}, v1alpha1.VFState{Name: "x#1", Phase: "quarantined"})},
			"Several", "PFs with problems: 1, nodes: 1: a: enp1s0 has a link, and VFs of pods do not have it: 1; a: enp1s0 has VFs in quarantine: 1"},
		{"unreadable", []v1alpha1.NodeState{stateOf("a", []v1alpha1.PFState{pf("enp1s0", func(p *v1alpha1.PFState) { p.Error, p.Carrier = "its driver hangs", false })})},
			"Unreadable", "a: enp1s0 cannot be read: its driver hangs"},
	} {
		c := healthOfNodes(tc.states)
		if c.Reason != tc.reason || !strings.Contains(c.Message, tc.message) || (c.Status == metav1.ConditionTrue) != (tc.reason == "Healthy") || tc.message == "" && c.Message != "" {
			t.Errorf("%s: %s %s %q\nwant %s %q", tc.name, c.Status, c.Reason, c.Message, tc.reason, tc.message)
		}
	}
}

// The message is bounded however many nodes there are and however long their texts, and does not
// depend on the order in which the cache lists them.
func TestHealthIsBounded(t *testing.T) {
	var states []v1alpha1.NodeState
	for i := range 3000 {
		states = append(states, stateOf(fmt.Sprintf("worker%05d", i), []v1alpha1.PFState{{Name: "enp1s0", Driver: "igb", TotalVFs: 7, Error: strings.Repeat("x", 1000)}}))
	}
	c := healthOfNodes(states)
	if len(c.Message) > 4000 || !strings.Contains(c.Message, "PFs with problems: 3000, nodes: 3000: worker00000: ") || !strings.Contains(c.Message, "and 2,992 more") {
		t.Errorf("%d bytes: %s", len(c.Message), c.Message)
	}
	slices.Reverse(states)
	if again := healthOfNodes(states); again.Message != c.Message {
		t.Errorf("another order: %s", again.Message)
	}
}

// The controller judges policies again if the health in a NodeState has changed, and not if pods
// came or went.
func TestHealthIsFollowed(t *testing.T) {
	base := func() v1alpha1.NodeState {
		return stateOf("a", []v1alpha1.PFState{{Name: "enp1s0", Carrier: true, NumVFs: 3}}, v1alpha1.VFState{Name: "enp1s0#0", Phase: "free"})
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.NodeState)
		want   bool
	}{
		"a link":         {func(s *v1alpha1.NodeState) { s.Status.PFs[0].Carrier = false }, true},
		"flapping":       {func(s *v1alpha1.NodeState) { s.Status.PFs[0].Flapping = true }, true},
		"errors":         {func(s *v1alpha1.NodeState) { s.Status.PFs[0].Faults = []string{"PCIe"} }, true},
		"a quarantine":   {func(s *v1alpha1.NodeState) { s.Status.VFs[0].Phase = "quarantined" }, true},
		"no carrier":     {func(s *v1alpha1.NodeState) { s.Status.VFs[0].NoCarrier = true }, true},
		"a pod":          {func(s *v1alpha1.NodeState) { s.Status.VFs[0].Phase = "attached" }, false},
		"another number": {func(s *v1alpha1.NodeState) { s.Status.PFs[0].NumVFs++ }, false},
	} {
		before, after := base(), base()
		tc.change(&after)
		if got := !equality.Semantic.DeepEqual(toldOfPolicies(&before), toldOfPolicies(&after)); got != tc.want {
			t.Errorf("%s: judged again %t", name, got)
		}
	}
}
