package status

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/api/nodestate"
	"github.com/culvert-net/culvert/internal/vf"
)

// The NodeState that TestFromNodeState reads is the one that culvertd writes for the node of these
// tests.
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

// A NodeState shows which VFs are one bond: those of one owner and interface.
func TestBondInNodeState(t *testing.T) {
	owner := &vf.Owner{Kind: vf.OwnerPod, Name: "d/a", UID: "c1", Interface: "net1"}
	bond := &vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF}
	s := ToNodeState(api.NodeStatus{VFs: []api.VF{{Name: "p#0", Owner: owner, Bond: bond, Netdevice: "net1a"}, {Name: "q#0", Owner: owner, Bond: bond, Netdevice: "net1b"}, {Name: "q#1"}}})
	want := &v1alpha1.Bond{Mode: "active-backup", Links: 2}
	if diff := cmp.Diff([]*v1alpha1.Bond{want, want, nil}, []*v1alpha1.Bond{s.VFs[0].Bond, s.VFs[1].Bond, s.VFs[2].Bond}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	back := FromNodeState(v1alpha1.NodeState{Status: s}, time.Time{}).VFs
	if back[0].Bond == nil || back[0].Bond.Links != 2 || back[0].Bond.Mode != bond.Mode || back[0].Owner.Interface != "net1" || back[0].Netdevice != "" || back[2].Bond != nil {
		t.Errorf("%+v", back)
	}
}

// A NodeState lists the Services for which its node has no room.
func TestServicesWithoutRoom(t *testing.T) {
	n := api.NodeStatus{}
	if s := ToNodeState(n); s.ServicesWithoutRoom != nil {
		t.Errorf("a node that balances nothing lists %q", s.ServicesWithoutRoom)
	}
	n.Services = &api.ServiceBalancing{NoRoom: []string{"default/web"}}
	if s := ToNodeState(n); !slices.Equal(s.ServicesWithoutRoom, n.Services.NoRoom) {
		t.Errorf("lists %q", s.ServicesWithoutRoom)
	}
}

// A NodeState has each warning of a network once, and every VF of the network has it again.
func TestNetworkWarnings(t *testing.T) {
	blue := []string{"x", "a"}
	n := api.NodeStatus{VFs: []api.VF{
		{Name: "p#0", Network: "d/red", Warnings: []string{"y"}}, {Name: "p#1", Network: "d/blue", Warnings: blue}, {Name: "p#2", Network: "d/blue", Warnings: blue[1:]}, {Name: "p#3"},
	}}
	s := ToNodeState(n)
	want := []v1alpha1.NetworkWarning{{Network: "d/blue", Text: "a"}, {Network: "d/blue", Text: "x"}, {Network: "d/red", Text: "y"}}
	if diff := cmp.Diff(want, s.NetworkWarnings); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	got := [][]string{}
	for _, v := range FromNodeState(v1alpha1.NodeState{Status: s}, time.Time{}).VFs {
		got = append(got, v.Warnings)
	}
	if diff := cmp.Diff([][]string{{"y"}, {"a", "x"}, {"a", "x"}, nil}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// ToNodeState keeps counts, owners and pools, and bounds the list of problems.
func TestToNodeState(t *testing.T) {
	owner := vf.Owner{Kind: vf.OwnerPod, UID: "u", Name: "d/a", Interface: "net1"}
	seven := 7
	n := api.NodeStatus{
		Version: "v1",
		PFs: []api.PF{{PF: vf.PF{Name: "enp1s0", PCI: vf.PCIAddr{Bus: 1}, TotalVFs: 7, Abilities: vf.Abilities{vf.Settings()[0]: vf.No, vf.Settings()[1]: vf.Yes}}, WantedVFs: &seven,
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

// A PF whose link is flapping is one problem, and its NodeState stays the same while the link
// comes and goes.
func TestFlappingPF(t *testing.T) {
	pf := igb(0, 7)
	pf.Flapping = true
	var states []v1alpha1.NodeStateStatus
	for _, carrier := range []bool{true, false} {
		pf.Carrier, pf.SpeedMbps = carrier, 0
		if carrier {
			pf.SpeedMbps = 1000
		}
		n := Assemble(Input{Spec: spec(t, "pfs: [{name: enp1s0f0, vfs: 7}]\n"), PFs: []vf.PF{pf}})
		if len(n.Problems) != 1 || n.Problems[0].Object != "PF enp1s0f0" || n.Problems[0].Reason != vf.DescribeFlapping() {
			t.Errorf("carrier %t: %+v", carrier, n.Problems)
		}
		states = append(states, ToNodeState(n))
	}
	if diff := cmp.Diff(states[0], states[1]); diff != "" {
		t.Errorf("with and without carrier:\n%s", diff)
	}
	back := FromNodeState(v1alpha1.NodeState{Status: states[0]}, time.Time{}).PFs[0]
	if !back.Flapping || back.Carrier {
		t.Errorf("%+v", back)
	}
}

// A VF in quarantine whose reset is retried is still in quarantine in the NodeState and its counts.
func TestRetryInNodeState(t *testing.T) {
	for phase, attempts := range map[vf.Phase]int{vf.PhaseQuarantined: 1, vf.PhaseReleasing: 1} {
		v := api.VF{Name: "enp1s0#0", Phase: string(phase), Attempts: attempts}
		if aside, _ := nodestate.CountAiling([]v1alpha1.VFState{nodestate.FromVF(v)}); aside["enp1s0"] != 1 {
			t.Errorf("%s: it is not in quarantine", phase)
		}
		if c := countVFs([]api.VF{v}); c.Quarantined != 1 {
			t.Errorf("%s: counts %+v", phase, c)
		}
	}
	if v := nodestate.FromVF(api.VF{Phase: string(vf.PhaseReleasing)}); v.Phase != string(vf.PhaseReleasing) {
		t.Errorf("a first release is %s", v.Phase)
	}
}
