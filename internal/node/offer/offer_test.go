package offer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// newPF returns a PF with n VFs on bus 1.
func newPF(n int) vf.PF {
	pf := vf.PF{
		Name: "enp1s0f0", ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, PCI: vf.PCIAddr{Bus: 1}, PCIeRoot: "pci0000:00", NUMA: 1,
		Carrier: true, Up: true, SpeedMbps: 25000, MTU: 1500, MaxMTU: 9700, NumVFs: n, TotalVFs: 256,
		Abilities: vf.Abilities{vf.SetVLAN: vf.Yes, vf.SetTrust: vf.No},
	}
	for i := range n {
		pf.VFs = append(pf.VFs, vf.State{
			ID: vf.ID{PF: pf.ID, Index: i}, PCI: vf.PCIAddr{Bus: uint8(2 + i/256), Device: uint8(i / 8 % 32), Function: uint8(i % 8)},
			Vendor: "15b3", Device: "101e", Driver: "mlx5_core", NUMA: 1, RDMA: &vf.RDMA{Device: fmt.Sprintf("mlx5_%d", i)}, Link: &vf.Link{MTU: 1500},
		})
	}
	return pf
}

func parse(t *testing.T, text string) desired.Spec {
	t.Helper()
	spec, err := desired.Parse("host.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

const hostYAML = `
pfs: [{name: enp1s0f0, vfs: max, mtu: 9000, segment: storage}]
pools: [{name: fast, prefix: example.com, offer: claims}]`

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// allAttributes are those of a VF that has every one of them.
const allAttributes = `{"canLinkState":{"bool":false},"canMaxTxRate":{"bool":false},"canMinTxRate":{"bool":false},"canServiceVLAN":{"bool":false},` +
	`"canSpoofChk":{"bool":false},"canTrust":{"bool":false},"canVLAN":{"bool":true},"carrier":{"bool":true},"device":{"string":"101e"},` +
	`"driver":{"string":"mlx5_core"},"k8s.cni.cncf.io/deviceID":{"string":"0000:02:00.1"},"k8s.cni.cncf.io/resourceName":{"string":"example.com/fast"},` +
	`"kind":{"string":"netdevice"},"mtu":{"int":9000},"pf":{"string":"enp1s0f0"},"pfID":{"string":"02:00:00:00:00:01"},"pfPCI":{"string":"0000:01:00.0"},` +
	`"pool":{"string":"example.com/fast"},"rdma":{"bool":true},"rdmaDevice":{"string":"mlx5_1"},"resource.kubernetes.io/numaNode":{"int":1},` +
	`"resource.kubernetes.io/pciBusID":{"string":"0000:02:00.1"},"resource.kubernetes.io/pcieRoot":{"string":"pci0000:00"},"segment":{"string":"storage"},` +
	`"speed":{"int":25000},"vendor":{"string":"15b3"},"vf":{"int":1}}`

func TestAttributes(t *testing.T) {
	spec, pf := parse(t, hostYAML), newPF(2)
	got := Attributes(spec, pf, pf.VFs[1])
	if diff := cmp.Diff(allAttributes, asJSON(t, got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(got) > maxAttributes {
		t.Errorf("a device has %d attributes, and may have %d", len(got), maxAttributes)
	}
}

// Some attributes are absent or have other values.
func TestAttributesDiffer(t *testing.T) {
	long := strings.Repeat("n", 60)
	for _, tt := range []struct {
		name, host string
		change     func(pf *vf.PF, v *vf.State)
		want       map[string]string // "" for none
	}{
		{"no NUMA node", hostYAML, func(_ *vf.PF, v *vf.State) { v.NUMA = -1 }, map[string]string{"resource.kubernetes.io/numaNode": ""}},
		{"node 0", hostYAML, func(_ *vf.PF, v *vf.State) { v.NUMA = 0 }, map[string]string{"resource.kubernetes.io/numaNode": `{"int":0}`}},
		{"no root", hostYAML, func(pf *vf.PF, _ *vf.State) { pf.PCIeRoot = "" }, map[string]string{"resource.kubernetes.io/pcieRoot": ""}},
		{"no RDMA device", hostYAML, func(_ *vf.PF, v *vf.State) { v.RDMA = nil }, map[string]string{"rdma": `{"bool":false}`, "rdmaDevice": ""}},
		{"no link", hostYAML, func(pf *vf.PF, _ *vf.State) { pf.Carrier, pf.SpeedMbps = false, 0 }, map[string]string{"carrier": `{"bool":false}`, "speed": `{"int":0}`}},
		{"a port of another function", hostYAML, func(pf *vf.PF, _ *vf.State) { pf.Name, pf.Port = "", "enp1s0f0" }, map[string]string{"pf": `{"string":"enp1s0f0"}`}},
		{"vfio", "pools: [{name: a, deviceType: vfio-pci}]", func(_ *vf.PF, v *vf.State) { v.Driver, v.Link = "vfio-pci", nil },
			map[string]string{"kind": `{"string":"vfio"}`, "driver": `{"string":"vfio-pci"}`, "pool": `{"string":"culvert.dev/a"}`, "segment": "", "mtu": `{"int":1500}`}},
		{"as it is bound", "pools: [{name: a, asBound: true}]", func(_ *vf.PF, v *vf.State) { v.Driver = "vfio-pci" }, map[string]string{"kind": `{"string":"vfio"}`}},
		{"an MTU of the pool", "pfs: [{name: enp1s0f0, vfs: max}]\npools: [{name: a, mtu: 4000}]", nil, map[string]string{"mtu": `{"int":4000}`}},
		{"a name of 64 characters", "pools: [{name: " + long[:52] + "}]", nil, map[string]string{"pool": `{"string":"culvert.dev/` + long[:52] + `"}`}},
		{"a longer name is left out", "pools: [{name: " + long[:53] + "}]", nil, map[string]string{"pool": "", "k8s.cni.cncf.io/resourceName": ""}},
	} {
		pf := newPF(1)
		if tt.change != nil {
			tt.change(&pf, &pf.VFs[0])
		}
		got := Attributes(parse(t, tt.host), pf, pf.VFs[0])
		for name, want := range tt.want {
			value, has := got[name]
			if !has && want == "" {
				continue
			}
			if text := asJSON(t, value); text != want {
				t.Errorf("%s: %s is %s, want %q", tt.name, name, text, want)
			}
		}
	}
}

// viewOf returns a view of PFs whose VFs are all free.
func viewOf(spec desired.Spec, pfs ...*vf.PF) View {
	v := View{Spec: spec}
	for _, pf := range pfs {
		for _, st := range pf.VFs {
			v.VFs = append(v.VFs, VF{PF: pf, State: st, IsFree: true})
		}
	}
	return v
}

func mustPools(t *testing.T, view View, last []Pool) []Pool {
	t.Helper()
	pools, err := Pools("node1", view, last, time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return pools
}

// describe returns pools as text: the names of the devices of each slice.
func describe(pools []Pool) (out []string) {
	for _, p := range pools {
		for i, s := range p.Slices {
			first, last := "none", "none"
			if len(s) > 0 {
				first, last = s[0].Name, s[len(s)-1].Name
			}
			out = append(out, fmt.Sprintf("%s %d/%d: %d, %s to %s", p.Name, i, len(p.Slices), len(s), first, last))
		}
	}
	return out
}

// Each PF has a pool. A pool of more than 64 VFs has several slices, and a VF that is not free leaves
// its own only. The slices do not become fewer when all VFs of one are away.
func TestPools(t *testing.T) {
	spec := parse(t, hostYAML)
	small, large := newPF(2), newPF(128)
	small.ID.MAC[5] = 9
	for i := range small.VFs {
		small.VFs[i].ID.PF = small.ID
	}
	view := viewOf(spec, &large, &small)
	want := []string{"node1/02-00-00-00-00-01 0/2: 64, vf-0 to vf-63", "node1/02-00-00-00-00-01 1/2: 64, vf-64 to vf-127", "node1/02-00-00-00-00-09 0/1: 2, vf-0 to vf-1"}
	all := mustPools(t, view, nil)
	if diff := cmp.Diff(want, describe(all)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	view.VFs[100].IsFree = false
	want[1] = "node1/02-00-00-00-00-01 1/2: 63, vf-64 to vf-127"
	if diff := cmp.Diff(want, describe(mustPools(t, view, all))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for i := 64; i < 130; i++ {
		view.VFs[i].IsFree = false
	}
	want[1], want[2] = "node1/02-00-00-00-00-01 1/2: 0, none to none", "node1/02-00-00-00-00-09 0/1: 0, none to none"
	if diff := cmp.Diff(want, describe(mustPools(t, view, all))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := mustPools(t, View{Spec: spec}, all); len(got) != 0 {
		t.Errorf("a node without VFs for claims has %q", describe(got))
	}
}

// A device that a claim holds stays in its slice as it was, whatever its pod does and whatever its pool
// is now. After culvertd has started, it has the attributes of the claim's pool, and without its PF
// those that Multus reads.
func TestClaimedDevicesStay(t *testing.T) {
	spec, pf := parse(t, hostYAML), newPF(1)
	view := viewOf(spec, &pf)
	all := mustPools(t, view, nil)
	moved := parse(t, strings.Replace(hostYAML, "pools: [{name: fast, prefix: example.com, offer: claims}]", "pools: [{name: now}, {name: fast, prefix: example.com}]", 1))
	held := newPF(1)
	held.VFs[0].Link, held.VFs[0].RDMA, held.MTU = nil, nil, 68
	claimed := View{Spec: moved, VFs: []VF{{PF: &held, State: held.VFs[0], IsClaimed: true, ClaimPool: "example.com/fast"}}}
	if diff := cmp.Diff(asJSON(t, all), asJSON(t, mustPools(t, claimed, all))); diff != "" {
		t.Errorf("a claimed device changed (-want +got):\n%s", diff)
	}
	started := mustPools(t, claimed, nil)[0].Slices[0][0].Attributes
	for name, want := range map[string]string{"k8s.cni.cncf.io/resourceName": `{"string":"example.com/fast"}`, "kind": `{"string":"netdevice"}`, "mtu": `{"int":9000}`} {
		if got := asJSON(t, started[name]); got != want {
			t.Errorf("after a start: %s is %s, want %s", name, got, want)
		}
	}
	claimed.VFs[0].PF = nil
	const want = `{"name":"vf-0","attributes":{"k8s.cni.cncf.io/deviceID":{"string":"0000:02:00.0"},"k8s.cni.cncf.io/resourceName":{"string":"example.com/fast"},` +
		`"pfID":{"string":"02:00:00:00:00:01"},"pool":{"string":"example.com/fast"},"resource.kubernetes.io/pciBusID":{"string":"0000:02:00.0"},"vf":{"int":0}}}`
	if diff := cmp.Diff(want, asJSON(t, mustPools(t, claimed, nil)[0].Slices[0][0])); diff != "" {
		t.Errorf("without its PF (-want +got):\n%s", diff)
	}
}

// Each node's name that fits gives names that are the node's own; a longer one is an error.
func TestPoolsOfALongName(t *testing.T) {
	pf := newPF(1)
	view := viewOf(parse(t, hostYAML), &pf)
	for _, node := range []string{strings.Repeat("n", 236), strings.Repeat("n", 237)} {
		pools, err := Pools(node, view, nil, time.Now())
		if fits := len(node) == 236; fits != (err == nil) || fits != (len(pools) == 1) || !fits && !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("a name of %d bytes: %q, %v", len(node), describe(pools), err)
		}
		if len(pools) == 1 && !claim.IsPoolOf(node, pools[0].Name) {
			t.Errorf("pool %s", pools[0].Name)
		}
	}
	view.VFs[0].State.ID.PF = vf.PFID{}
	if pools := mustPools(t, view, nil); len(pools) != 0 {
		t.Errorf("a PF without an identity has %q", describe(pools))
	}
}

func TestZeroValueIsAnError(t *testing.T) {
	if text, err := json.Marshal(Value{}); err == nil {
		t.Errorf("%s", text)
	}
}

// BenchmarkPools prints the bytes of a VF in its slice, on a node with 256 VFs on 16 PFs.
func BenchmarkPools(b *testing.B) {
	spec, err := desired.Parse("host.yaml", []byte(strings.Replace(hostYAML, "enp1s0f0", "'*'", 1)))
	if err != nil {
		b.Fatal(err)
	}
	view := View{Spec: spec}
	for i := range 16 {
		pf := newPF(16)
		pf.ID.MAC[4] = byte(i)
		for _, st := range pf.VFs {
			st.ID.PF = pf.ID
			view.VFs = append(view.VFs, VF{PF: &pf, State: st, IsFree: true})
		}
	}
	var pools []Pool
	for b.Loop() {
		if pools, err = Pools("node1", view, pools, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	size := 0
	for _, p := range pools {
		text, err := json.Marshal(p.Slices[0])
		if err != nil {
			b.Fatal(err)
		}
		size += len(text)
	}
	b.ReportMetric(float64(size)/256, "bytes/VF")
}
