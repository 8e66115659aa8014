package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
)

// mtus returns the MTU of the first PF and of its VFs.
func (h *host) mtus(t *testing.T) string {
	t.Helper()
	pf, err := h.k.PF(t.Context(), h.Inventory.PFs()[0].PCI)
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprint(pf.MTU)
	for _, v := range pf.VFs {
		out += fmt.Sprint(" ", v.Link.MTU)
	}
	return out
}

// The free VFs of each pool get the pool's MTU. culvertd raises the PF's MTU to the largest one, and
// never lowers it: neither for a pool of a smaller one, nor when the pool of the largest one goes.
func TestMTUOfPools(t *testing.T) {
	const pfs = "pfs: [{name: enp1s0, vfs: 4}]\n"
	h := boot(t, pfs+"pools: [{name: a, mtu: 9000, selectors: {pfNames: ['enp1s0#0-1']}}, {name: b, mtu: 1500}]\n")
	h.pass(t)
	for _, tc := range []struct{ name, text, want string }{
		{"the first", "", "9000 9000 9000 1500 1500"},
		{"a smaller one", pfs + "pools: [{name: a, mtu: 4000, selectors: {pfNames: ['enp1s0#0-1']}}, {name: b, mtu: 1500}]\n", "9000 4000 4000 1500 1500"},
		{"beside the MTU of the PF", "pfs: [{name: enp1s0, vfs: 4, mtu: 2000}]\npools: [{name: a, mtu: 4000, selectors: {pfNames: ['enp1s0#0-1']}}, {name: b}]\n", "4000 4000 4000 2000 2000"},
		{"of a PF that is left alone", "pools: [{name: a, mtu: 9000, selectors: {pfNames: ['enp1s0#0-1']}}, {name: b, mtu: 1500}]\n", "4000 4000 4000 1500 1500"},
	} {
		if tc.text != "" {
			h.want(t, tc.text)
			h.pass(t)
		}
		if got := h.mtus(t); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		if plans, err := h.Reconciler.PlanFor(t.Context(), h.Spec()); err != nil || len(plans) > 0 && len(plans[0].Changes) != 0 {
			t.Errorf("%s: there is still to do: %v, %v", tc.name, plans[0].Changes, err)
		}
	}
}

// A PF whose MTU a person lowers gets the MTU of its pools again.
func TestMTUOfPoolsIsKept(t *testing.T) {
	h := boot(t, "pfs: [{name: enp1s0, vfs: 1}]\npools: [{name: a, mtu: 9000}]\n")
	h.pass(t)
	if err := h.k.Do(t.Context(), step.SetPFMTU{PF: h.Inventory.PFs()[0].PCI, MTU: 1500}); err != nil {
		t.Fatal(err)
	}
	h.pass(t)
	if got := h.mtus(t); got != "9000 9000" {
		t.Error(got)
	}
}
