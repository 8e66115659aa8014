package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// drawnNIC draws a PF with VFs, of which each may be bound to a driver of its own.
func drawnNIC(t *rapid.T, n int) vf.PF {
	vendor := rapid.SampledFrom([]string{"8086", "15b3"}).Draw(t, "vendor")
	known := map[string]struct {
		pf, vf, pfDriver string
		vfDrivers        []string
	}{
		"8086": {"158b", "154c", "i40e", []string{"iavf", "i40evf", vf.DriverVFIO, ""}},
		"15b3": {"1017", "1018", "mlx5_core", []string{"mlx5_core", vf.DriverVFIO, ""}},
	}[vendor]
	pf := vf.PF{
		Name: pfNames[n], PCI: vf.PCIAddr{Bus: uint8(0x3b + n)}, Vendor: vendor, Device: known.pf, Driver: known.pfDriver,
		TotalVFs: 8, RDMA: rapid.Bool().Draw(t, "rdma"),
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "VFs") {
		v := vf.State{
			ID: vf.ID{Index: i}, PCI: vf.PCIAddr{Bus: pf.PCI.Bus, Device: 2, Function: uint8(i)}, Vendor: vendor, Device: known.vf,
			Driver: rapid.SampledFrom(known.vfDrivers).Draw(t, "driver"), ACPIIndex: uint32(100*n + i),
		}
		if pf.RDMA && v.Driver == "mlx5_core" {
			v.RDMA = &vf.RDMA{Device: fmt.Sprint("mlx5_", i)}
		}
		pf.VFs = append(pf.VFs, v)
	}
	return pf
}

// pfNames are no parts of each other.
var pfNames = []string{"ens1f0", "eth7"}

// drawnSelector draws a map of selectors, some of them with the keys in another case.
func drawnSelector(t *rapid.T) map[string]any {
	values := map[string][]string{
		"vendors": {"8086", "15b3"}, "devices": {"154c", "1018", "0x154C"}, "drivers": {"iavf", "i40evf", vf.DriverVFIO, "mlx5_core", "i40e"},
		"pfNames":      {"ens1f0", "ens1f0#0-1", "ens1f0#2,4-5", "eth7", "eth7#0", "ETH7", "eth", "^eth.*$"},
		"rootDevices":  {"0000:3b:00.0", "0000:3b:00.0#0-2", "0000:3c:00.0#1,3"},
		"pciAddresses": {"0000:3b:02.0", "0000:3c:02.1"}, "acpiIndexes": {"1", "101"}, "linkTypes": {"ether"},
	}
	out := map[string]any{}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"vendors", "devices", "drivers", "drivers", "pfNames", "pfNames", "rootDevices", "pciAddresses", "acpiIndexes", "linkTypes"}), 1, 3, rapid.ID).Draw(t, "keys") {
		name := key
		if rapid.IntRange(0, 5).Draw(t, "case") == 0 {
			name = strings.ToUpper(key)
		}
		out[name] = rapid.SliceOfNDistinct(rapid.SampledFrom(values[key]), 1, 2, rapid.ID).Draw(t, key)
	}
	for _, key := range []string{"isRdma", "needVhostNet"} {
		if rapid.IntRange(0, 5).Draw(t, key) == 0 {
			out[key] = true
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "unserved") == 0 {
		out["vdpaType"] = "vhost"
	}
	return out
}

// drawnConfig draws a configuration of the device plugin.
func drawnConfig(t *rapid.T) string {
	var list []map[string]any
	for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
		entry := map[string]any{"resourceName": fmt.Sprint("pool", i), "deviceType": rapid.SampledFrom([]string{"", "netDevice", "netdevice", "accelerator"}).Draw(t, "deviceType")}
		if rapid.Bool().Draw(t, "prefix") {
			entry["resourcePrefix"] = "example.org"
		}
		if rapid.Bool().Draw(t, "topology") {
			entry["excludeTopology"] = true
		}
		entry["selectors"] = drawnSelector(t)
		if rapid.Bool().Draw(t, "list") {
			entry["selectors"] = []any{drawnSelector(t), drawnSelector(t)}
		}
		list = append(list, entry)
	}
	text, err := json.Marshal(map[string]any{"resourceList": list})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// describePools says which VF is in which pool, and how the pool gives it out.
func describePools(s desired.Spec, pfs []vf.PF) string {
	var out strings.Builder
	for _, pf := range pfs {
		for _, v := range pf.VFs {
			p, ok := s.PoolOf(pf, v.ID.Index, v)
			if !ok {
				continue
			}
			by, _ := p.SelectorOf(pf, v.ID.Index, v)
			fmt.Fprintf(&out, "%s: %s as %s, kept bound to %q, topology %t, vhost %t\n", v.PCI, p.FullName(), p.KindOf(v), p.DriverFor(v.Driver), !p.ExcludeTopology, by.NeedVhostNet)
		}
	}
	return out.String()
}

// The NodePolicies of any ConfigMap give each pool the VFs that it had, as it gave them out, on every
// node: on one that has a key of its own, and on all others.
func TestConversionKeepsWhoGetsWhichVF(t *testing.T) {
	converted := 0
	rapid.Check(t, func(t *rapid.T) {
		o := Object{Kind: KindConfigMap, Name: "c", Data: map[string]string{commonKey: drawnConfig(t)}}
		if rapid.Bool().Draw(t, "key of a node") {
			o.Data["worker-7"] = drawnConfig(t)
		}
		r := Convert([]Object{o}, Options{})
		pfs := []vf.PF{drawnNIC(t, 0), drawnNIC(t, 1)}
		for node, key := range map[string]string{"worker-7": "worker-7", "worker-8": commonKey} {
			text := o.Data[key]
			labels := map[string]string{hostname: node, commonLabel: commonValue}
			if text == "" {
				text = o.Data[commonKey]
			} else if key != commonKey {
				delete(labels, commonLabel)
			}
			before, err := desired.ParseDevicePlugin(key, []byte(text), "")
			if err != nil {
				t.Fatal(err)
			}
			want := describePools(desired.Merge(desired.Sources{DevicePlugin: before.Pools}, desired.Spec{}, pfs).Spec, pfs)
			got := describePools(desired.Merge(desired.Sources{Policies: policiesOf(t, r, labels)}, desired.Spec{}, pfs).Spec, pfs)
			if got != want {
				t.Errorf("node %s had\n%sand has\n%s%s\n%v", node, want, got, text, r.Notes)
			}
			if want != "" {
				converted++
			}
		}
	})
	if converted == 0 {
		t.Error("no configuration was converted")
	}
}

// policiesOf returns the NodePolicies of a result that select a node.
func policiesOf(t interface{ Fatal(...any) }, r Result, labels map[string]string) (out []desired.Policy) {
	for _, m := range r.Manifests {
		spec, ok := m.Spec.(v1alpha1.NodePolicySpec)
		if !ok || !selectsMore(spec.NodeSelector, labels) {
			continue
		}
		read, err := desired.FromPolicy(m.Metadata.Name, spec)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, desired.Policy{Name: m.Metadata.Name, Priority: spec.Priority, Spec: read})
	}
	return out
}

// Two pools select the same devices and different drivers. The conversion keeps both.
func TestPoolsByBinding(t *testing.T) {
	r := convert(t, `
kind: ConfigMap
metadata: {name: sriovdp-config, namespace: kube-system}
data:
  config.json: |
    {"resourceList": [
      {"resourceName": "kernel_pool", "selectors": {"vendors": ["8086"], "devices": ["37cd"], "drivers": ["iavf", "i40evf"]}},
      {"resourceName": "dpdk_pool", "selectors": {"vendors": ["8086"], "devices": ["37cd"], "drivers": ["vfio-pci"]}}
    ]}
`)
	if r.HasLoss() {
		t.Error(r.Notes)
	}
	s := desired.Merge(desired.Sources{Policies: policiesOf(t, r, nil)}, desired.Spec{}, nil).Spec
	pf := vf.PF{Name: "ens1f0", Vendor: "8086", Device: "37d2", Driver: "i40e", TotalVFs: 8}
	for driver, want := range map[string]string{"iavf": "kernel_pool", "i40evf": "kernel_pool", vf.DriverVFIO: "dpdk_pool", "igb_uio": ""} {
		if p, _ := s.PoolOf(pf, 0, vf.State{PCI: vf.PCIAddr{Bus: 2}, Vendor: "8086", Device: "37cd", Driver: driver}); p.Name != want {
			t.Errorf("a VF with driver %s is in pool %q, want %q", driver, p.Name, want)
		}
	}
}

// A ConfigMap of which a pool cannot be carried over is refused as a whole: the later pools would get
// its VFs. A text that cannot be read is named.
func TestRefusedConfigMaps(t *testing.T) {
	for text, want := range map[string]string{
		`{"resourceList": [{"resourceName": "a"`:  "data.config.json",
		`{"resourceList": {"resourceName": "a"}}`: "want a list of pools",
	} {
		r := Convert([]Object{{Kind: KindConfigMap, Name: "c", Data: map[string]string{commonKey: text}}}, Options{})
		if len(r.Manifests) != 0 || !r.HasLoss() || !strings.Contains(fmt.Sprint(r.Notes), want) {
			t.Errorf("%s\n%d manifests, %v, want %q", text, len(r.Manifests), r.Notes, want)
		}
	}
}

// An entry that makes no pool of the device plugin is named, and the others are converted.
func TestRefusedEntries(t *testing.T) {
	for text, want := range map[string]string{
		`{"resourceName": "a", "selectors": {"vendors": ["15b3"]}}`:                          "pool intel.com/a is there already",
		`{"resourceName": "x", "resourcePrefix": "a b", "selectors": {"vendors": ["15b3"]}}`: "resourcePrefix",
	} {
		text = `{"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["8086"]}}, ` + text + `]}`
		r := Convert([]Object{{Kind: KindConfigMap, Name: "c", Data: map[string]string{commonKey: text}}}, Options{})
		if pools := policiesOf(t, r, nil); len(pools) != 1 || !r.HasLoss() || !strings.Contains(fmt.Sprint(r.Notes), want) {
			t.Errorf("%s\n%v, %v, want %q", text, pools, r.Notes, want)
		}
	}
}

// A pool that culvertd would read as another one than the device plugin's is no conversion of it.
func TestPoolsHaveToBeTheSame(t *testing.T) {
	read, err := desired.ParseDevicePlugin("c", []byte(`{"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["8086"], "pfNames": ["eth7#0,2-3"]}}]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	p := read.Pools[0]
	if err := requireSame(p, poolOf(p)); err != nil {
		t.Error(err)
	}
	wide, refused := poolOf(p), poolOf(p)
	wide.Selectors[0].Vendors = nil
	refused.Selectors[0].Vendors = []string{"x"}
	for _, made := range []v1alpha1.Pool{wide, refused} {
		if err := requireSame(p, made); err == nil {
			t.Errorf("%+v is taken for %+v", made, p)
		}
	}
}

// The device plugin's configuration in an object of NVIDIA's network operator becomes a NodePolicy.
func TestConvertNICPolicy(t *testing.T) {
	const config = `spec: {nodeSelector: {rail: "1"}, sriovDevicePlugin: {image: x, config: '{"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["15b3"], "isRdma": true}}, {"resourceName": "b", "resourcePrefix": "x.org", "selectors": {"vdpaType": "vhost"}}]}'`
	r := convert(t, "kind: NicNodePolicy\nmetadata: {name: rails}\n"+config+"}}\n")
	got := spec(t, r)
	if len(got.Pools) != 1 || got.Pools[0].Prefix != "nvidia.com" || got.NodeSelector["rail"] != "1" || r.Manifests[0].Metadata.Name != "rails" ||
		!strings.Contains(fmt.Sprint(r.Notes), "NicNodePolicy rails: spec.sriovDevicePlugin.config: pool x.org/b is not converted") {
		t.Errorf("%+v %v", got, r.Notes)
	}
	requireRefused(t, "kind: NicClusterPolicy\nmetadata: {name: c}\n"+config+", nodeAffinity: {a: b}}}\n", "NicClusterPolicy c: spec.sriovDevicePlugin.config: not converted: a NodePolicy selects nodes by labels")
	if r := convert(t, "kind: NicClusterPolicy\nmetadata: {name: c}\nspec: {ofedDriver: {}}\n"); len(r.Manifests) > 0 || r.HasLoss() {
		t.Error(r)
	}
}

// Decode names the kind of an object that it cannot read, and what is wrong in it.
func TestDecode(t *testing.T) {
	o, err := Decode(KindConfigMap, []byte(`{"metadata": {"name": "c", "namespace": "d"}, "data": {"k": "v"}}`))
	if err != nil || o.Kind != KindConfigMap || o.Name != "c" || o.Namespace != "d" || o.Data["k"] != "v" {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := Decode(KindConfigMap, []byte(`{"metadata": {"name": ["c"]}}`)); !errors.Is(err, vf.ErrInvalid) || !strings.HasPrefix(err.Error(), KindConfigMap+": ") || !strings.Contains(err.Error(), "a list: want a text") {
		t.Error(err)
	}
}
