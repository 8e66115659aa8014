package status

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

// policyOf reads the spec of a NodePolicy.
func policyOf(t *testing.T, name, text string) desired.Policy {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	spec, err := desired.FromPolicy(name, fields)
	if err != nil {
		t.Fatal(err)
	}
	return desired.Policy{Name: name, Spec: spec}
}

// policyNode is a node that follows a policy, with two owners on its first PF, and its NodeState.
func policyNode(t *testing.T, policy desired.Policy) (Input, v1alpha1.NodeState) {
	f0, f1 := igb(0, 7), igb(1, 7)
	f1.Carrier, f1.SpeedMbps = false, 0 // which is no change that a plan makes
	in := Input{Node: "worker01", Now: now, Ready: true, Seen: map[vf.ID]Seen{}}
	for i := range f1.VFs {
		f1.VFs[i].PCI.Device = 0x11
	}
	for _, v := range append(f0.VFs[:7:7], f1.VFs...) {
		in.Records = append(in.Records, free(v))
	}
	attachPod(&in, &f0.VFs[0], 0, "a", "default/sriov-net1", "172.16.91.2/24", vf.Spec{})
	attachPod(&in, &f0.VFs[1], 1, "b", "default/sriov-net1", "172.16.91.3/24", vf.Spec{})
	in.Records[1].Lease.Owner = vf.Owner{Kind: vf.OwnerGuest, Name: "db1"}
	in.PFs = []vf.PF{f0, f1}
	in.Spec = desired.Merge(desired.Sources{Policies: []desired.Policy{policy}}, desired.Spec{}, in.PFs).Spec
	state := v1alpha1.NodeState{Status: ToNodeState(Assemble(in))}
	state.Name = in.Node
	return in, state
}

// A plan from a NodeState is the one that the node's culvertd would make.
func TestPlanPolicies(t *testing.T) {
	const present = "{pfs: [{name: 'enp1s0f*', vfs: 7}], pools: [{name: one, selectors: {pfNames: [enp1s0f0]}}, {name: two, selectors: {pfNames: [enp1s0f1]}}]}"
	policy := policyOf(t, "p", present)
	in, state := policyNode(t, policy)
	for name, tc := range map[string]struct {
		next string
		has  string // in the plan
	}{
		"nothing":       {present, `"pfs":[]`},
		"fewer VFs":     {strings.Replace(present, "vfs: 7", "vfs: 4", 1), `"name":"default/a"`},
		"too many VFs":  {strings.Replace(present, "vfs: 7", "vfs: 70", 1), "it can have 7"},
		"MTU":           {strings.Replace(present, "vfs: 7", "vfs: 7, mtu: 9000", 1), `"to":"9000"`},
		"segment":       {strings.Replace(present, "vfs: 7", "vfs: 7, segment: storage", 1), `"to":"storage"`},
		"address":       {strings.Replace(present, "vfs: 7", "vfs: 7, addresses: [10.0.0.1/24]", 1), "10.0.0.1/24"},
		"device type":   {strings.Replace(present, "name: two,", "name: two, deviceType: vfio-pci,", 1), vf.DriverVFIO},
		"another pool":  {strings.Replace(present, "[enp1s0f1]", "[enp1s0f1#0-2]", 1), `"attribute":"pool"`},
		"MTU of a pool": {strings.Replace(present, "name: two,", "name: two, mtu: 9000,", 1), `"to":"9000"`},
		"no PF":         {"{pools: [{name: one}]}", "pool culvert.dev/two goes"},
		"no policy":     {"", "pool culvert.dev/one goes"},
	} {
		var next []desired.Policy
		if tc.next != "" {
			next = []desired.Policy{policyOf(t, "p", tc.next)}
		}
		spec := desired.Merge(desired.Sources{Policies: next}, in.Spec, in.PFs).Spec
		want := Plan(in.Spec, spec, reconcile.Plan(spec, in.PFs, in.Records, nil), in.Records)
		got := PlanPolicies(state, []desired.Policy{policy}, next)
		if name == "fewer VFs" {
			if n := len(got.Notes); n == 0 || !strings.Contains(got.Notes[n-1], "evicts the pods") {
				t.Errorf("notes %q", got.Notes)
			} else {
				got.Notes = got.Notes[:n-1]
			}
		}
		if diff := cmp.Diff(want, got, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Errorf("%s (-culvertd +NodeState):\n%s", name, diff)
		}
		if text, err := json.Marshal(got); err != nil || !strings.Contains(string(text), tc.has) {
			t.Errorf("%s: no %s in %s", name, tc.has, text)
		}
	}
}

// Other users of VFs lose them, too. host.yaml comes before policies. Policies that contradict each
// other change nothing. A plan says all of that.
func TestPlanPoliciesOfOtherSources(t *testing.T) {
	policy := policyOf(t, "p", "{pfs: [{name: enp1s0f0, vfs: 7}], pools: [{name: one, selectors: {pfNames: [enp1s0f0]}}]}")
	_, state := policyNode(t, policy)
	seven := int32(7)
	state.Status.PFs[1].WantedVFs = &seven // by host.yaml
	state.Status.VFs[2].Phase = api.PhaseGiven
	state.Status.VFs[3].Phase, state.Status.VFs[3].UsedBy = api.PhaseOutside, "testpmd"
	state.Status.VFs[8].Pool = "culvert.dev/other"
	next := policyOf(t, "p", "{pfs: [{name: 'enp1s0f*', vfs: 2}], pools: [{name: one, selectors: {pfNames: [enp1s0f0]}}]}")
	plan := PlanPolicies(state, []desired.Policy{policy}, []desired.Policy{next})
	if len(plan.PFs) != 1 || plan.PFs[0].PF != "enp1s0f0" {
		t.Fatalf("%+v", plan)
	}
	var hurt []string
	for _, h := range plan.PFs[0].Hurts {
		hurt = append(hurt, h.VF+" "+h.Owner.String())
	}
	want := []string{"enp1s0f0#0 pod default/a", "enp1s0f0#1 vm db1", "enp1s0f0#2 a pod to which the kubelet gave it", "enp1s0f0#3 testpmd"}
	if diff := cmp.Diff(want, hurt); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"the node's host.yaml has it", "the pools of 1 VFs"} {
		if !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("no %q in %q", want, plan.Notes)
		}
	}
	other := policyOf(t, "q", "{pfs: [{name: enp1s0f0, vfs: 3}]}")
	plan = PlanPolicies(state, []desired.Policy{policy}, []desired.Policy{policy, other})
	if len(plan.PFs) != 0 || !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.Contains(n, "policies p, q contradict each other") }) {
		t.Errorf("%+v", plan)
	}
}
