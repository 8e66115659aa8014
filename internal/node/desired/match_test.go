package desired

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

func parse(t *testing.T, text string) Spec {
	t.Helper()
	s, err := Parse("host.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var igb = vf.PF{
	ID:   vf.PFID{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, 1}},
	PCI:  vf.PCIAddr{Bus: 1},
	Name: "enp1s0f0", Vendor: "8086", Device: "10c9", Driver: "igb", TotalVFs: 7, MaxMTU: 9216,
}

func TestForPFTakesTheFirstEntry(t *testing.T) {
	s := parse(t, `
pfs:
- {name: enp1s0f1, vfs: 1}
- {name: "enp1s0f*", vendor: "1425", vfs: 2}
- {name: "enp1s0f*", device: "10C9", vfs: max, needCarrier: false}
- {driver: igb, vfs: 4}
`)
	noName, other := igb, igb
	noName.Name = ""
	other.Driver, other.Device = "ixgbe", "10ed"
	for _, tc := range []struct {
		name string
		pf   vf.PF
		want PFSpec
		ok   bool
	}{
		{"by pattern and device", igb, PFSpec{VFs: 7, Autoprobe: true, From: "host.yaml:5"}, true},
		{"without a netdevice", noName, PFSpec{VFs: 4, Autoprobe: true, NeedCarrier: true, From: "host.yaml:6"}, true},
		{"by none", other, PFSpec{}, false},
	} {
		got, ok := s.ForPF(tc.pf)
		if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.ok {
			t.Errorf("%s: %v (-want +got):\n%s", tc.name, ok, diff)
		}
	}
}

func TestPFRuleMatches(t *testing.T) {
	for _, tc := range []struct {
		entry string
		want  bool
	}{
		{"name: enp1s0f0", true},
		{"name: enp1s0f", false},
		{"name: enp?s0f[0-3]", true},
		{"mac: 90:e2:ba:00:00:01", true},
		{"mac: 90:e2:ba:00:00:02", false},
		{`pciAddress: "01:00.0"`, true},
		{`pciAddress: "0001:01:00.0"`, false},
		{"vendor: 8086\n  device: 10c9", true},
		{"vendor: 8086\n  device: 10ca", false},
		{"driver: igb", true},
		{"driver: ixgbe", false},
	} {
		s := parse(t, "pfs:\n- vfs: 1\n  "+tc.entry)
		if got := s.PFs[0].Matches(igb); got != tc.want {
			t.Errorf("%s matches: %v", tc.entry, got)
		}
	}
}

// An alternative name of a PF's netdevice, or of its port, matches wherever a name does.
func TestAlternativeNames(t *testing.T) {
	pf, other := igb, igb
	pf.AltNames = []string{"uplink-of-the-storage-network", "enx90e2ba000001"}
	s := parse(t, `
pfs: [{name: uplink-of-the-storage-network, vfs: 3}]
pools:
- {name: a, selectors: {pfNames: ["uplink-of-the-storage-network#0-1"]}}
- {name: b, selectors: {pfNames: ["enx90*"]}}
`)
	if want, ok := s.ForPF(pf); !ok || want.VFs != 3 {
		t.Errorf("%+v %t", want, ok)
	}
	if _, ok := s.ForPF(other); ok || len(s.Unmatched([]vf.PF{other})) != 1 || len(s.Unmatched([]vf.PF{pf})) != 0 {
		t.Error("a PF without the name matches, or the PF with the name does not")
	}
	for i, want := range []string{"a", "a", "b"} {
		if p, _ := s.PoolOf(pf, i, igbvf(i, "")); p.Name != want {
			t.Errorf("VF %d is in %q, want %q", i, p.Name, want)
		}
	}
	if p, in := s.PoolOf(other, 0, igbvf(0, "")); in {
		t.Errorf("a VF of another PF is in %q", p.Name)
	}
}

// A pool of the device plugin's file may select PFs themselves.
func TestSelectsPF(t *testing.T) {
	pf := igb
	pf.AltNames, pf.RDMA = []string{"uplink"}, true
	for selectors, want := range map[string]bool{
		`{"vendors": ["8086"], "devices": ["10c9"]}`: true, `{"devices": ["10ca"]}`: false, `{"drivers": ["igb"], "isRdma": true}`: true,
		`{"drivers": ["igbvf"]}`: false, `{"pfNames": ["uplink"]}`: true, `{"pfNames": ["enp1s0f0#0-3"]}`: false, `{"rootDevices": ["0000:01:00.0"]}`: true,
		`{"pciAddresses": ["0000:01:00.0"]}`: true, `{"pciAddresses": ["0000:01:10.0"]}`: false, `{}`: false,
		`[{"drivers": ["igbvf"]}, {"drivers": ["igb"]}]`: true, `{"acpiIndexes": ["7"]}`: false,
	} {
		read, err := ParseDevicePlugin("config.json", []byte(`{"resourceList": [{"resourceName": "a", "selectors": `+selectors+`}]}`), "")
		if err != nil {
			t.Fatal(err)
		}
		if got := read.Pools[0].SelectsPF(pf); got != want {
			t.Errorf("%s selects the PF: %t", selectors, got)
		}
	}
	if (Pool{Selectors: []Selector{{Drivers: []string{"igb"}}}}).SelectsPF(pf) {
		t.Error("a pool of host.yaml selects a PF")
	}
}

func TestUnmatched(t *testing.T) {
	s := parse(t, "pfs: [{name: enp1s0f0, vfs: 1}, {name: enp9s0, driver: ice, vfs: 1}]")
	got := s.Unmatched([]vf.PF{igb})
	if len(got) != 1 || got[0].String() != "name enp9s0, driver ice" {
		t.Errorf("unmatched: %v", got)
	}
}

// A PF whose link is on another function is matched by the name of the netdevice that has the link.
func TestMatchesThePort(t *testing.T) {
	pf := vf.PF{PCI: igb.PCI, Port: "enp4s0f4", Driver: "cxgb4", TotalVFs: 16}
	s := parse(t, `{pfs: [{name: "enp4s0f?", vfs: 3}], pools: [{name: a, selectors: {pfNames: ["enp4s0f4#0-1"]}}]}`)
	if want, ok := s.ForPF(pf); !ok || want.VFs != 3 {
		t.Errorf("%+v %t", want, ok)
	}
	for index, in := range []bool{true, true, false} {
		if _, ok := s.PoolOf(pf, index, vf.State{}); ok != in {
			t.Errorf("vf %d: %t", index, ok)
		}
	}
}

func TestCheckOfPFWithoutVFs(t *testing.T) {
	pf := igb
	pf.TotalVFs = 0
	want := "PF enp1s0f0: 2 VFs wanted (host.yaml:3), it can have none: SR-IOV is off in its firmware or not in its driver: switch it on, or write vfs: 0: invalid"
	if err := (PFSpec{VFs: 2, From: "host.yaml:3"}).Check(pf); err == nil || err.Error() != want {
		t.Error(err)
	}
	if err := (PFSpec{}).Check(pf); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		spec PFSpec
		want string
	}{
		{PFSpec{VFs: 7, MTU: 9216}, ""},
		{PFSpec{VFs: 8, From: "host.yaml:3"}, "PF enp1s0f0: 8 VFs wanted (host.yaml:3), it can have 7: write vfs: 7 or vfs: max: invalid"},
		{PFSpec{MTU: 9217, From: "host.yaml:3"}, "PF enp1s0f0: MTU 9217 wanted (host.yaml:3), its driver allows 9216 at most: invalid"},
		{PFSpec{VFs: 0}, ""},
	} {
		err := tc.spec.Check(igb)
		if tc.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", tc.spec, err)
			}
			continue
		}
		if err == nil || err.Error() != tc.want || !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%+v: got %v, want %s", tc.spec, err, tc.want)
		}
	}
}

func igbvf(index int, driver string) vf.State {
	return vf.State{
		ID:  vf.ID{PF: igb.ID, Index: index},
		PCI: vf.PCIAddr{Bus: 1, Device: 0x10, Function: uint8(index)}, Vendor: "8086", Device: "10ca", Driver: driver,
	}
}

func TestPoolOf(t *testing.T) {
	const bare = "{}"
	for _, tc := range []struct {
		selectors string
		index     int
		want      bool
	}{
		{bare, 0, true},
		{"{vendors: [8086]}", 0, true},
		{"{vendors: [1425]}", 0, false},
		{"{vendors: [1425, 8086], devices: [10ca]}", 0, true},
		{"{vendors: [8086], devices: [154c]}", 0, false},
		{`{pciAddresses: ["01:10.3"]}`, 3, true},
		{`{pciAddresses: ["01:10.3"]}`, 2, false},
		{"{pfNames: [enp1s0f0]}", 6, true},
		{"{pfNames: [enp1s0f1]}", 6, false},
		{`{pfNames: ["enp1s0f0#0,2-5"]}`, 0, true},
		{`{pfNames: ["enp1s0f0#0,2-5"]}`, 1, false},
		{`{pfNames: ["enp1s0f0#0,2-5"]}`, 5, true},
		{`{pfNames: ["enp1s0f1", "enp*#6"]}`, 6, true},
		{`{rootDevices: ["0000:01:00.0#1-2"]}`, 2, true},
		{`{rootDevices: ["0000:01:00.0#1-2"]}`, 3, false},
		{`{rootDevices: ["0000:01:00.1"]}`, 2, false},
		{"{linkTypes: [ether]}", 0, true},
		{"{drivers: [igbvf]}", 0, true},
		{"{drivers: [iavf]}", 0, false},
		{"[{vendors: [1425]}, {devices: [10ca]}]", 0, true},
		{"[{vendors: [1425]}, {devices: [154c]}]", 0, false},
	} {
		s := parse(t, "pools: [{name: a, selectors: "+tc.selectors+"}]")
		if _, got := s.PoolOf(igb, tc.index, igbvf(tc.index, "igbvf")); got != tc.want {
			t.Errorf("%s has VF %d: %v", tc.selectors, tc.index, got)
		}
	}
}

// TestPoolOfDoesNotFlip shows that the pool of a VF does not depend on the driver that is bound. So
// a VF stays in its pool while culvertd prepares it.
func TestPoolOfDoesNotFlip(t *testing.T) {
	unknown := igb
	unknown.Driver = "newnic"
	for _, tc := range []struct {
		name, pools string
		pf          vf.PF
		want        string // "" for none
	}{
		{"netdevice", "[{name: a, selectors: {drivers: [igbvf]}}, {name: b}]", igb, "culvert.dev/a"},
		{"another netdevice", "[{name: a, selectors: {drivers: [iavf]}}, {name: b}]", igb, "culvert.dev/b"},
		{"vfio", "[{name: a, selectors: {drivers: [vfio-pci]}}, {name: b}]", igb, "culvert.dev/a"},
		{"vfio of a netdevice driver", "[{name: a, deviceType: vfio-pci, selectors: {drivers: [igbvf]}}]", igb, "culvert.dev/a"},
		{"vfio of another netdevice driver", "[{name: a, deviceType: vfio-pci, selectors: {drivers: [iavf]}}]", igb, ""},
		{"unknown PF driver", "[{name: a, selectors: {drivers: [newvf]}}]", unknown, "culvert.dev/a"},
		{"unknown PF driver, another card's VF driver", "[{name: a, selectors: {drivers: [ixgbevf]}}]", unknown, ""},
	} {
		s := parse(t, "pools: "+tc.pools)
		own := "igbvf"
		if tc.pf.Driver != igb.Driver {
			own = "newvf"
		}
		for _, bound := range []string{"", own, vf.DriverVFIO} {
			p, ok := s.PoolOf(tc.pf, 0, igbvf(0, bound))
			got := ""
			if ok {
				got = p.FullName()
			}
			if got != tc.want {
				t.Errorf("%s: bound to %q it is in %q, want %q", tc.name, bound, got, tc.want)
			}
		}
	}
}

// TestPoolsAreDisjoint (I1, I5): a VF is only in the first pool that matches it; Also returns the
// other pools that match it.
func TestPoolsAreDisjoint(t *testing.T) {
	s := parse(t, `
pools:
- {name: a, selectors: {pfNames: ["enp1s0f0#0-3"]}}
- {name: b, deviceType: vfio-pci, selectors: {pfNames: ["enp1s0f0#2-5"]}}
- {name: c}
`)
	want := []string{"a c", "a c", "a b c", "a b c", "b c", "b c", "c"}
	for i, w := range want {
		p, _ := s.PoolOf(igb, i, igbvf(i, ""))
		got := p.Name
		for _, q := range s.Also(igb, i, igbvf(i, "")) {
			got += " " + q.Name
		}
		if got != w {
			t.Errorf("VF %d: %s, want %s", i, got, w)
		}
	}
}

// A VF has the RDMA device that its netdevice driver makes. While no such driver is bound, the
// PF's device says whether there will be one.
func TestIsRDMA(t *testing.T) {
	made, ours := parse(t, "pools: [{name: a, selectors: {isRdma: true}}]").Pools[0], vf.RDMA{Device: "mlx5_2"}
	read, err := ParseDevicePlugin("config.json", []byte(`{"resourceList": [{"resourceName": "a", "selectors": {"isRdma": true}}]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	asBound := read.Pools[0]
	plain, capable := igb, igb
	capable.RDMA = true
	for name, tc := range map[string]struct {
		pf            vf.PF
		v             vf.State
		made, asBound bool
	}{
		"with a device":                   {plain, vf.State{Driver: "mlx5_core", RDMA: &ours}, true, true},
		"without":                         {capable, vf.State{Driver: "mlx5_core"}, false, false},
		"not made yet":                    {capable, vf.State{}, true, true},
		"not made yet, of a PF without":   {plain, vf.State{}, false, false},
		"for user space":                  {capable, vf.State{Driver: vf.DriverVFIO}, true, false},
		"for user space, of a PF without": {plain, vf.State{Driver: vf.DriverVFIO}, false, false},
	} {
		if got := [2]bool{made.matchesVF(tc.pf, 0, tc.v), asBound.matchesVF(tc.pf, 0, tc.v)}; got != [2]bool{tc.made, tc.asBound} {
			t.Errorf("%s: a pool of host.yaml %t, of the device plugin %t", name, got[0], got[1])
		}
	}
}

func TestPoolOfForecast(t *testing.T) {
	s := parse(t, `
pools:
- {name: a, selectors: {pciAddresses: ["01:10.0"]}}
- {name: b, selectors: {vendors: [8086], devices: [10ca], drivers: [igbvf], pfNames: ["enp1s0f0#0"]}}
`)
	if p, ok := s.PoolOf(igb, 0, vf.State{}); !ok || p.Name != "b" {
		t.Errorf("a VF that is not made yet is forecast in %q", p.Name)
	}
}

func TestPool(t *testing.T) {
	s := parse(t, "pools: [{name: a}, {name: b, prefix: x.dev}, {name: b, prefix: y.dev}]")
	for _, tc := range []struct {
		name, want, err string
		is              error
	}{
		{"a", "culvert.dev/a", "", nil},
		{"x.dev/b", "x.dev/b", "", nil},
		{"b", "", `pool "b": invalid: it could mean x.dev/b, y.dev/b; write the whole name`, vf.ErrInvalid},
		{"c", "", `pool "c": not found: there are culvert.dev/a, x.dev/b, y.dev/b`, vf.ErrNotFound},
		{"", "", "no pool is named: invalid: there are culvert.dev/a, x.dev/b, y.dev/b; name one of them", vf.ErrInvalid},
	} {
		p, err := s.Pool(tc.name)
		if tc.err != "" {
			if err == nil || err.Error() != tc.err || !errors.Is(err, tc.is) {
				t.Errorf("%q: got %v, want %s", tc.name, err, tc.err)
			}
			continue
		}
		if err != nil || p.FullName() != tc.want {
			t.Errorf("%q is %q, %v", tc.name, p.FullName(), err)
		}
	}
	if p, err := parse(t, "pools: [{name: a}]").Pool(""); err != nil || p.Name != "a" {
		t.Errorf("the only pool is %q, %v", p.Name, err)
	}
	if _, err := (Spec{}).Pool("a"); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no pools: %v", err)
	}
}

// Advice names the entry that decides: one of host.yaml on a host, one of a NodePolicy in a
// cluster.
func TestWhereDeclared(t *testing.T) {
	policy := policySpec(t, "all", `{"pfs": [{"driver": "igb", "vfs": 7, "mtu": 9000}]}`)
	host := parse(t, `{pfs: [{name: "enp1s0f0", vfs: 3}]}`)
	for want, s := range map[string]Spec{
		"NodePolicy all, pfs[0]": Merge(Sources{Policies: []Policy{{Name: "all", Spec: policy}}}, Spec{}, []vf.PF{igb}).Spec,
		"host.yaml:1":            Merge(Sources{Host: host, Policies: []Policy{{Name: "all", Spec: policy}}}, Spec{}, []vf.PF{igb}).Spec,
		DefaultPath:              {},
	} {
		if got := s.WhereDeclared(igb); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A pool with asBound takes VFs by the driver that is bound to them, as a pool of the device plugin's
// file does, and binds none.
func TestAsBoundInHostYAML(t *testing.T) {
	s := parse(t, `
pools:
- {name: kernel, asBound: true, selectors: {drivers: [igbvf]}}
- {name: user, asBound: true, selectors: {drivers: [vfio-pci]}}
`)
	for driver, want := range map[string]string{"igbvf": "kernel", vf.DriverVFIO: "user", "uio_pci_generic": ""} {
		p, _ := s.PoolOf(igb, 0, vf.State{PCI: vf.PCIAddr{Bus: 1, Device: 16}, Driver: driver})
		if p.Name != want || want != "" && p.DriverFor(driver) != map[string]string{"kernel": vf.DriverDefault, "user": vf.DriverVFIO}[want] {
			t.Errorf("a VF with %s: pool %q, want %q, bound to %q", driver, p.Name, want, p.DriverFor(driver))
		}
	}
}
