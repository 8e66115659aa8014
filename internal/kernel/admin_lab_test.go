package kernel_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestLabAdminSettings(t *testing.T) {
	n := labNode(t)
	pf, index := n.pfs[0].PCI, 3
	mac := vf.MAC{2, 0, 0x5e, 0x10, 0, 1}
	n.timed(step.SetVFMAC{PF: pf, Index: index, MAC: mac})
	n.timed(step.SetVFVLAN{PF: pf, Index: index, VLAN: vf.VLAN{ID: 100, QoS: 3}})
	n.timed(step.SetVFSwitch{PF: pf, Index: index, Setting: vf.SetSpoofChk, On: false})
	n.timed(step.SetVFSwitch{PF: pf, Index: index, Setting: vf.SetTrust, On: true})
	n.timed(step.SetVFRate{PF: pf, Index: index, Max: 200})
	want := vf.Admin{
		MAC: mac, VLAN: vf.VLAN{ID: 100, QoS: 3, Proto: vf.Dot1Q},
		SpoofChk: vf.No, Trust: vf.Yes, MaxTxRate: 200,
	}
	if diff := cmp.Diff(want, n.vf(0, index, "").Admin); diff != "" {
		t.Errorf("VF 3 (-want +got):\n%s", diff)
	}
	n.do(
		step.SetVFVLAN{PF: pf, Index: index},
		step.SetVFSwitch{PF: pf, Index: index, Setting: vf.SetSpoofChk, On: true},
		step.SetVFSwitch{PF: pf, Index: index, Setting: vf.SetTrust, On: false},
		step.SetVFRate{PF: pf, Index: index},
		step.SetVFMAC{PF: pf, Index: index},
		step.SetVFMAC{PF: pf, Index: index}, // clear already
	)
	if diff := cmp.Diff(vf.Admin{SpoofChk: vf.Yes, Trust: vf.No}, n.vf(0, index, "").Admin); diff != "" {
		t.Errorf("VF 3 afterwards (-want +got):\n%s", diff)
	}
}

func TestLabUnable(t *testing.T) {
	n := labNode(t)
	pf := n.pfs[0].PCI
	for _, s := range []step.Step{
		step.SetVFLinkState{PF: pf, Index: 0, State: vf.LinkEnable},
		step.SetVFSwitch{PF: pf, Index: 0, Setting: vf.SetRSSQuery, On: true},
		step.SetVFVLAN{PF: pf, Index: 0, VLAN: vf.VLAN{ID: 5, Proto: vf.Dot1AD}},
		step.SetVFRate{PF: pf, Index: 0, Min: 10, Max: 100},
		step.SetVFRate{PF: pf, Index: 0, Max: 5000}, // the link has 1000
		step.SetPFMTU{PF: pf, MTU: 60000},
	} {
		err := n.Do(n.context(), s)
		if !errors.Is(err, vf.ErrUnable) {
			t.Errorf("%s: %v", s, err)
		}
		t.Log(err)
	}
	if diff := cmp.Diff(vf.Admin{SpoofChk: vf.Yes, Trust: vf.No}, n.vf(0, 0, "").Admin); diff != "" {
		t.Errorf("VF 0 after what was refused (-want +got):\n%s", diff)
	}
}

func TestLabProbeAbilities(t *testing.T) {
	n := labNode(t)
	before := n.vf(1, 0, "")
	got, err := n.Probe(n.context(), n.pfs[1].PCI, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := vf.Abilities{
		vf.SetVLAN: vf.Yes, vf.SetVLANProto: vf.No, vf.SetSpoofChk: vf.Yes, vf.SetTrust: vf.Yes,
		vf.SetLinkState: vf.No, vf.SetMaxTxRate: vf.Yes, vf.SetRSSQuery: vf.No,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("abilities (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, n.vf(1, 0, "")); diff != "" {
		t.Errorf("asking changed the VF (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(vf.Abilities{vf.SetRSSQuery: vf.No}, n.pfs[1].Abilities); diff != "" {
		t.Errorf("abilities by reading (-want +got):\n%s", diff)
	}
}

// The kernel's VF driver takes the admin MAC when it binds, and from then on
// the VF cannot have another.
func TestLabAdminMAC(t *testing.T) {
	n := labNode(t)
	s := n.bound(0, 1)
	if want := vf.StableMAC(n.pfs[0].ID, 1); s.Link.MAC != want || s.Admin.MAC != want {
		t.Errorf("link has %s and the PF %s, want %s", s.Link.MAC, s.Admin.MAC, want)
	}
	err := n.Do(n.context(), step.SetLinkMAC{VF: s.PCI, MAC: vf.MAC{2, 1, 1, 1, 1, 1}})
	if !errors.Is(err, vf.ErrUnable) {
		t.Errorf("another MAC from the VF's side: %v", err)
	}
	other := vf.MAC{2, 9, 9, 9, 9, 9}
	n.do(step.SetVFMAC{PF: n.pfs[0].PCI, Index: 1, MAC: other})
	if s := n.vf(0, 1, ""); s.Link.MAC == other {
		t.Error("the netdevice took the admin MAC at once: the trap is gone")
	}
	n.do(step.Unbind{VF: s.PCI}, step.Bind{VF: s.PCI})
	if s := n.vf(0, 1, ""); s.Link.MAC != other {
		t.Errorf("rebound, the link has %s, want %s", s.Link.MAC, other)
	}
}
