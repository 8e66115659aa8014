package reconcile_test

import (
	"context"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/vf"
)

// I5: a VF that is free in the ledger and used outside it keeps its PF's number of VFs:
// one that the kubelet gave to a pod without a network, and one that a process has open.
// A kubelet that does not answer keeps the number too. Force goes over all of them.
func TestI5UsedOutsideTheLedger(t *testing.T) {
	give := func(h *host, pod string, err error) {
		pci := h.Inventory.PFs()[0].VFs[1].PCI
		h.Engine.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
			return func(a vf.PCIAddr) string {
				if a == pci {
					return pod
				}
				return ""
			}, err
		}
	}
	for name, tc := range map[string]struct {
		use   func(h *host) error
		says  string
		hurts int // leases that the plan shows
	}{
		"given by the kubelet": {func(h *host) error { give(h, "default/dpdk", nil); return nil }, "vf 1: given by the kubelet to pod default/dpdk", 1},
		"the kubelet is down":  {func(h *host) error { give(h, "", vf.ErrNotReady); return nil }, "not known, so their number stays", 0},
		"open in a process": {func(h *host) error {
			return h.k.Open(h.Inventory.PFs()[0].VFs[1].PCI, vf.Process{PID: 4711, Name: "qemu"})
		}, "vf 1: open by qemu (process 4711)", 1},
	} {
		h := boot(t, "pfs: [{name: enp1s0, vfs: 4}]\npools: [{name: a, deviceType: vfio-pci}]\n")
		h.pass(t)
		if err := tc.use(h); err != nil {
			t.Fatal(err)
		}
		h.want(t, "pfs: [{name: enp1s0, vfs: 2}]\npools: [{name: a, deviceType: vfio-pci}]\n")
		if err := h.Reconciler.Pass(t.Context(), false); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
		if pfs, err := h.k.PFs(t.Context()); err != nil || pfs[0].NumVFs != 4 {
			t.Errorf("I5: %s: %d VFs, %v", name, pfs[0].NumVFs, err)
		}
		if plans, err := h.Reconciler.PlanFor(t.Context(), h.Spec()); err != nil || len(plans[0].Hurts) != tc.hurts {
			t.Errorf("%s: the plan hurts %v, %v", name, plans[0].Hurts, err)
		}
		if err := h.Reconciler.Pass(t.Context(), true); err != nil {
			t.Errorf("%s, forced: %v", name, err)
		}
		if pfs, err := h.k.PFs(t.Context()); err != nil || pfs[0].NumVFs != 2 {
			t.Errorf("%s, forced: %d VFs, %v", name, pfs[0].NumVFs, err)
		}
	}
}
