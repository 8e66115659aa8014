package pod_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

const bond = `{"type":"culvert","cniVersion":"1.1.0","name":"pair","bond":{"links":2},"ipam":{"type":"host-local","scope":"node","subnet":"172.16.91.0/24"}}`

// members returns the VFs of the pod's bond, by the ledger.
func (w *world) members() (out []string) {
	for _, r := range w.content().Records {
		if r.Phase == vf.PhaseAttached && r.Lease.Bond != nil && r.Lease.Owner.Interface == "net1" {
			out = append(out, r.PCI.String()+" "+r.Lease.Wanted.Interface)
		}
	}
	slices.Sort(out)
	return out
}

// A pod's bond is made of the VFs that the kubelet gave the pod, whatever their order. Another
// network of the resource gets the rest.
func TestPodWithABond(t *testing.T) {
	w := newWorldOn(t, hostFile, 2)
	w.network("pair", bond, "intel.com/fast")
	w.network("single", strings.Replace(sriov, "172.16.91", "172.16.92", 2), "intel.com/fast")
	w.asks("pair,single")
	all := w.vfs() // four of each PF
	w.given["d/a/intel.com/fast"] = []vf.PCIAddr{all[1], all[2], all[5]}
	w.add()
	if got, want := fmt.Sprint(w.members()), fmt.Sprintf("[%s net1a %s net1b]", all[1], all[5]); got != want {
		t.Errorf("members %s, want %s", got, want)
	}
	status := w.status()
	if s := status[1]; s["interface"] != "net1" || fmt.Sprint(s["ips"]) != "[172.16.91.2]" || s["mtu"] != 1500.0 || s["mac"] == "" || len(status) != 3 {
		t.Errorf("network-status: %v", status)
	}
	if s := fmt.Sprint(status[2]["device-info"]); !strings.Contains(s, all[2].String()) {
		t.Errorf("the other network has %s, want VF %s", s, all[2])
	}
	if resp := w.call("CHECK", ""); resp.Exit != 0 {
		t.Errorf("CHECK: %s", resp.Stdout)
	}
	w.del()
	w.clean()
}

// A bond for user space has no interface: the network-status has an element for each VF, with the
// device that it is. The device-info file has the first VF, which is not the first of the ledger.
func TestPodWithABondForUserSpace(t *testing.T) {
	w := newWorldOn(t, hostFile+"  deviceType: vfio-pci\n", 2)
	w.network("pair", bond, "intel.com/fast")
	w.asks("pair")
	all := w.vfs()
	first, second := all[4], all[0]
	w.given["d/a/intel.com/fast"] = []vf.PCIAddr{first, second}
	w.add()
	status := w.status()
	if len(status) != 3 {
		t.Fatalf("network-status: %v", status)
	}
	for i, want := range map[int][]string{1: {"net1", first.String()}, 2: {"net1b", second.String()}} {
		s := status[i]
		if info := fmt.Sprint(s["device-info"]); s["name"] != "d/pair" || s["interface"] != want[0] || !strings.Contains(info, "pci-address:"+want[1]) || !strings.Contains(info, "pf-pci-address:") || s["mac"] == "" {
			t.Errorf("element %d: %v, want %s with VF %s", i, s, want[0], want[1])
		}
	}
	if status[1]["mac"] == status[2]["mac"] {
		t.Errorf("both VFs have MAC address %s", status[1]["mac"])
	}
	if raw, err := os.ReadFile(filepath.Join(w.dir, "devinfo", "cni", "c1-net1-device.json")); err != nil || !strings.Contains(string(raw), first.String()) {
		t.Errorf("device-info: %s, %v", raw, err)
	}
	w.del()
	w.clean()
	described := `{"type":"pci","version":"1.1.0","pci":{"pci-address":"of-the-device-plugin"}}`
	dir := filepath.Join(w.dir, "devinfo", "dp")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "intel.com-fast-"+second.String()+"-device.json"), []byte(described), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.add()
	if info := fmt.Sprint(w.status()[2]["device-info"]); !strings.Contains(info, "of-the-device-plugin") {
		t.Errorf("the second VF: %s, want the description of the device plugin", info)
	}
}

// The kubelet gave the pod VFs of one PF. The pod is refused with the reason and an event; Culvert
// takes no other VF.
func TestPodWithABondOfOnePF(t *testing.T) {
	w := newWorldOn(t, hostFile, 2)
	w.network("pair", bond, "intel.com/fast")
	w.asks("pair")
	all := w.vfs()
	given := map[vf.PCIAddr]string{all[0]: "d/a", all[1]: "d/a"}
	w.node.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(a vf.PCIAddr) string { return given[a] }, nil
	}
	w.given["d/a/intel.com/fast"] = []vf.PCIAddr{all[0], all[1]}
	want := fmt.Sprintf("VF %s of PF enp1s0 cannot be in the bond of pod d/a: invalid: it shares PF enp1s0 with another member of the bond: the kubelet chose these VFs", all[1])
	if got := w.refused(); !strings.Contains(got, want) {
		t.Errorf("refused with %s\nwant %s", got, want)
	}
	if events := strings.Join(w.cluster.events, "\n"); !strings.Contains(events, "Warning NetworkFailed") || !strings.Contains(events, "shares PF enp1s0") {
		t.Errorf("events: %s", events)
	}
	w.given["d/a/intel.com/fast"] = []vf.PCIAddr{all[0]}
	if got := w.refused(); !strings.Contains(got, "the kubelet gave pod d/a 1 of them: request 2 in the pod's resources") {
		t.Errorf("refused with %s", got)
	}
}

// Multus passes one VF of a bond. Culvert takes as the other one a VF of another PF that the
// kubelet gave to the pod.
func TestI1BondBesideMultus(t *testing.T) {
	w := newWorldOn(t, hostFile, 2)
	all := w.vfs()
	given := map[vf.PCIAddr]string{all[0]: "d/a", all[4]: "d/other", all[6]: "d/a"}
	w.node.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(a vf.PCIAddr) string { return given[a] }, nil
	}
	w.asks("")
	config := strings.Replace(bond, `"name"`, fmt.Sprintf(`"deviceID":%q,"name"`, all[0]), 1)
	var result struct{ Interfaces []struct{ Name string } }
	if err := json.Unmarshal(w.delegated("net1", config), &result); err != nil || fmt.Sprint(result.Interfaces) != "[{net1}]" {
		t.Errorf("interfaces %v, %v", result.Interfaces, err)
	}
	if got, want := fmt.Sprint(w.members()), fmt.Sprintf("[%s net1a %s net1b]", all[0], all[6]); got != want {
		t.Errorf("I1: members %s, want %s", got, want)
	}
	delete(given, all[6])
	if got := w.delegate("net2", strings.Replace(config, all[0].String(), all[1].String(), 1)); !strings.Contains(got, "the kubelet gave it to no pod") {
		t.Errorf("I1: a VF that the kubelet did not give: %s", got)
	}
}
