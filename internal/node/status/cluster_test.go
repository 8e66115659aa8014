package status

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
)

// state is the NodeState of node(t), as package daemon's tests write it.
func state(t *testing.T, name string) v1alpha1.NodeState {
	t.Helper()
	s := v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: name}}
	raw, err := os.ReadFile("testdata/nodestate.json")
	if err == nil {
		err = json.Unmarshal(raw, &s.Status)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func condition(kind string, is metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: is, Reason: "Told", Message: message, LastTransitionTime: metav1.NewTime(now.Add(-2 * time.Minute))}
}

// cluster is a cluster with a bit of everything.
func cluster(t *testing.T) Cluster {
	in := Cluster{Name: "prod", Now: now, States: []v1alpha1.NodeState{state(t, "worker02"), state(t, "worker01")}}
	in.States[0].Status = v1alpha1.NodeStateStatus{
		Version: "v0.0.9",
		VFs: []v1alpha1.VFState{
			{Name: "enp1s0f0#0", PCI: "0000:01:10.0", Phase: "attached", Network: "default/sriov-net1", Owner: &v1alpha1.Owner{Kind: "pod", Name: "default/c", Interface: "net1"}},
			{Name: "enp1s0f0#1", PCI: "0000:01:10.2", Phase: "quarantined", Reason: "reset: no answer"},
		},
		PFs: []v1alpha1.PFState{{Name: "enp1s0f0", ID: "90:e2:ba:00:00:11", PCI: "0000:01:00.0", Driver: "igb", Carrier: true, SpeedMbps: 1000, MTU: 1500, TotalVFs: 7, NumVFs: 2}},
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionTrue, ""),
			condition(v1alpha1.ConditionPoliciesApplied, metav1.ConditionFalse, "told by each policy"),
			condition(v1alpha1.ConditionAddresses, metav1.ConditionFalse, "172.16.91.9 of default/sriov-net1 is worker01's too"),
		},
		Policies: []v1alpha1.PolicyState{{Name: "intel", Reason: "PF enp1s0f0 has 2 VFs, should have 7"}},
	}
	in.Policies = []v1alpha1.NodePolicy{
		{ObjectMeta: metav1.ObjectMeta{Name: "intel"}, Status: v1alpha1.NodePolicyStatus{
			Nodes: 2, AppliedNodes: 1, Conditions: []metav1.Condition{condition(v1alpha1.ConditionApplied, metav1.ConditionFalse, "worker02 has not: it says so itself")},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "dpdk"}, Spec: v1alpha1.NodePolicySpec{Priority: 10}, Status: v1alpha1.NodePolicyStatus{
			Nodes: 1, Conditions: []metav1.Condition{condition(v1alpha1.ConditionConflict, metav1.ConditionTrue, "policies dpdk and other contradict each other about pool dpdk")},
		}},
	}
	in.Pools = []v1alpha1.AddressPool{
		{Spec: v1alpha1.AddressPoolSpec{Network: "default/sriov-net1", Blocks: []v1alpha1.AddressBlock{{Node: "worker01"}, {Node: "worker03"}, {Node: "worker01"}}}, Status: v1alpha1.AddressPoolStatus{
			Addresses: 253, Granted: 64, Conditions: []metav1.Condition{condition(v1alpha1.ConditionExhausted, metav1.ConditionTrue, "worker02 needs addresses, and there are none left")},
		}},
		{Spec: v1alpha1.AddressPoolSpec{Network: "wide"}, Status: v1alpha1.AddressPoolStatus{Addresses: math.MaxInt64, Granted: 256}},
	}
	in.Daemons = []api.DaemonPod{
		{Namespace: "culvert-system", Name: "culvertd-a", Node: "worker01", Ready: true},
		{Namespace: "culvert-system", Name: "culvertd-b", Node: "worker02", Reason: "CrashLoopBackOff"},
		{Namespace: "culvert-system", Name: "culvertd-c", Node: "worker03", Reason: "ImagePullBackOff"},
		{Namespace: "culvert-system", Name: "culvertd-d", Reason: "Unschedulable"},
	}
	return in
}

func TestAssembleCluster(t *testing.T) { golden(t, "cluster.json", AssembleCluster(cluster(t))) }

// FromNodeState returns the facts of a NodeState as they were in the node's status, and makes up
// none that the NodeState lacks.
func TestFromNodeState(t *testing.T) {
	local, got := Assemble(node(t)), FromNodeState(state(t, "worker01"), now)
	if diff := cmp.Diff([]any{local.Node, local.Version, local.Ready, local.Problems[0].Reason}, []any{got.Node, got.Version, got.Ready, got.Problems[0].Reason}); diff != "" {
		t.Errorf("node (-local +told):\n%s", diff)
	}
	for i, want := range local.PFs {
		pf := got.PFs[i]
		if diff := cmp.Diff([]any{want.Name, want.ID, want.PCI, want.MTU, want.WantedVFs, want.VFs}, []any{pf.Name, pf.ID, pf.PCI, pf.MTU, pf.WantedVFs, pf.VFs}); diff != "" {
			t.Errorf("PF %s (-local +told):\n%s", want.Name, diff)
		}
	}
	for i, want := range local.Pools {
		want.Node = "worker01"
		if diff := cmp.Diff(want, got.Pools[i]); diff != "" {
			t.Errorf("pool %s (-local +told):\n%s", want.Name, diff)
		}
	}
	if len(got.VFs) != len(local.VFs) {
		t.Fatalf("%d VFs, want %d", len(got.VFs), len(local.VFs))
	}
	for i, want := range local.VFs {
		v := got.VFs[i]
		if want.Missing {
			want.Phase = api.PhaseMissing
		}
		if diff := cmp.Diff([]any{want.Name, want.ID, want.PF, want.Index, want.PCI, want.Phase, want.Missing, want.Pool, want.Owner, want.Network, want.Addresses, want.Reason},
			[]any{v.Name, v.ID, v.PF, v.Index, v.PCI, v.Phase, v.Missing, v.Pool, v.Owner, v.Network, v.Addresses, v.Reason}); diff != "" {
			t.Errorf("VF %s (-local +told):\n%s", want.Name, diff)
		}
		var said map[string]any
		if raw, err := json.Marshal(v); err != nil || json.Unmarshal(raw, &said) != nil {
			t.Fatal(err)
		}
		for _, unknown := range []string{"settings", "driver", "mac", "generation", "since", "wanted", "baseline"} {
			if made, there := said[unknown]; there {
				t.Errorf("VF %s: %s is made up: %v", want.Name, unknown, made)
			}
		}
	}
}

func TestFromNodeStateOfAnything(t *testing.T) {
	got := FromNodeState(v1alpha1.NodeState{Status: v1alpha1.NodeStateStatus{
		PFs: []v1alpha1.PFState{{}}, VFs: []v1alpha1.VFState{{}, {Name: "#"}, {Name: "a#b"}, {Name: "a#-1"}}, Pools: []v1alpha1.PoolState{{}},
	}}, now)
	if got.Ready || len(got.VFs) != 4 || got.VFs[2].PF != "a" || got.VFs[3].Index != 0 {
		t.Errorf("%+v", got)
	}
}

// A culvertd that died, or is on no node any more, has left its NodeState behind.
func TestDaemonsTell(t *testing.T) {
	for _, tc := range []struct {
		name    string
		daemons []api.DaemonPod
		ready   bool
		object  string
	}{
		{"nobody knows", nil, true, "host.yaml:4"},
		{"there", []api.DaemonPod{{Node: "worker01", Ready: true}}, true, "host.yaml:4"},
		{"the old one goes, the new one serves", []api.DaemonPod{{Node: "worker01"}, {Node: "worker01", Ready: true}}, true, "host.yaml:4"},
		{"not ready", []api.DaemonPod{{Node: "worker01"}}, false, "culvertd"},
		{"elsewhere", []api.DaemonPod{{Node: "worker02", Ready: true}}, false, "culvertd"},
	} {
		got := AssembleCluster(Cluster{Now: now, States: []v1alpha1.NodeState{state(t, "worker01")}, Daemons: tc.daemons}).Nodes[0]
		if got.Ready != tc.ready || got.Problems[0].Object != tc.object {
			t.Errorf("%s: ready %t, first problem %+v", tc.name, got.Ready, got.Problems[0])
		}
	}
}
