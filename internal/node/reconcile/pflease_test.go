package reconcile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

// I5: a PF that a guest has as a whole makes no VFs, whatever host.yaml wants, and the problem names
// the guest. culvertd is ready without it. Culvert makes the VFs once the guest has ended.
func TestI5PFOfAGuestMakesNoVFs(t *testing.T) {
	h := bootWith(t, fake.IGB, 1, "")
	pf := h.Inventory.PFs()[0]
	update := func(f func(*journal.Tx) error) {
		t.Helper()
		if err := h.Ledger.Update(f); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx *journal.Tx) error {
		return tx.LeasePF(journal.NewPFLease(pf, vf.Owner{UID: "u1", Name: "db1"}))
	})
	h.want(t, "pfs: [{name: enp1s0, vfs: 2, mtu: 9000}]\npools: [{name: a}]")
	for _, apply := range []func() error{
		func() error { return h.Reconciler.Pass(t.Context()) },
		func() error { return h.Reconciler.Apply(t.Context(), true) },
	} {
		if err := apply(); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "guest db1 has it as a whole") {
			t.Error(err)
		}
	}
	if now, err := h.k.PF(t.Context(), pf.PCI); err != nil || now.NumVFs != 0 || now.MTU != pf.MTU || now.Up != pf.Up {
		t.Errorf("the PF was changed: %+v, %v", now, err)
	}
	update(func(tx *journal.Tx) error { return tx.EndPFLease(pf.PCI) })
	h.pass(t)
	if got := h.phases(t); got != "map[free:2]" {
		t.Error(got)
	}
}

// I5: a guest takes a PF between the plan for its VFs and the first change: Culvert makes none.
func TestI5GuestTakesThePFMeanwhile(t *testing.T) {
	h := bootWith(t, fake.IGB, 1, "")
	pf := h.Inventory.PFs()[0]
	h.want(t, "pfs: [{name: enp1s0, vfs: 2}]\npools: [{name: a}]")
	h.faults.Fail(func(_ faulty.Moment, s step.Step) error {
		if _, waits := s.(step.WaitCarrier); waits {
			return h.Ledger.Update(func(tx *journal.Tx) error {
				return tx.LeasePF(journal.NewPFLease(pf, vf.Owner{UID: "u1", Name: "db1"}))
			})
		}
		return nil
	})
	if err := h.Reconciler.Pass(t.Context()); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "guest db1 has it as a whole") {
		t.Error(err)
	}
	if now, err := h.k.PF(t.Context(), pf.PCI); err != nil || now.NumVFs != 0 || h.phases(t) != "map[]" {
		t.Errorf("%d VFs, %s, %v", now.NumVFs, h.phases(t), err)
	}
}

// The host sees no name of a PF that a guest has. The entry of host.yaml that names it is about this
// PF all the same, and a PF that host.yaml does not want is no problem.
func TestPFOfAGuestKeepsItsEntry(t *testing.T) {
	was := vf.PF{PCI: vf.PCIAddr{Bus: 1}, Name: "enp1s0", Driver: "igb"}
	leases := []journal.PFLease{journal.NewPFLease(was, vf.Owner{UID: "u1", Name: "db1"})}
	now := []vf.PF{{PCI: was.PCI, Driver: "vfio-pci", Err: "driver vfio-pci has no netdevice"}}
	for _, tt := range []struct {
		spec    desired.Spec
		problem bool
	}{
		{desired.Spec{PFs: []desired.PFRule{{Name: "enp1s0"}}}, true},
		{desired.Spec{PFs: []desired.PFRule{{Driver: "igb"}}}, true},
		{desired.Spec{Pools: []desired.Pool{{Name: "a", Prefix: "x"}}}, false},
	} {
		p := reconcile.Plan(tt.spec, now, nil, leases)[0]
		if (p.Err != nil) != tt.problem || len(p.Changes) > 0 || p.PF.Name != "enp1s0" {
			t.Errorf("%v: %v, changes %v, PF %s", tt.spec.PFs, p.Err, p.Changes, p.PF.Name)
		}
		if left := tt.spec.Unmatched(journal.IdentifyPFs(now, leases)); len(left) > 0 {
			t.Errorf("%v is about no PF", left)
		}
	}
}
