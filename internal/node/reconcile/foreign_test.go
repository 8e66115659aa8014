package reconcile_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

func bootWith(t *testing.T, p fake.Profile, pfs int, text string) *host {
	t.Helper()
	k := fake.New(p, pfs)
	h := &host{k: k, faults: faulty.New(k), path: filepath.Join(t.TempDir(), "ledger.db")}
	h.start(t, "boot 1", text)
	return h
}

// A driver accepts the write to sriov_numvfs and makes no VFs. Each pass reports that, and no
// request gets a VF that does not exist.
func TestDriverThatMakesNoVFs(t *testing.T) {
	h := bootWith(t, fake.Deaf, 1, "pfs: [{driver: i40e, vfs: 2}]\npools: [{name: a}]")
	for range 2 {
		if err := h.Reconciler.Pass(t.Context()); !errors.Is(err, vf.ErrUnable) {
			t.Error(err)
		}
		if got := problems(h); !strings.Contains(got, "PF enp1s0") || !strings.Contains(got, "the driver took the write, but sriov_numvfs is 0") {
			t.Error(got)
		}
		if got := h.phases(t); strings.Contains(got, "free") {
			t.Error(got)
		}
	}
}

// The PFs of a T6 are selected by the name of their port. The port has the MTU and the admin state
// of all PFs that share it.
func TestSplitCard(t *testing.T) {
	h := bootWith(t, fake.CXGB4, 4, "pfs: [{name: enp1s0f4, vfs: 3, mtu: 9000}]\npools: [{name: a, selectors: {drivers: [cxgb4vf]}}]")
	h.pass(t)
	pfs, err := h.k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, pf := range pfs {
		got += fmt.Sprintf("%s %s up %t mtu %d %d VFs\n", pf.ID, pf.Port, pf.Up, pf.MTU, len(pf.VFs))
		for _, v := range pf.VFs {
			if want := vf.StableMAC(pf.ID, v.ID.Index); v.Admin.MAC != want || v.Link.MAC != want {
				t.Errorf("%s: %s %s", v.ID, v.Admin.MAC, v.Link.MAC)
			}
		}
	}
	want := `52:54:00:c0:00:01/pf0 enp1s0f4 up true mtu 9000 3 VFs
52:54:00:c0:00:01/pf1 enp1s0f4d1 up false mtu 1500 0 VFs
52:54:00:c0:00:01/pf2 enp1s0f4 up true mtu 9000 3 VFs
52:54:00:c0:00:01/pf3 enp1s0f4d1 up false mtu 1500 0 VFs
`
	if got != want {
		t.Error(got)
	}
}

// I7: culvertd reports a PF that it cannot read as a problem only where host.yaml, a
// pool or the ledger names it.
func TestI7UnreadablePFThatNobodyWants(t *testing.T) {
	read := vf.PF{PCI: vf.PCIAddr{Bus: 1}, Driver: "vfio-pci", Err: "driver vfio-pci has no netdevice"}
	known := read
	known.ID = vf.PFID{MAC: vf.MAC{2, 1}}
	withVF := read
	withVF.VFs = []vf.State{{PCI: vf.PCIAddr{Bus: 1, Function: 2}}}
	all := []desired.Pool{{Name: "a", Prefix: "x"}}
	for _, tt := range []struct {
		name    string
		spec    desired.Spec
		pf      vf.PF
		records []journal.Record
		problem bool
	}{
		{"nobody's", desired.Spec{Pools: all}, read, nil, false},
		{"in host.yaml", desired.Spec{PFs: []desired.PFRule{{Driver: "vfio-pci"}}}, read, nil, true},
		{"a VF in a pool", desired.Spec{Pools: all}, withVF, nil, true},
		{"VFs in no pool", desired.Spec{}, withVF, nil, false},
		{"in the ledger", desired.Spec{}, known, []journal.Record{{ID: vf.ID{PF: known.ID}}}, true},
	} {
		plans := reconcile.Plan(tt.spec, []vf.PF{tt.pf}, tt.records, nil)
		if got := plans[0].Err != nil; got != tt.problem || len(plans[0].Changes) > 0 {
			t.Errorf("%s: %v %v", tt.name, plans[0].Err, plans[0].Changes)
		}
	}
}

// bnx2x reports a max_tx_rate of 10000 for each VF and sets none (report R4's card). So VFs that exist
// before Culvert are taken over with that value, and it is no dirt afterwards, whatever it becomes.
func TestI2ValueThatTheDriverCannotSetIsNoDirt(t *testing.T) {
	h := bootWith(t, fake.BNX2X, 1, "")
	pf := h.Inventory.PFs()[0]
	for _, s := range []step.Step{
		step.SetPFUp{PF: pf.PCI}, step.SetNumVFs{PF: pf.PCI, N: 3},
		step.SetVFVLAN{PF: pf.PCI, Index: 1, VLAN: vf.VLAN{ID: 7}}, // which the driver can set
	} {
		if err := h.k.Do(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	h.want(t, "pfs: [{name: enp1s0, vfs: 3}]\npools: [{name: a}]")
	h.pass(t)
	if got := h.phases(t); got != "map[free:3]" {
		t.Errorf("taken over: %s", got)
	}
	for _, r := range h.all(t) {
		if a := r.Baseline.Admin; a.MaxTxRate != 10000 || a.VLAN.String() != "none" {
			t.Errorf("baseline %+v", a)
		}
		if err := h.k.Meddle(r.PCI, func(st *vf.State) { st.Admin.MaxTxRate = 20000 }); err != nil {
			t.Fatal(err)
		}
	}
	h.k.AddNetns("/run/netns/p")
	for i := range 3 {
		rec, err := h.Engine.Attach(t.Context(), attach.Request{
			Owner:   vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(i), Interface: "net1"},
			Network: "n", Pool: "a", Netns: "/run/netns/p", Spec: vf.Spec{Interface: "net1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
			t.Fatal(err)
		}
	}
	h.pass(t)
	if got := h.phases(t); got != "map[free:3]" {
		t.Errorf("after attaches: %s", got)
	}
}

// I2: the PF's driver keeps the settings of VFs that are destroyed. A VF that Culvert makes has none
// of them.
func TestI2MadeVFsHaveNoSettingsOfEarlierOnes(t *testing.T) {
	h := bootWith(t, fake.RVU, 1, "")
	pf := h.Inventory.PFs()[0].PCI
	for _, s := range []step.Step{
		step.SetPFUp{PF: pf}, step.SetNumVFs{PF: pf, N: 2},
		step.SetVFVLAN{PF: pf, Index: 0, VLAN: vf.VLAN{ID: 7}}, step.SetVFSwitch{PF: pf, Index: 1, Setting: vf.SetTrust, On: true},
		step.SetNumVFs{PF: pf, N: 0},
	} {
		if err := h.k.Do(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	h.want(t, "pfs: [{name: enp1s0, vfs: 2}]\npools: [{name: a}]")
	h.pass(t)
	if got := h.phases(t); got != "map[free:2]" {
		t.Error(got)
	}
	for _, r := range h.all(t) {
		if a := r.Baseline.Admin; a.VLAN.String() != "none" || a.Trust != vf.No {
			t.Errorf("VF %d: baseline %+v", r.ID.Index, a)
		}
	}
}
