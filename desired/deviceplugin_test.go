package desired

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/vf"
)

// devicePluginCases are those of testdata/deviceplugin.txt: "== name", the file,
// "--", its pools or what is wrong with it.
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
			pools, err := ParseDevicePlugin("config.json", []byte(c[1]))
			var lines []string
			for _, p := range pools {
				lines = append(lines, told(p))
			}
			if err != nil {
				if len(pools) > 0 || !errors.Is(err, vf.ErrInvalid) {
					t.Errorf("%d pools and %v", len(pools), err)
				}
				lines = []string{err.Error()}
			}
			if diff := cmp.Diff(c[2], strings.Join(lines, "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// told is a pool in a line.
func told(p Pool) string {
	s := p.FullName() + " " + p.DeviceType
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

// A configuration that reads has pools that host.yaml could have; one that does
// not is refused as host.yaml is.
func FuzzParseDevicePlugin(f *testing.F) {
	for _, c := range devicePluginCases(f) {
		f.Add([]byte(c[1]))
	}
	f.Add([]byte("\t\r {\"resourceList\":[{\"resourceName\":\"\\u0061\\/\"}]}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		pools, err := ParseDevicePlugin("config.json", content)
		if err != nil {
			if len(pools) > 0 {
				t.Errorf("%d pools and %v", len(pools), err)
			}
			refusedWell(t, err, content)
			return
		}
		spec := Spec{Pools: pools}
		for _, p := range pools {
			if got, err := spec.Pool(p.FullName()); err != nil || got.FullName() != p.FullName() || !poolPrefix.MatchString(p.Prefix) {
				t.Errorf("pool %q is not found: %v", p.FullName(), err)
			}
			for key := range p.AdditionalInfo {
				if _, err := vf.ParsePCIAddr(key); err != nil && key != EveryVF {
					t.Errorf("info for %q", key)
				}
			}
		}
	})
}

// The selectors that only Kubernetes' pools had: a VF is chosen by the firmware's
// number, and what chose it says whether it comes with vhost-net.
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
