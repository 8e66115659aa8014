package status

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/vf"
)

// The NodeState that culvertd writes for the node of these tests is the one that
// TestFromNodeState reads.
func TestNodeStateIsWhatIsShown(t *testing.T) {
	raw, err := os.ReadFile("testdata/node.json")
	var n api.NodeStatus
	if err == nil {
		err = json.Unmarshal(raw, &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(ToNodeState(n), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const file = "testdata/nodestate.json"
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// ToNodeState keeps counts, owners and pools, and bounds the list of problems.
func TestToNodeState(t *testing.T) {
	owner := vf.Owner{Kind: vf.OwnerPod, UID: "u", Name: "d/a", Interface: "net1"}
	seven := 7
	n := api.NodeStatus{
		Version: "v1",
		PFs: []api.PF{{Name: "enp1s0", PCI: vf.PCIAddr{Bus: 1}, WantedVFs: &seven, TotalVFs: 7, Abilities: vf.Abilities{vf.Settings()[0]: vf.No, vf.Settings()[1]: vf.Yes},
			VFs: api.Counts{Total: 4, Used: 1, Free: 2, Quarantined: 1}}},
		VFs: []api.VF{
			{Name: "enp1s0#0", Phase: "attached", Owner: &owner, Network: "n", Addresses: []string{"10.0.0.2/24"}, Pool: "x/a"},
			{Name: "enp1s0#1", Phase: "quarantined", Reason: "stuck", Owner: &vf.Owner{}},
		},
		Pools:    []api.Pool{{Name: "x/a", DeviceType: "netdevice", PFs: []string{"enp1s0"}, VFs: api.Counts{Total: 4, Free: 2}}},
		Problems: slices.Repeat([]api.Problem{{Object: "o", Reason: "r", Next: "n"}}, 40),
	}
	s := ToNodeState(n)
	if want := (v1alpha1.Counts{PFs: 1, VFs: 4, Used: 1, Free: 2, Quarantined: 1}); s.Counts != want {
		t.Errorf("%+v", s.Counts)
	}
	if pf := s.PFs[0]; *pf.WantedVFs != 7 || pf.NumVFs != 4 || !slices.Equal(pf.Unable, []string{string(vf.Settings()[0])}) {
		t.Errorf("%+v", pf)
	}
	want := []v1alpha1.VFState{
		{Name: "enp1s0#0", PCI: n.VFs[0].PCI.String(), Phase: "attached", Pool: "x/a", Network: "n", Addresses: []string{"10.0.0.2/24"},
			Owner: &v1alpha1.Owner{Kind: "pod", Name: "d/a", UID: "u", Interface: "net1"}},
		{Name: "enp1s0#1", PCI: n.VFs[1].PCI.String(), Phase: "quarantined", Reason: "stuck"},
	}
	if diff := cmp.Diff(want, s.VFs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	ready := s.Conditions[0]
	if len(s.Problems) != MaxProblems || s.Pools[0].Free != 2 || ready.Reason != "Starting" {
		t.Errorf("%d problems, %+v, %+v", len(s.Problems), s.Pools, ready)
	}
}
