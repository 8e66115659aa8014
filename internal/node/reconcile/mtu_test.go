package reconcile_test

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// New VFs get the MTU of their PF, and free VFs get it when it changes. If the driver refuses the
// MTU, the VFs can still be given out, and a problem is reported.
func TestMTUReachesTheVFs(t *testing.T) {
	h := boot(t, "pfs: [{name: enp1s0, vfs: 2, mtu: 4000}]\npools: [{name: a}]\n")
	expect := func(what string, mtu int, phases string) {
		t.Helper()
		pf, err := h.k.PF(t.Context(), h.Inventory.PFs()[0].PCI)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range pf.VFs {
			if v.Link.MTU != mtu {
				t.Errorf("%s: %s has MTU %d, want %d", what, v.Link.Name, v.Link.MTU, mtu)
			}
		}
		if got := h.phases(t); got != phases {
			t.Errorf("%s: %s", what, got)
		}
	}
	h.pass(t)
	expect("made", 4000, "map[free:2]")
	h.want(t, "pfs: [{name: enp1s0, vfs: 2, mtu: 9000}]\npools: [{name: a}]\n")
	if plans, err := h.Reconciler.PlanFor(t.Context(), h.Spec()); err != nil || len(plans[0].Changes) != 3 {
		t.Errorf("the plan is %v, %v", plans[0].Changes, err)
	}
	h.pass(t)
	expect("changed", 9000, "map[free:2]")
	h.pass(t) // Tend does not reset them to the old MTU
	expect("a pass later", 9000, "map[free:2]")
	if plans, err := h.Reconciler.PlanFor(t.Context(), h.Spec()); err != nil || len(plans[0].Changes) != 0 {
		t.Errorf("the plan is %v, %v", plans[0].Changes, err)
	}
	h.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, is := s.(step.SetMTU); is {
			return vf.ErrInvalid
		}
		return nil
	})
	h.want(t, "pfs: [{name: enp1s0, vfs: 3, mtu: 8000}]\npools: [{name: a}]\n")
	for range 2 {
		if err := h.Reconciler.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "MTU 8000") {
			t.Errorf("refused: %v", err)
		}
		expect("refused", 1500, "map[free:3]")
	}
	h.faults.Fail(nil)
	h.pass(t)
	expect("accepted again", 8000, "map[free:3]")
}
