package nodestate

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Each field of a PF in a NodeState is read back, and written again as it was. So a new field needs
// both directions.
func TestFieldsOfPFs(t *testing.T) {
	wanted := int32(7)
	// A flapping link is written as one without carrier and speed: see TestFlappingPF.
	state := v1alpha1.PFState{
		Name: "enp1s0f0", AltNames: []string{"uplink"}, ID: "90:e2:ba:00:00:11", PCI: "0000:01:00.0", Vendor: "8086", Device: "10c9", Driver: "igb", NUMA: 1,
		Carrier: true, SpeedMbps: 1000, MTU: 1500, MaxMTU: 9216, TotalVFs: 7, WantedVFs: &wanted, NumVFs: 2, RDMA: true, Error: "gone", Segment: "storage",
		Faults: []string{"PCIe"}, Master: &v1alpha1.PFMaster{Name: "bond0", Kind: "bond", Mode: "active-backup"}, Unable: []string{"trust"},
	}
	requireAllFields(t, state, "Flapping")
	pf := api.PF{PF: ToPF(state), Segment: vf.Segment(state.Segment), WantedVFs: new(int), VFs: api.Counts{Total: 2}} // these are api.PF's own
	*pf.WantedVFs = int(wanted)
	if diff := cmp.Diff(state, FromPF(pf)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

func TestFlappingPF(t *testing.T) {
	got := FromPF(api.PF{PF: vf.PF{Carrier: true, SpeedMbps: 1000, Flapping: true}})
	if !got.Flapping || got.Carrier || got.SpeedMbps != 0 {
		t.Errorf("%+v: each change of its link would be a write", got)
	}
	if !ToPF(got).Flapping {
		t.Error("it is read back as steady")
	}
}

// Each field of a VF in a NodeState is read back, and written again as it was.
func TestFieldsOfVFs(t *testing.T) {
	state := v1alpha1.VFState{
		Name: "enp1s0f0#3", PCI: "0000:01:10.6", Phase: "attached", Pool: "culvert.dev/blue", Network: "default/storage", UsedBy: "open by qemu (process 12)", Claim: "default/fast",
		Owner: &v1alpha1.Owner{Kind: "pod", Name: "default/a", UID: "u", Interface: "net1"}, Bond: &v1alpha1.Bond{Mode: "active-backup", Links: 2},
		Addresses: []string{"10.0.0.1/24"}, Reason: "why", NoCarrier: true,
	}
	requireAllFields(t, state)
	id := vf.PFID{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, 0x11}}
	v := ToVF("node1", state, map[string]vf.PFID{"enp1s0f0": id})
	if want := (vf.ID{PF: id, Index: 3}); v.ID != want || v.PF != "enp1s0f0" || v.Index != 3 || v.Node != "node1" {
		t.Errorf("%v, PF %s, VF %d, node %s", v.ID, v.PF, v.Index, v.Node)
	}
	if diff := cmp.Diff(state, FromVF(v)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

// A NodeState does not show the phases that change with each retry, and lists few addresses.
func TestVFsInFewWords(t *testing.T) {
	for want, v := range map[string]api.VF{
		"quarantined":      {Phase: string(vf.PhaseReleasing), Attempts: 1},
		"releasing":        {Phase: string(vf.PhaseReleasing)},
		api.PhaseMissing:   {Phase: string(vf.PhaseAttached), Missing: true},
		api.PhaseOutside:   {Phase: api.PhaseOutside},
		"":                 {Addresses: make([]string, maxAddresses)},
		api.PhaseGiven:     {Phase: api.PhaseGiven, Addresses: make([]string, maxAddresses+3)},
		api.PhaseUnmanaged: {Phase: api.PhaseUnmanaged, Owner: &vf.Owner{}},
	} {
		got := FromVF(v)
		if got.Phase != want || got.Owner != nil || len(got.Addresses) > maxAddresses+1 {
			t.Errorf("%q: %+v", want, got)
		}
		if len(v.Addresses) > maxAddresses && got.Addresses[maxAddresses] != "and 3 more" {
			t.Errorf("%q", got.Addresses[maxAddresses])
		}
	}
	if v := ToVF("node1", v1alpha1.VFState{Name: "?", Phase: api.PhaseMissing}, nil); !v.Missing || v.PF != "" || v.Index != 0 {
		t.Errorf("%+v", v)
	}
}

// requireAllFields fails if a field of the struct is zero, but for those named.
func requireAllFields(t *testing.T, s any, but ...string) {
	t.Helper()
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && (len(but) == 0 || name != but[0]) {
			t.Errorf("the test sets no %s", name)
		}
	}
}
