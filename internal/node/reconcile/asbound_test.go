package reconcile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// bindings returns the drivers of a PF's VFs, and the drivers in the baselines of their records.
func bindings(t *testing.T, h *host, pci vf.PCIAddr) string {
	t.Helper()
	pf, err := h.k.PF(t.Context(), pci)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[vf.PCIAddr]string{}
	err = h.Ledger.View(func(tx *journal.Tx) error {
		for _, r := range tx.Records() {
			wanted[r.PCI] = r.Baseline.Driver
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range pf.VFs {
		s := v.Driver
		if (wanted[v.PCI] == vf.DriverVFIO) != (v.Driver == vf.DriverVFIO) {
			s += fmt.Sprintf(" (recorded %q)", wanted[v.PCI])
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// A VF that another program bound to a driver of UIO stays as it is, with the reason.
func TestUIOIsNotTakenOver(t *testing.T) {
	h := boot(t, "")
	pf := h.Inventory.PFs()[0]
	if err := h.k.Do(t.Context(), step.SetNumVFs{PF: pf.PCI, N: 1}); err != nil {
		t.Fatal(err)
	}
	pf, err := h.k.PF(t.Context(), pf.PCI)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.k.Meddle(pf.VFs[0].PCI, func(st *vf.State) { st.Driver, st.Link = "igb_uio", nil }); err != nil {
		t.Fatal(err)
	}
	h.SetSpec(desired.Spec{Pools: []desired.Pool{{Name: "a", Prefix: "x", AsBound: true}}})
	err = h.Reconciler.Pass(t.Context())
	if err == nil || !strings.Contains(err.Error(), "bound to igb_uio by another program, whose /dev/uio Culvert gives to no pod") {
		t.Errorf("no reason in %v", err)
	}
	if st, err := h.k.VF(t.Context(), pf.VFs[0].PCI, ""); err != nil || st.Driver != "igb_uio" || h.phases(t) != "map[]" {
		t.Errorf("it is bound to %q, %s: %v", st.Driver, h.phases(t), err)
	}
}

// A VF in a pool of the device plugin keeps the driver that it is bound to. It does so when
// culvertd takes it over, when an owner has had it, and when an administrator binds another driver
// while it is free. In a pool of a NodePolicy or host.yaml, culvertd binds the pool's driver again.
func TestBindingInDevicePluginPoolsIsKept(t *testing.T) {
	h := boot(t, "")
	pf := h.Inventory.PFs()[0]
	bind := func(i int, driver string) {
		t.Helper()
		pf, err := h.k.PF(t.Context(), pf.PCI)
		if err == nil {
			err = errors.Join(h.k.Do(t.Context(), step.Unbind{VF: pf.VFs[i].PCI}), h.k.Do(t.Context(), step.Bind{VF: pf.VFs[i].PCI, Driver: driver}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, drivers string) {
		t.Helper()
		if got := bindings(t, h, pf.PCI); got != drivers {
			t.Errorf("%s: %s, want %s", when, got, drivers)
		}
		if got := h.phases(t); got != "map[free:2]" {
			t.Errorf("%s: %s", when, got)
		}
	}
	if err := h.k.Do(t.Context(), step.SetNumVFs{PF: pf.PCI, N: 2}); err != nil {
		t.Fatal(err)
	}
	bind(0, vf.DriverVFIO)
	config, err := desired.ParseDevicePlugin("config.json", []byte(`{"resourceList": [
		{"resourceName": "dpdk", "selectors": {"drivers": ["vfio-pci"]}}, {"resourceName": "net", "selectors": {"drivers": ["igbvf"]}}]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	h.SetSpec(desired.Spec{Pools: config.Pools})
	h.pass(t)
	want("taken over", "vfio-pci, igbvf")

	h.k.AddNetns("/run/netns/a")
	for _, pool := range []string{"intel.com/dpdk", "intel.com/net"} {
		owner := vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}
		if _, err := h.Engine.Attach(t.Context(), attach.Request{Owner: owner, Pool: pool, Netns: "/run/netns/a", Spec: vf.Spec{Interface: "net1"}}); err != nil {
			t.Fatal(err)
		}
		if err := h.Resets.Detach(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		h.VFs.Wait()
		h.pass(t)
		want("after an owner from "+pool, "vfio-pci, igbvf")
	}

	bind(0, vf.DriverDefault)
	bind(1, vf.DriverVFIO)
	h.pass(t)
	want("bound anew while free", "igbvf, vfio-pci")
	h.pass(t)
	want("a pass later", "igbvf, vfio-pci")

	h.want(t, "pools: [{name: a}]")
	h.pass(t)
	want("in a pool of host.yaml", "igbvf, igbvf")
}
