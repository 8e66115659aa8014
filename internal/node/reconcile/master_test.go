package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// bondPFs makes the PFs of a machine the members of a bond or another interface of the host, which
// has an MTU.
func bondPFs(t *testing.T, k *fake.Kernel, kind string, mtu int) {
	t.Helper()
	pfs, err := k.PFs(t.Context())
	if err == nil {
		err = k.AddMaster("m0", kind, vf.BondActiveBackup)
	}
	if err == nil {
		err = k.SetMasterMTU("m0", mtu)
	}
	for _, pf := range pfs {
		if err == nil {
			err = k.JoinMaster(pf.PCI, "m0")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A PF in a bond or team of the host has the MTU of the bond. culvertd does not set the PF's MTU,
// and gives its VFs no larger one. It makes the VFs as always, and adapts their MTU when the bond's
// changes.
func TestMTUFollowsTheHostBond(t *testing.T) {
	for _, kind := range []string{vf.MasterBond, vf.MasterTeam} {
		t.Run(kind, func(t *testing.T) {
			h := boot(t, "pfs: [{name: enp1s0, vfs: 2, mtu: 9000}]\npools: [{name: a}]\n")
			bondPFs(t, h.k, kind, 4000)
			h.faults.Fail(func(m faulty.Moment, s step.Step) error {
				if s, is := s.(step.SetPFMTU); is && m == faulty.Before {
					t.Errorf("%s: %s sets it", s, kind)
				}
				return nil
			})
			for _, mtu := range []int{4000, 9000, 5000} {
				if err := h.k.SetMasterMTU("m0", mtu); err != nil {
					t.Fatal(err)
				}
				h.pass(t)
				pf, err := h.k.PF(t.Context(), h.Inventory.PFs()[0].PCI)
				if err != nil || pf.MTU != mtu || len(pf.VFs) != 2 || h.phases(t) != "map[free:2]" {
					t.Fatalf("%s of MTU %d: PF with MTU %d, VFs %s, %v", kind, mtu, pf.MTU, h.phases(t), err)
				}
				for _, v := range pf.VFs {
					if v.Link.MTU != mtu {
						t.Errorf("%s of MTU %d: %s has MTU %d", kind, mtu, v.Link.Name, v.Link.MTU)
					}
				}
				if plans, err := h.Reconciler.PlanFor(t.Context(), h.Spec()); err != nil || len(plans[0].Changes) != 0 {
					t.Errorf("%s of MTU %d: there is still to do: %v, %v", kind, mtu, plans[0].Changes, err)
				}
			}
			// culvertd does not set an MTU on the PF that is smaller than the bond's either.
			h.want(t, "pfs: [{name: enp1s0, vfs: 2, mtu: 1500}]\npools: [{name: a}]\n")
			h.pass(t)
			if pf, err := h.k.PF(t.Context(), h.Inventory.PFs()[0].PCI); err != nil || pf.MTU != 5000 || pf.VFs[0].Link.MTU != 1500 {
				t.Errorf("PF with MTU %d, VF with MTU %d, %v", pf.MTU, pf.VFs[0].Link.MTU, err)
			}
		})
	}
}

// A bridge leaves the MTU to its members, so culvertd sets it as always.
func TestMTUOfAPFInABridge(t *testing.T) {
	h := boot(t, "pfs: [{name: enp1s0, vfs: 1, mtu: 9000}]\npools: [{name: a}]\n")
	bondPFs(t, h.k, vf.MasterBridge, 1500)
	h.pass(t)
	if pf, err := h.k.PF(t.Context(), h.Inventory.PFs()[0].PCI); err != nil || pf.MTU != 9000 || pf.VFs[0].Link.MTU != 9000 {
		t.Errorf("PF with MTU %d, VF with MTU %d, %v", pf.MTU, pf.VFs[0].Link.MTU, err)
	}
}

// A PF in a bond has a carrier of its own. If its cable is out, the bond goes on with the other
// member, and culvertd makes no VFs on the PF.
func TestCarrierOfAPFInABond(t *testing.T) {
	h := boot(t, "pfs: [{name: 'enp*', vfs: 2}]\npools: [{name: a}]\n")
	bondPFs(t, h.k, vf.MasterBond, 1500)
	h.k.Cable(h.Inventory.PFs()[0].PCI, false)
	if err := h.Reconciler.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "PF enp1s0: no carrier") {
		t.Errorf("%v", err)
	}
	pfs, err := h.k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, pf := range pfs {
		got += fmt.Sprintf("%s carrier %t, %d VFs, active %s\n", pf.Name, pf.Carrier, len(pf.VFs), pf.Master.Active)
	}
	if want := "enp1s0 carrier false, 0 VFs, active enp2s0\nenp2s0 carrier true, 2 VFs, active enp2s0\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
