package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// I5: culvertd does not change the number of VFs of a PF while a VF that is free in the ledger is
// used outside it. The kubelet may have given the VF to a pod without a network, or a process may
// have it open. culvertd does not change the number either while the kubelet does not answer. Force
// overrides all of that.
func TestI5UsedOutsideTheLedger(t *testing.T) {
	give := func(h *host, pod string, err error) {
		pci := h.Inventory.PFs()[0].VFs[1].PCI
		h.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
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
		"the kubelet is down":  {func(h *host) error { give(h, "", vf.ErrNotReady); return nil }, "so it does not change the number of VFs", 0},
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
		if err := h.Reconciler.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
		if pfs, err := h.k.PFs(t.Context()); err != nil || pfs[0].NumVFs != 4 {
			t.Errorf("I5: %s: %d VFs, %v", name, pfs[0].NumVFs, err)
		}
		if plans, err := h.Reconciler.PlanFor(t.Context(), h.Spec()); err != nil || len(plans[0].Hurts) != tc.hurts {
			t.Errorf("%s: the plan hurts %v, %v", name, plans[0].Hurts, err)
		}
		if err := h.Reconciler.Apply(t.Context(), true); err != nil {
			t.Errorf("%s, forced: %v", name, err)
		}
		if pfs, err := h.k.PFs(t.Context()); err != nil || pfs[0].NumVFs != 2 {
			t.Errorf("%s, forced: %d VFs, %v", name, pfs[0].NumVFs, err)
		}
	}
}

// culvertd takes over a VF of another program once the engine finds that it is unused. While the
// kubelet does not answer, it takes over none. An interface that is part of a bridge, or on which a
// program listens, is used. A VF that the kubelet gave to a pod is no problem.
func TestTakesOverAsBound(t *testing.T) {
	h := boot(t, "")
	pf := h.Inventory.PFs()[0]
	if err := h.k.Do(t.Context(), step.SetNumVFs{PF: pf.PCI, N: 5}); err != nil {
		t.Fatal(err)
	}
	pf, err := h.k.PF(t.Context(), pf.PCI)
	if err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(*vf.State){
		func(st *vf.State) { st.Driver, st.Link = vf.DriverVFIO, nil },
		func(st *vf.State) { st.Driver, st.Link = vf.DriverVFIO, nil },
		func(st *vf.State) { st.Link.Up = true },
		func(st *vf.State) { st.Link.Up, st.Link.Promisc = true, true },
		func(st *vf.State) { st.Link.Up = true },
	} {
		if err := h.k.Meddle(pf.VFs[i].PCI, change); err != nil {
			t.Fatal(err)
		}
	}
	const listens = "a program of the host listens on it as enp1s0v3 (AF_PACKET)"
	if err := errors.Join(h.k.SetAttribute(pf.VFs[4].PCI, "master", "7"), h.k.Occupy(pf.VFs[3].PCI, listens)); err != nil {
		t.Fatal(err)
	}
	config, err := desired.ParseDevicePlugin("config.json", []byte(`{"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["8086"]}}]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	h.SetSpec(desired.Spec{Pools: config.Pools})
	down := vf.ErrNotReady
	h.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(a vf.PCIAddr) string {
			if a == pf.VFs[1].PCI {
				return "default/testpmd"
			}
			return ""
		}, down
	}
	if err := h.Reconciler.Pass(t.Context()); err == nil || h.phases(t) != "map[]" || !strings.Contains(err.Error(), "culvertd cannot tell whether it is in use") {
		t.Errorf("the kubelet is down: %s, %v", h.phases(t), err)
	}
	down = nil
	h.VFs.Now = func() time.Time { return time.Now().Add(time.Minute) } // a silent kubelet is not asked again at once
	err = h.Reconciler.Pass(t.Context())
	if got := h.phases(t); got != "map[free:2]" {
		t.Errorf("%s are taken over", got)
	}
	for _, want := range []string{listens, "as enp1s0v4, a part of another interface"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if got := problems(h); strings.Contains(got, pf.VFs[1].PCI.String()) {
		t.Errorf("a pod's VF is a problem: %s", got)
	}
	for i, driver := range []string{vf.DriverVFIO, vf.DriverVFIO, "igbvf"} {
		if st, err := h.k.VF(t.Context(), pf.VFs[i].PCI, ""); err != nil || st.Driver != driver {
			t.Errorf("VF %d is bound to %s: %v", i, st.Driver, err)
		}
	}
}
