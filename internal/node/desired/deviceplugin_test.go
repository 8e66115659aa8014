package desired

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/vf"
)

// devicePluginCases returns the cases of testdata/deviceplugin.txt: "== name", the file, "--", its
// pools or its errors.
func devicePluginCases(t testing.TB) (all [][3]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/deviceplugin.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split("\n"+string(text), "\n== ")[1:] {
		name, rest, _ := strings.Cut(c, "\n")
		content, want, _ := strings.Cut("\n"+rest, "\n--")
		all = append(all, [3]string{name, strings.TrimPrefix(content, "\n"), strings.TrimSpace(want)})
	}
	return all
}

func TestParseDevicePlugin(t *testing.T) {
	for _, c := range devicePluginCases(t) {
		t.Run(c[0], func(t *testing.T) {
			read, err := ParseDevicePlugin("config.json", []byte(c[1]), "")
			var lines []string
			for _, p := range read.Pools {
				lines = append(lines, told(p))
			}
			for _, e := range read.Refused {
				lines = append(lines, "refused: "+e.Error())
			}
			for _, w := range read.Warnings {
				lines = append(lines, "warning: "+w.Error())
			}
			if err != nil {
				if len(read.Pools) > 0 || !errors.Is(err, vf.ErrInvalid) {
					t.Errorf("%d pools and %v", len(read.Pools), err)
				}
				lines = []string{err.Error()}
			}
			if diff := cmp.Diff(c[2], strings.Join(lines, "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// told describes a pool in one line.
func told(p Pool) string {
	s := p.FullName() + " " + p.DeviceType
	if p.Unserved != "" {
		return p.FullName() + " not served: " + p.Unserved
	}
	if p.ExcludeTopology {
		s += " topology excluded,"
	}
	if p.AdditionalInfo != nil {
		s += fmt.Sprintf(" info %v", p.AdditionalInfo)
	}
	all := []string{}
	for _, sel := range p.Selectors {
		var keys []string
		add := func(key string, list ...string) {
			if len(list) > 0 {
				keys = append(keys, key+" "+strings.Join(list, " "))
			}
		}
		add("vendors", sel.Vendors...)
		add("devices", sel.Devices...)
		add("drivers", sel.Drivers...)
		add("pciAddresses", texts(sel.PCIAddresses)...)
		add("acpiIndexes", texts(sel.ACPIIndexes)...)
		add("pfNames", texts(sel.PFNames)...)
		add("rootDevices", texts(sel.RootDevices)...)
		add("linkTypes", sel.LinkTypes...)
		if sel.IsRDMA {
			keys = append(keys, "rdma")
		}
		if sel.NeedVhostNet {
			keys = append(keys, "vhost")
		}
		all = append(all, "{"+strings.Join(keys, ", ")+"}")
	}
	return s + " [" + strings.Join(all, " ") + "]"
}

func texts[T any](list []T) (out []string) {
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// FuzzParseDevicePlugin shows that a configuration without an error has only pools that host.yaml
// could have, or that are not served. The errors of any other configuration are like those of a
// host.yaml.
func FuzzParseDevicePlugin(f *testing.F) {
	for _, c := range devicePluginCases(f) {
		f.Add([]byte(c[1]))
	}
	f.Add([]byte("\t\r {\"resourceList\":[{\"resourceName\":\"\\u0061\\/\"}]}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		read, err := ParseDevicePlugin("config.json", content, "")
		if err != nil {
			if len(read.Pools)+len(read.Refused)+len(read.Warnings) > 0 {
				t.Errorf("%+v and %v", read, err)
			}
			refusedWell(t, err, content)
			return
		}
		for _, w := range slices.Concat(read.Refused, read.Warnings) {
			refusedWell(t, w, content)
		}
		spec := Spec{Pools: read.Pools}
		for _, p := range read.Pools {
			got, err := spec.Pool(p.FullName())
			if served := p.Unserved == ""; served != (err == nil) || served && got.FullName() != p.FullName() || !poolPrefix.MatchString(p.Prefix) || !p.AsBound {
				t.Errorf("pool %q is not found: %v", p.FullName(), err)
			}
			if p.Unserved != "" && p.matchesVF(vf.PF{}, 0, vf.State{}) {
				t.Errorf("pool %q, which is not served, has a VF", p.FullName())
			}
			for key := range p.AdditionalInfo {
				if _, err := vf.ParsePCIAddr(key); err != nil && key != EveryVF {
					t.Errorf("info for %q", key)
				}
			}
		}
	})
}

// A pool of the device plugin takes VFs with the driver that is bound to them. That driver decides
// whether a VF is given out as a netdevice or for vfio. The plugin's own prefix is for pools that
// name none.
func TestDevicePluginPoolsTakeVFsAsBound(t *testing.T) {
	read, err := ParseDevicePlugin("config.json", []byte(`{"resourceList": [
		{"resourceName": "net", "selectors": {"drivers": ["iavf"]}},
		{"resourceName": "dpdk", "resourcePrefix": "x.org", "selectors": {"drivers": ["vfio-pci"]}},
		{"resourceName": "rest", "selectors": {}}]}`), "my.org")
	if err != nil {
		t.Fatal(err)
	}
	spec, pf := Spec{Pools: read.Pools}, vf.PF{Driver: "i40e"}
	for driver, want := range map[string]string{
		"iavf": "my.org/net netdevice", "vfio-pci": "x.org/dpdk vfio-pci", "ixgbevf": "my.org/rest netdevice",
		"": "my.org/net netdevice", // being bound anew
	} {
		v := vf.State{PCI: vf.PCIAddr{Bus: 1}, Driver: driver}
		pool, _ := spec.PoolOf(pf, 0, v)
		if got := pool.FullName() + " " + pool.KindOf(v); got != want {
			t.Errorf("driver %q: %s, want %s", driver, got, want)
		}
		if keeps := pool.DriverFor(driver) == vf.DriverVFIO; keeps != (driver == vf.DriverVFIO) {
			t.Errorf("driver %q: the pool wants %q", driver, pool.DriverFor(driver))
		}
	}
}

// pfNames of the device plugin are whole names in any case, also alternative ones. The first value
// that names the PF decides about its VFs, as in that plugin.
func TestDevicePluginPFNames(t *testing.T) {
	for values, want := range map[string]bool{
		"ens1f0np0": true, "ENS1F0NP0": true, "ens1f0np0#1": true, "ens1f0np0#0,2-7": false, "uplink": true, "Uplink#1-2": true,
		"ens1f0": false, "ens1f0np": false, "ens1f0np01": false, "^ens1f[01]np": false, "ens1f*": false, "[": false, ".*": false,
		"ens1f0np0#0 ens1f0np0#1": false, "ens1f0np0#1 ens1f0np0#0": true, "eth0 ens1f0np0": true, "uplink#0 ens1f0np0": false,
	} {
		var names []Part[string]
		for _, value := range strings.Fields(values) {
			p, _ := readPart(newLenientReader(""), at{Node: &yaml.Node{Kind: yaml.ScalarNode, Value: value}}, partTextForm)
			names = append(names, p)
		}
		s := Selector{PFNames: names}
		if got := s.matchesVF(Pool{AsBound: true}, vf.PF{Name: "ens1f0np0", AltNames: []string{"uplink"}}, 1, vf.State{}); got != want {
			t.Errorf("%s: %v, want %v", values, got, want)
		}
	}
}

// Configurations of several pools over three PFs of 8 VFs each. The first 4 VFs of each are bound to
// iavf, the others to vfio-pci.
func TestDevicePluginPools(t *testing.T) {
	for text, want := range map[string]string{
		`[{"resourceName":"rail1","selectors":{"pfNames":["eth1"]}},{"resourceName":"rail10","selectors":{"pfNames":["eth10"]}},{"resourceName":"rail11","selectors":{"pfNames":["eth11#0-3"]}}]`: "rail1: eth1 0-7; rail10: eth10 0-7; rail11: eth11 0-3",
		`[{"resourceName":"ports","selectors":{"pfNames":["^eth1[01]$"]}}]`: "",
		`[{"resourceName":"kernel","selectors":{"vendors":["8086"],"devices":["37cd"],"drivers":["iavf","i40evf"]}},{"resourceName":"user","selectors":{"vendors":["8086"],"devices":["37cd"],"drivers":["vfio-pci"]}}]`: "kernel: eth1 0-3, eth10 0-3, eth11 0-3; user: eth1 4-7, eth10 4-7, eth11 4-7",
		`[{"resourceName":"x","resourcePrefix":"Intel.com","selectors":{"vendors":["8086"]}},{"resourceName":"k","selectors":{"pfNames":["storage"]}}]`:                                                                  "k: eth10 0-7",
		`[{"resourceName":"r"},{"resourceName":"k","selectors":{"pfNames":["ETH1#7,9"]}}]`:                                                                                                                               "k: eth1 7-7",
		`[{"resourceName":"whole","selectors":{"vendors":["8086"],"devices":["37d2"]}}]`:                                                                                                                                 "",
		`[{"resourceName":"a_b","selectors":{"pfNames":["eth1"]}},{"resourceName":"a-b","selectors":{"pfNames":["eth10"]}}]`:                                                                                             "a_b: eth1 0-7; a-b: eth10 0-7",
	} {
		read, err := ParseDevicePlugin("config.json", []byte(`{"resourceList": `+text+`}`), "")
		if err != nil {
			t.Fatal(err)
		}
		spec := Merge(Sources{DevicePlugin: read.Pools}, Spec{}, nil).Spec
		if got := describePools(spec); got != want {
			t.Errorf("%s:\n  %q, want %q", text, got, want)
		}
	}
}

// describePools lists the VFs of each pool on three PFs.
func describePools(spec Spec) string {
	all := map[string][]string{}
	for i, name := range []string{"eth1", "eth10", "eth11"} {
		pf := vf.PF{Name: name, PCI: vf.PCIAddr{Bus: uint8(i + 1)}, Vendor: "8086", Device: "37d2", Driver: "i40e"}
		if name == "eth10" {
			pf.AltNames = []string{"storage"}
		}
		first, last := map[string]int{}, map[string]int{}
		for index := range 8 {
			v := vf.State{PCI: vf.PCIAddr{Bus: uint8(i + 1), Device: 2, Function: uint8(index)}, Vendor: "8086", Device: "37cd", Driver: "iavf"}
			if index > 3 {
				v.Driver = vf.DriverVFIO
			}
			p, in := spec.PoolOf(pf, index, v)
			if _, seen := first[p.Name]; in && !seen {
				first[p.Name] = index
			}
			if in {
				last[p.Name] = index
			}
		}
		for pool, index := range first {
			all[pool] = append(all[pool], fmt.Sprintf("%s %d-%d", name, index, last[pool]))
		}
	}
	var out []string
	for _, p := range spec.Pools {
		if len(all[p.Name]) > 0 {
			out = append(out, p.Name+": "+strings.Join(all[p.Name], ", "))
		}
	}
	return strings.Join(out, "; ")
}

// The first value of rootDevices with the PF's address decides too.
func TestDevicePluginRootDevices(t *testing.T) {
	at := vf.PCIAddr{Bus: 1}
	s := Selector{RootDevices: []Part[vf.PCIAddr]{{PF: at, Indexes: []Range{{0, 1}}}, {PF: at, Indexes: []Range{{4, 5}}}}}
	for index, want := range map[int]bool{0: true, 1: true, 4: false} {
		if got := s.matchesVF(Pool{AsBound: true}, vf.PF{PCI: at}, index, vf.State{}); got != want {
			t.Errorf("VF %d of the device plugin's pool: %v", index, got)
		}
		if got := s.matchesVF(Pool{}, vf.PF{PCI: at}, index, vf.State{}); !got {
			t.Errorf("VF %d of a pool of Culvert's: %v", index, got)
		}
	}
}

// A selector can choose a VF by the firmware's number, and the selector that chose the VF decides
// whether the VF comes with vhost-net.
func TestSelectorOf(t *testing.T) {
	p := Pool{Name: "a", DeviceType: NetDevice, Selectors: []Selector{{ACPIIndexes: []uint32{101}, NeedVhostNet: true}, {PFNames: []Part[string]{{PF: "enp1s0"}}}}}
	pf := vf.PF{Name: "enp1s0"}
	for index, vhost := range map[uint32]bool{101: true, 102: false, 0: false} {
		s, ok := p.SelectorOf(pf, 0, vf.State{ACPIIndex: index})
		if !ok || s.NeedVhostNet != vhost {
			t.Errorf("acpi_index %d: %+v %t", index, s, ok)
		}
	}
	if _, ok := p.SelectorOf(vf.PF{Name: "enp2s0"}, 0, vf.State{}); ok {
		t.Error("a VF without a number is chosen by it")
	}
}
