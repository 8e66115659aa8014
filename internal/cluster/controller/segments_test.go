package controller

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// stateOn returns a node whose resource intel.com/x has VFs of two PFs on these segments.
func stateOn(name, first, second string) *v1alpha1.NodeState {
	s := igbState()
	s.Name = name
	s.Status.PFs[0].Segment = first
	s.Status.PFs = append(s.Status.PFs, v1alpha1.PFState{Name: "enp2s0", ID: "02:00:00:00:00:02", PCI: "0000:02:00.0", Driver: "igb", MTU: 1500, Segment: second})
	s.Status.Pools[0].PFs = []string{"enp1s0", "enp2s0"}
	return s
}

// The webhook refuses the bond that no node can make, warns where some nodes cannot start a
// network's pods, and accepts a segment that a policy may name a moment later.
func TestSegmentsOfNetworks(t *testing.T) {
	split, storage, front := stateOn("split", "storage", "front"), stateOn("s", "storage", "storage"), stateOn("f", "front", "")
	for name, tc := range map[string]struct {
		states  []*v1alpha1.NodeState
		keys    string
		refusal string
		warning string
	}{
		"on it":                    {[]*v1alpha1.NodeState{storage}, `"segment":"storage"`, "", ""},
		"elsewhere":                {[]*v1alpha1.NodeState{front}, `"segment":"storage"`, "", "segment storage: resource intel.com/x has on node f segment front (enp1s0): the network's pods cannot start there"},
		"nowhere yet":              {[]*v1alpha1.NodeState{stateOn("n", "", "")}, `"segment":"storage"`, "", "segment storage: resource intel.com/x has on node n no PF whose segment is named: the network's pods cannot start there"},
		"elsewhere on one node":    {[]*v1alpha1.NodeState{storage, front}, `"segment":"storage"`, "", "segment storage: resource intel.com/x has on node f"},
		"wrong":                    {[]*v1alpha1.NodeState{storage}, `"segment":"Storage"`, "spec.config: segment: \"Storage\": want a name such as storage", ""},
		"a resource over two":      {[]*v1alpha1.NodeState{split}, `"mtu":1400`, "", "node split gives out no VF of resource intel.com/x, which is on two segments: segment front (enp2s0) and segment storage (enp1s0): give each segment a pool of its own"},
		"a bond over two":          {[]*v1alpha1.NodeState{split}, `"bond":{}`, "spec.config: bond: resource intel.com/x has VFs on two segments, on node split segment front (enp2s0) and segment storage (enp1s0): give the bond a pool on one segment", ""},
		"a bond over two of one":   {[]*v1alpha1.NodeState{split, storage}, `"bond":{}`, "", "node split gives out no VF of resource intel.com/x"},
		"a bond over one and none": {[]*v1alpha1.NodeState{front}, `"bond":{}`, "", ""},
	} {
		c := newCluster()
		for _, s := range tc.states {
			if err := c.Create(t.Context(), s.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		raw, _ := json.Marshal(map[string]any{
			"metadata": map[string]any{"name": "n", "namespace": "default", "annotations": map[string]any{"k8s.v1.cni.cncf.io/resourceName": "intel.com/x"}},
			"spec":     map[string]any{"config": `{"type":"culvert","cniVersion":"1.1.0",` + tc.keys + `}`},
		})
		got := (&networks{client: c}).Handle(t.Context(), request(string(raw)))
		message := ""
		if got.Result != nil {
			message = got.Result.Message
		}
		if got.Allowed != (tc.refusal == "") || !strings.HasPrefix(message, tc.refusal) || tc.warning == "" && len(got.Warnings) > 0 || tc.warning != "" && (len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], tc.warning)) {
			t.Errorf("%s: allowed %t %q, warnings %q", name, got.Allowed, message, got.Warnings)
		}
	}
}

// A policy that puts a pool of its own on two segments of a node is accepted with a warning.
func TestPolicyWithAPoolOverTwoSegments(t *testing.T) {
	c := newCluster(stateOn("worker01", "", ""), newNode("worker01", nil))
	spec := `{"pfs":[{"name":"enp1s0","vfs":2,"segment":"storage"},{"name":"enp2s0","vfs":0,"segment":"front"}],"pools":[{"name":"x"}]}`
	judge := func(spec string) []string {
		got := (&nodePolicies{client: c}).Handle(t.Context(), request(`{"metadata":{"name":"p"},"spec":`+spec+`}`))
		if !got.Allowed {
			t.Fatalf("%+v", got.Result)
		}
		return got.Warnings
	}
	if got := judge(spec); len(got) != 0 {
		t.Errorf("a PF without VFs: %q", got)
	}
	got := judge(strings.Replace(strings.Replace(spec, `"vfs":0`, `"vfs":2`, 1), `"vfs":2`, `"vfs":"max"`, 1))
	if len(got) == 0 || !strings.HasPrefix(got[0], "node worker01: pools[0]: pool culvert.dev/x would give out no VF: it would have VFs on two segments") {
		t.Errorf("%q", got)
	}
}
