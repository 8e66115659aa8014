package nodestate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

// A network or a policy is compared with the PF as its node reports it. Addresses that culvertd did
// not know are zero.
func TestToPF(t *testing.T) {
	whole := v1alpha1.PFState{
		Name: "enp1s0f0", AltNames: []string{"uplink"}, ID: "90:e2:ba:00:00:11", PCI: "0000:01:00.0", Vendor: "8086", Device: "10c9", Driver: "igb", NUMA: 1,
		Carrier: true, Flapping: true, SpeedMbps: 1000, MTU: 1500, MaxMTU: 9216, TotalVFs: 7, NumVFs: 2, RDMA: true, Error: "gone",
		Faults: []string{"a fault"}, Master: &v1alpha1.PFMaster{Name: "bond0", Kind: "bond", Mode: "active-backup"}, Unable: []string{"link_state"},
	}
	want := vf.PF{
		Name: "enp1s0f0", AltNames: []string{"uplink"}, ID: vf.PFID{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, 0x11}}, PCI: vf.PCIAddr{Bus: 1}, Vendor: "8086", Device: "10c9", Driver: "igb",
		NUMA: 1, IOMMUGroup: -1, Up: true, Carrier: true, Flapping: true, SpeedMbps: 1000, MTU: 1500, MaxMTU: 9216, TotalVFs: 7, NumVFs: 2, RDMA: true, Err: "gone",
		Faults: []vf.Fault{"a fault"}, Master: &vf.Master{Name: "bond0", Kind: "bond", Mode: "active-backup"}, Abilities: vf.Abilities{vf.SetLinkState: vf.No},
	}
	if diff := cmp.Diff(want, ToPF(whole)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(vf.PF{IOMMUGroup: -1}, ToPF(v1alpha1.PFState{ID: "?", PCI: "?"})); diff != "" {
		t.Errorf("without addresses, -want +got:\n%s", diff)
	}
}

func TestCountAiling(t *testing.T) {
	aside, dark := CountAiling([]v1alpha1.VFState{
		{Name: "enp1s0#0", Phase: "quarantined"},
		{Name: "enp1s0#1", Phase: "quarantined", NoCarrier: true},
		{Name: "enp2s0#0", Phase: "attached", NoCarrier: true},
		{Name: "enp2s0#1", Phase: "free"},
		{Phase: "quarantined"},
	})
	if diff := cmp.Diff([]map[string]int{{"enp1s0": 2, "": 1}, {"enp1s0": 1, "enp2s0": 1}}, []map[string]int{aside, dark}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
