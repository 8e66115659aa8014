package text

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// The VFs that QEMU has open are running with their guest; the guest's others are reserved. Pods'
// VFs, VFs that are not on the bus, and those of a cluster's picture are neither.
func TestRunningAndReserved(t *testing.T) {
	guest := func(change func(*api.VF)) api.VF {
		v := api.VF{Name: "enp1s0#0", Phase: "attached", Owner: &vf.Owner{Kind: vf.OwnerGuest, UID: "8a1c", Name: "db1", Interface: "net1"}}
		change(&v)
		return v
	}
	qemu := []vf.Process{{PID: 4711, Name: "qemu-system-x86"}}
	for name, tc := range map[string]struct {
		v     api.VF
		owner string
		shown string
	}{
		"running":     {guest(func(v *api.VF) { v.OpenBy = qemu }), "vm db1 (running)", "qemu-system-x86 (process 4711)"},
		"reserved":    {guest(func(*api.VF) {}), "vm db1 (reserved)", "no process: it is reserved"},
		"quarantined": {guest(func(v *api.VF) { v.Phase, v.OpenBy = "quarantined", qemu }), "vm db1", "qemu-system-x86 (process 4711)"},
		"missing":     {guest(func(v *api.VF) { v.Missing = true }), "vm db1", ""},
		"a cluster's": {guest(func(v *api.VF) { v.Node = "n1" }), "vm db1", ""},
		"a pod":       {guest(func(v *api.VF) { v.Owner.Kind, v.OpenBy = vf.OwnerPod, qemu }), "pod db1", "qemu-system-x86 (process 4711)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := formatOwner(tc.v); got != tc.owner {
				t.Errorf("owner %q, want %q", got, tc.owner)
			}
			shown := VF(tc.v, api.NodeStatus{}, Options{Look: screen.Look{Width: 200}})
			if (tc.shown != "") != strings.Contains(shown, "open by") || !strings.Contains(shown, tc.shown) {
				t.Errorf("want %q in:\n%s", tc.shown, shown)
			}
		})
	}
	list := Guests([]api.VF{guest(func(v *api.VF) { v.OpenBy = qemu }), guest(func(v *api.VF) { v.Owner.Interface = "net2" })}, Options{})
	for _, want := range []string{"STATE", "running", "reserved"} {
		if !strings.Contains(list, want) {
			t.Errorf("no %q in:\n%s", want, list)
		}
	}
}

func TestGuestDetachedWithoutVF(t *testing.T) {
	had := api.GuestVF{VF: vf.PCIAddr{Bus: 1}, Guest: vf.Owner{Kind: vf.OwnerGuest, Name: "db1", Interface: "net1"}, Phase: "free"}
	got := GuestDetached(api.GuestDetached{VFs: []api.GuestVF{had}, Devices: []string{"net1", "net2"}})
	want := `device net2 is taken out of the definition; it held no VF (a guest gives its VFs back when it stops)
VF 0000:01:00.0, which vm db1 had as net1, is free
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestGuestMigrated(t *testing.T) {
	for transport, want := range map[string]string{
		"":    "vm db1 is on host b\n",
		"ssh": "vm db1 is on host b; its memory went over ssh, encrypted\n",
		"tcp": "vm db1 is on host b; its memory went over tcp, not encrypted\n",
	} {
		if got := GuestMigrated(api.GuestMigrated{Guest: "db1", Host: "b", Transport: transport}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A PF that a guest has as a whole shows that guest in place of VFs.
func TestWholePF(t *testing.T) {
	five := 5
	if got := describeMade(api.PF{Owner: &vf.Owner{Kind: vf.OwnerGuest, Name: "db1"}, WantedVFs: &five}); got != "vm db1 has the whole PF" {
		t.Error(got)
	}
}
