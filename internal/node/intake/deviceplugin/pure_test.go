package deviceplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// eight returns the VFs of four PFs with two VFs each: PFs 1 and 2 on NUMA node 0, 3 and 4 on node
// 1.
func eight() (all []device) {
	for pf := range 4 {
		for i := range 2 {
			all = append(all, device{
				pci: vf.PCIAddr{Bus: uint8(pf + 1), Device: 0x10, Function: uint8(i)},
				pf:  onPF(uint8(pf+1), pf/2), numa: pf / 2, free: true,
			})
		}
	}
	return all
}

// onPF returns a PF on a bus and a NUMA node.
func onPF(bus uint8, numa int) vf.PF {
	return vf.PF{ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, bus}}, Name: fmt.Sprintf("ens%d", bus), PCI: vf.PCIAddr{Bus: bus}, NUMA: numa}
}

// short returns a VF as "bus.function".
func short(a vf.PCIAddr) string {
	return strings.TrimPrefix(a.String(), "0000:")[1:2] + a.String()[10:]
}

func long(t *testing.T, s string) (out []vf.PCIAddr) {
	t.Helper()
	for _, f := range strings.Fields(s) {
		a, err := vf.ParsePCIAddr("0" + f[:1] + ":10" + f[1:])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

func TestPrefer(t *testing.T) {
	const all = "1.0 1.1 2.0 2.1 3.0 3.1 4.0 4.1"
	for name, tc := range map[string]struct {
		available, must string
		size            int
		want            string
	}{
		"one":                                  {all, "", 1, "1.0"},
		"one, on the PF with most left":        {"1.0 2.0 2.1 4.1", "", 1, "2.0"},
		"two, on two wires of one node":        {all, "", 2, "1.0 2.0"},
		"two, on the node that has two":        {"1.0 3.0 3.1", "", 2, "3.0 3.1"},
		"four, on one node":                    {all, "", 4, "1.0 2.0 1.1 2.1"},
		"five, on two nodes":                   {all, "", 5, "1.0 2.0 3.0 4.0 1.1"},
		"as many as on two nodes":              {"1.0 3.0", "", 2, "1.0 3.0"},
		"what must be, and its node":           {all, "3.0", 2, "3.0 4.0"},
		"what must be, with another node":      {"1.0 1.1 2.0 3.0 3.1", "3.0", 3, "3.0 1.0 2.0"},
		"all that must be":                     {all, "1.0 4.1", 2, "1.0 4.1"},
		"must that is not among the available": {"1.0 2.0", "4.1", 2, "4.1 1.0"},
		"more than there are":                  {"1.0 2.0", "", 3, ""},
		"must is more than asked":              {all, "1.0 4.1", 1, ""},
		"nothing":                              {all, "", 0, ""},
		"available ones that are not known":    {"9.0 1.1", "", 1, "1.1"},
		"a must that is not known":             {all, "9.0", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range preferDevices(eight(), long(t, tc.available), long(t, tc.must), tc.size, nil) {
				got = append(got, short(a))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The VFs of a bond are of different PFs, on one NUMA node if one has them. PFs 1 and 2 are on node
// 0, 3 and 4 on node 1.
func TestPreferForABond(t *testing.T) {
	const all = "1.0 1.1 2.0 2.1 3.0 3.1 4.0 4.1"
	pair := vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF}
	numa, three, primary := pair, pair, pair
	numa.AntiAffinity, three.Links, primary.Primary = vf.ApartNUMA, 3, "ens4"
	for name, tc := range map[string]struct {
		bond            *vf.Bond
		available, must string
		size            int
		want            string
	}{
		"two wires of one node":                      {&pair, all, "", 2, "1.0 2.0"},
		"the node that has two PFs, not two VFs":     {&pair, "1.0 1.1 3.0 4.0", "", 2, "3.0 4.0"},
		"two nodes, where none has two PFs":          {&pair, "1.0 1.1 3.0", "", 2, "1.0 3.0"},
		"without a bond the node counts more":        {nil, "1.0 1.1 3.0", "", 2, "1.0 1.1"},
		"two nodes, as the bond wants it":            {&numa, all, "", 2, "1.0 3.0"},
		"beside the one that must be":                {&pair, "1.0 1.1 3.0", "1.0", 2, "1.0 3.0"},
		"three PFs, on two nodes":                    {&three, all, "", 3, "1.0 2.0 3.0"},
		"one PF only: the attach says what is wrong": {&pair, "1.0 1.1", "", 2, "1.0 1.1"},
		"the primary PF, and one of its node":        {&primary, all, "", 2, "4.0 3.0"},
		"the primary PF on a node of its own":        {&primary, "1.0 2.0 4.0", "", 2, "4.0 1.0"},
		"the primary PF beside the one that must be": {&primary, all, "1.0", 2, "1.0 4.0"},
		"no primary PF: the attach says so":          {&primary, "1.0 2.0", "", 2, "1.0 2.0"},
		"a pod of fewer VFs than the bond":           {&primary, "1.0 1.1 4.0", "", 1, "1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range preferDevices(eight(), long(t, tc.available), long(t, tc.must), tc.size, tc.bond) {
				got = append(got, short(a))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// With antiAffinity nic the VFs are of different cards: PFs 1 and 2 are ports of one card, 3 and 4 of
// another one, each card on a NUMA node of its own.
func TestPreferForABondOverCards(t *testing.T) {
	devices := eight()
	for i := range devices {
		d := &devices[i]
		card := (d.pf.PCI.Bus + 1) / 2
		d.pf.PCI = vf.PCIAddr{Bus: card, Function: (d.pf.PCI.Bus + 1) % 2}
	}
	pair := vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartNIC}
	primary := pair
	primary.Primary = "ens4"
	for name, tc := range map[string]struct {
		bond            vf.Bond
		available, want string
		size            int
	}{
		"two cards":                     {pair, "1.0 1.1 2.0 2.1 3.0", "1.0 3.0", 2},
		"two cards before a third VF":   {pair, "1.0 2.0 3.0 3.1", "3.0 1.0 2.0", 3},
		"the primary PF and a card":     {primary, "1.0 2.0 3.0 4.0", "4.0 1.0", 2},
		"one card: two ports of it":     {pair, "1.0 1.1 2.0", "1.0 2.0", 2},
		"as many cards as the bond has": {pair, "1.0 1.1 2.0 2.1 4.0", "1.0 4.0", 2},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range preferDevices(devices, long(t, tc.available), nil, tc.size, &tc.bond) {
				got = append(got, short(a))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A bond gets a VF of a doubtful PF, or one whose last pod is not gone yet, rather than two VFs of one
// PF. PFs 1 and 2 are on one NUMA node, 3 is on another one.
func TestPreferForABondAmongDoubtfulPFs(t *testing.T) {
	const two, three = "1.0 1.1 2.0 2.1", "1.0 1.1 2.0 2.1 3.0 3.1"
	pair := vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF}
	triple, primary := pair, pair
	triple.Links, primary.Primary = 3, "ens1"
	for name, tc := range map[string]struct {
		bond              *vf.Bond
		doubtful, notFree string // PFs
		available, want   string
		size              int
	}{
		"a doubtful PF of two":          {&pair, "1", "", two, "2.0 1.0", 2},
		"both are doubtful":             {&pair, "12", "", two, "1.0 2.0", 2},
		"a doubtful PF of three":        {&pair, "1", "", three, "2.0 3.0", 2},
		"all of three, one doubtful":    {&triple, "1", "", three, "2.0 3.0 1.0", 3},
		"the doubtful PF is primary":    {&primary, "1", "", three, "1.0 2.0", 2},
		"a PF without free VFs":         {&pair, "", "2", two, "1.0 2.0", 2},
		"doubtful before what is held":  {&pair, "1", "2", three, "3.0 1.0", 2},
		"without a bond the sound ones": {nil, "1", "", two, "2.0 2.1", 2},
	} {
		t.Run(name, func(t *testing.T) {
			devices := eight()
			for i := range devices {
				bus := string('0' + rune(devices[i].pf.PCI.Bus))
				devices[i].doubtful, devices[i].free = strings.Contains(tc.doubtful, bus), !strings.Contains(tc.notFree, bus)
			}
			var got []string
			for _, a := range preferDevices(devices, long(t, tc.available), nil, tc.size, tc.bond) {
				got = append(got, short(a))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The VF that was given back longest ago comes first, as with alloc.Choose.
func TestPreferTheLongestAtRest(t *testing.T) {
	devices := eight()
	devices[0].released = time.Unix(20, 0)
	devices[1].released = time.Unix(10, 0)
	got := preferDevices(devices, long(t, "1.0 1.1"), nil, 1, nil)
	if len(got) != 1 || short(got[0]) != "1.1" {
		t.Errorf("%v", got)
	}
}

// A VF whose last pod is not gone yet comes last, even if all other rules prefer it.
func TestPreferTheFree(t *testing.T) {
	devices := eight()
	devices[0].free, devices[2].free = false, false
	for size, want := range map[int]string{1: "1.1", 2: "1.1 2.1", 3: "1.0 2.0 1.1"} {
		var got []string
		for _, a := range preferDevices(devices, long(t, "1.0 1.1 2.0 2.1"), nil, size, nil) {
			got = append(got, short(a))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d of four: %v, and not %s", size, got, want)
		}
	}
}

// A container gets the environment variables of its VFs and, by the kubelet's list or by CDI, the
// device nodes that VFs of its kind need.
func TestAnswer(t *testing.T) {
	vhost := device{pci: vf.PCIAddr{Bus: 1, Device: 0x10}, pf: onPF(1, 0), group: 12, vhost: true, vfio: true}
	other := device{pci: vf.PCIAddr{Bus: 1, Device: 0x10, Function: 2}, pf: onPF(1, 0), group: 13, vfio: true}
	plain := other
	plain.vfio = false
	vfio := desired.Pool{Name: "dpdk-1", Prefix: "intel.com", DeviceType: desired.VFIO,
		AdditionalInfo: map[string]map[string]string{"*": {"token": "t", "slot": "any"}, "0000:01:10.2": {"slot": "2"}}}
	byCDI := vfio
	byCDI.CDI = true
	net := desired.Pool{Name: "net", Prefix: "intel.com", DeviceType: desired.NetDevice, CDI: true}
	rdma := device{pci: vf.PCIAddr{Bus: 1, Device: 0x10}, group: 12, isRDMA: true, rdma: &vf.RDMA{Device: "mlx5_3", Nodes: []string{
		"/dev/infiniband/issm4", "/dev/infiniband/umad4", "/dev/infiniband/uverbs4", "/dev/infiniband/rdma_cm",
	}}}
	unasked := rdma
	unasked.isRDMA = false
	kernelRDMA := net
	kernelRDMA.CDI = false
	for name, tc := range map[string]struct {
		pool        desired.Pool
		devices     []device
		nodes, cdi  string
		environment string
	}{
		"vfio": {vfio, []device{vhost, other}, "/dev/vfio/vfio /dev/vfio/12 /dev/vhost-net /dev/net/tun /dev/vfio/13", "",
			`PCIDEVICE_INTEL_COM_DPDK_1=0000:01:10.0,0000:01:10.2
PCIDEVICE_INTEL_COM_DPDK_1_INFO={"0000:01:10.0":{"extra":{"slot":"any","token":"t"},"generic":{"deviceID":"0000:01:10.0"},"vfio":{"dev-mount":"/dev/vfio/12","mount":"/dev/vfio/vfio"},"vhost":{"net-mount":"/dev/vhost-net","tun-mount":"/dev/net/tun"}},"0000:01:10.2":{"extra":{"slot":"2","token":"t"},"generic":{"deviceID":"0000:01:10.2"},"vfio":{"dev-mount":"/dev/vfio/13","mount":"/dev/vfio/vfio"}}}`},
		"by CDI": {byCDI, []device{vhost, other}, "", "culvert.dev/vf=0000:01:10.0 culvert.dev/vf=0000:01:10.2", ""},
		"RDMA": {kernelRDMA, []device{rdma}, "/dev/infiniband/issm4 /dev/infiniband/umad4 /dev/infiniband/uverbs4 /dev/infiniband/rdma_cm", "",
			`PCIDEVICE_INTEL_COM_NET=0000:01:10.0
PCIDEVICE_INTEL_COM_NET_INFO={"0000:01:10.0":{"generic":{"deviceID":"0000:01:10.0"},"rdma":{"issm":"/dev/infiniband/issm4","rdma_cm":"/dev/infiniband/rdma_cm","rdma_dev":"mlx5_3","umad":"/dev/infiniband/umad4","uverbs":"/dev/infiniband/uverbs4"}}}`},
		"RDMA by CDI": {net, []device{rdma}, "", "culvert.dev/vf=0000:01:10.0", ""},
		"an RDMA device that the pool does not give out": {kernelRDMA, []device{unasked}, "", "",
			`PCIDEVICE_INTEL_COM_NET=0000:01:10.0
PCIDEVICE_INTEL_COM_NET_INFO={"0000:01:10.0":{"generic":{"deviceID":"0000:01:10.0"}}}`},
		"a netdevice by CDI, which needs nothing": {net, []device{plain}, "", "",
			`PCIDEVICE_INTEL_COM_NET=0000:01:10.2
PCIDEVICE_INTEL_COM_NET_INFO={"0000:01:10.2":{"generic":{"deviceID":"0000:01:10.2"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := allocateResponse(tc.pool, tc.devices)
			if err != nil {
				t.Fatal(err)
			}
			var nodes, cdi []string
			for _, d := range got.GetDevices() {
				nodes = append(nodes, d.GetHostPath())
				if d.GetContainerPath() != d.GetHostPath() || d.GetPermissions() != "rw" {
					t.Errorf("%v", d)
				}
			}
			for _, d := range got.GetCdiDevices() {
				cdi = append(cdi, d.GetName())
			}
			v := tc.pool.EnvVar()
			env := v + "=" + got.GetEnvs()[v] + "\n" + v + "_INFO=" + got.GetEnvs()[v+"_INFO"]
			if tc.environment == "" {
				tc.environment = env
			}
			if diff := cmp.Diff([]string{tc.nodes, tc.cdi, tc.environment}, []string{strings.Join(nodes, " "), strings.Join(cdi, " "), env}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	p := New(Config{InfoDir: filepath.Join(dir, "dp"), CDIDir: filepath.Join(dir, "cdi")})
	pools := []desired.Pool{
		{Name: "dpdk", Prefix: "intel.com", DeviceType: desired.VFIO, CDI: true},
		{Name: "net", Prefix: "intel.com", DeviceType: desired.NetDevice, CDI: true},
	}
	devices := map[string][]device{
		"intel.com/dpdk": {{pci: vf.PCIAddr{Bus: 1, Device: 0x10}, pf: onPF(1, 0), group: 12, vhost: true, vfio: true}, {pci: vf.PCIAddr{Bus: 1, Device: 0x10, Function: 2}, group: -1, vfio: true}},
		"intel.com/net":  {{pci: vf.PCIAddr{Bus: 2, Device: 0x10}, pf: onPF(2, 0), group: 14, rdma: &vf.RDMA{Device: "mlx5_3"}}},
	}
	written := TakeOver(listFile, p.InfoDir, p.CDIDir)
	want := map[string]string{
		"dp/intel.com-dpdk-0000:01:10.0-device.json": `{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:01:10.0","vhost-net":"/dev/vhost-net","pf-pci-address":"0000:01:00.0"}}`,
		"dp/intel.com-dpdk-0000:01:10.2-device.json": `{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:01:10.2"}}`,
		"dp/intel.com-net-0000:02:10.0-device.json":  `{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:02:10.0","rdma-device":"mlx5_3","pf-pci-address":"0000:02:00.0"}}`,
		"cdi/culvert.dev-vf.json": `{"cdiVersion":"0.5.0","kind":"culvert.dev/vf","devices":[{"name":"0000:01:10.0","containerEdits":{"deviceNodes":[` +
			`{"path":"/dev/vfio/vfio","permissions":"rw"},{"path":"/dev/vfio/12","permissions":"rw"},{"path":"/dev/vhost-net","permissions":"rw"},{"path":"/dev/net/tun","permissions":"rw"}]}}],"containerEdits":{}}`,
	}
	if err := written.Keep(p.fileContents(pools, devices)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Another run removes the files of VFs that are in no pool any more, and no files of other
	// programs.
	others := filepath.Join(p.InfoDir, "intel.com-gone-0000:09:10.0-device.json")
	if err := os.WriteFile(others, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	written = TakeOver(listFile, p.InfoDir, p.CDIDir)
	delete(devices, "intel.com/dpdk")
	if err := written.Keep(p.fileContents(pools, devices)); err != nil {
		t.Fatal(err)
	}
	left := read(t, dir)
	delete(want, "dp/intel.com-dpdk-0000:01:10.0-device.json")
	delete(want, "dp/intel.com-dpdk-0000:01:10.2-device.json")
	delete(want, "cdi/culvert.dev-vf.json")
	want["dp/"+filepath.Base(others)] = "{}"
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	// A file that cannot be written does not keep the others from being written (I7).
	p.CDIDir = filepath.Join(dir, "dp", "intel.com-net-0000:02:10.0-device.json")
	devices["intel.com/dpdk"] = []device{{pci: vf.PCIAddr{Bus: 1, Device: 0x10}, group: 12, vfio: true}}
	err := written.Keep(p.fileContents(pools, devices))
	if left := read(t, dir); err == nil || !strings.Contains(err.Error(), cdiFile) || len(left) != 3 {
		t.Errorf("%v; left: %v", err, left)
	}
}

// culvertd removes a file on the list of an earlier run only if it is in one of culvertd's folders.
// A file is on the list before it is written.
func TestListOfFiles(t *testing.T) {
	dir := t.TempDir()
	dp, cdi, elsewhere := filepath.Join(dir, "dp"), filepath.Join(dir, "cdi"), filepath.Join(dir, "precious")
	for _, path := range []string{filepath.Join(dp, "old"), filepath.Join(cdi, "old"), elsewhere} {
		if err := replaceFile(path, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	list := filepath.Join(dp, listFile)
	if err := replaceFile(list, strings.Join([]string{dp + "/old", cdi + "/old", elsewhere, dp + "/../precious"}, "\n")); err != nil {
		t.Fatal(err)
	}
	f := TakeOver(listFile, dp, cdi)
	if err := f.Keep(nil); err != nil {
		t.Fatal(err)
	}
	if left := read(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(elsewhere); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(list), os.MkdirAll(filepath.Join(list, "in the way"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := f.Keep(map[string]string{filepath.Join(dp, "new"): "{}"}); err == nil || len(read(t, dir)) != 0 {
		t.Errorf("%v: written without a list: %v", err, read(t, dir))
	}
}

// A PF that cannot be read keeps its VFs, as unhealthy devices, until the PF is gone.
func TestUnread(t *testing.T) {
	a, b := vf.PCIAddr{Bus: 1}, vf.PCIAddr{Bus: 2}
	st := func(n uint8) vf.State { return vf.State{PCI: vf.PCIAddr{Bus: 1, Device: 0x10, Function: n}} }
	whole, begin := map[vf.PCIAddr]wholePF{}, time.Now()
	x := func(err string, vfs ...vf.State) []vf.PF { return []vf.PF{{PCI: a, Name: "x", Err: err, VFs: vfs}} }
	for i, tc := range []struct {
		after  time.Duration // the first step
		pfs    []vf.PF
		unread []vf.PF
		lately []vf.PF // as it is in pfs then
	}{
		{0, []vf.PF{{PCI: a, Err: "no answer"}}, nil, nil}, // its VFs are not known
		{0, x("", st(0), st(1)), nil, nil},
		{1, []vf.PF{{PCI: a, Err: "no answer"}, {PCI: b}}, nil, x("no answer", st(0), st(1))},
		{unreadGrace, []vf.PF{{PCI: a, Err: "partly", VFs: []vf.State{st(1)}}, {PCI: b}}, nil, x("partly", st(0), st(1))},
		{unreadGrace + 1, []vf.PF{{PCI: a, Err: "partly", VFs: []vf.State{st(1)}}, {PCI: b}}, x("partly", st(0)), nil},
		{unreadGrace + 1, []vf.PF{{PCI: a, Err: "no answer"}, {PCI: b}}, x("no answer", st(0), st(1)), nil},
		{unreadGrace + 2, x("", st(1)), nil, nil},
		{unreadGrace + 3, []vf.PF{{PCI: a, Err: "no answer"}, {PCI: b}}, nil, x("no answer", st(1))},
		{unreadGrace + 3, []vf.PF{{PCI: b}}, nil, nil},
		{unreadGrace + 3, []vf.PF{{PCI: a, Err: "another in its place"}, {PCI: b}}, nil, nil},
	} {
		unread, lately := findUnread(tc.pfs, begin.Add(tc.after), whole, begin.Add(tc.after))
		var shown []vf.PF
		if before, is := lately[a]; is {
			shown = tc.pfs[:1]
			if before.listed.After(begin.Add(tc.after - 1)) {
				t.Errorf("step %d: the VFs are of %s", i, before.listed)
			}
		}
		if diff := cmp.Diff([][]vf.PF{tc.unread, tc.lately}, [][]vf.PF{unread, shown}); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

// read returns the files below a folder.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, sub := range []string{"dp", "cdi"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() == listFile {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, sub, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(text) {
				t.Errorf("%s is not JSON: %s", e.Name(), text)
			}
			out[sub+"/"+e.Name()] = string(text)
		}
	}
	return out
}

// A VF that is bound to a driver of UIO is unhealthy with that reason, whether culvertd has it in its
// ledger or not.
func TestUIOIsUnhealthy(t *testing.T) {
	v := vf.State{PCI: vf.PCIAddr{Bus: 1, Device: 0x10}, Driver: "igb_uio", IOMMUGroup: 7}
	h := host{
		spec: desired.Spec{Pools: []desired.Pool{{Name: "dpdk", Prefix: "x", AsBound: true}}},
		pfs:  []vf.PF{{Name: "enp1s0", Up: true, Carrier: true, VFs: []vf.State{v}}}, newer: func(journal.Record, time.Time) bool { return true },
	}
	for _, records := range [][]journal.Record{nil, {{PCI: v.PCI, Phase: vf.PhaseFree}}} {
		h.records = records
		d := h.devicesByPool(func(journal.Record) bool { return false })["x/dpdk"]
		if len(d) != 1 || d[0].free || d[0].soon != (records != nil) || !strings.Contains(d[0].unfit, "igb_uio is bound to it, whose /dev/uio Culvert gives to no pod") {
			t.Errorf("with %d records: %+v", len(records), d)
		}
	}
}

// The kubelet's list has the NUMA nodes of devices, unless the pool excludes them or a device has
// none.
func TestListing(t *testing.T) {
	devices := []device{{pci: vf.PCIAddr{Bus: 1}, numa: 1}, {pci: vf.PCIAddr{Bus: 2}, numa: -1, unfit: "x"}}
	for _, exclude := range []bool{false, true} {
		got := listDevices(desired.Pool{ExcludeTopology: exclude}, devices).GetDevices()
		if told := got[0].GetTopology() != nil; told == exclude || !exclude && got[0].GetTopology().GetNodes()[0].GetID() != 1 {
			t.Errorf("excluded %t: %v", exclude, got[0])
		}
		if got[1].GetTopology() != nil || got[0].GetHealth() != "Healthy" || got[1].GetHealth() != "Unhealthy" {
			t.Errorf("%v", got)
		}
	}
}

// A pool's name may be longer than a socket's path.
func TestSocketName(t *testing.T) {
	a := "intel.com/" + strings.Repeat("a", 63)
	b := "mellanox.com/" + strings.Repeat("a", 63)
	if n := len(filepath.Join(DefaultDir, socketOf(a))); n > 107 || socketOf(a) == socketOf(b) {
		t.Errorf("%d bytes, %s, %s", n, socketOf(a), socketOf(b))
	}
}

// A VF that an earlier device plugin gave to a pod which runs is in no ledger: it stays
// healthy, and is not free; any other one is being made.
func TestPodsOfAnEarlierPluginKeepTheirVFs(t *testing.T) {
	served, other := vf.PCIAddr{Bus: 1, Device: 0x10}, vf.PCIAddr{Bus: 1, Device: 0x10, Function: 2}
	h := host{
		spec: desired.Spec{Pools: []desired.Pool{{Name: "dpdk", Prefix: "x", AsBound: true}}},
		pfs: []vf.PF{{Name: "enp1s0", Up: true, Carrier: true, VFs: []vf.State{
			{PCI: served, Driver: vf.DriverVFIO, IOMMUGroup: 7}, {ID: vf.ID{Index: 1}, PCI: other, Driver: vf.DriverVFIO, IOMMUGroup: 8},
		}}},
		newer: func(journal.Record, time.Time) bool { return true },
		given: map[vf.PCIAddr]string{served: "default/testpmd"},
	}
	if !h.mayServePods() {
		t.Error("nobody asks the kubelet")
	}
	got := h.devicesByPool(func(journal.Record) bool { return false })["x/dpdk"]
	if len(got) != 2 || got[0].unfit != "" || got[0].free || !got[0].vfio || got[1].unfit != "it is being made" {
		t.Errorf("%+v", got)
	}
}

// A PF that cannot be read for a moment keeps its netdevices as they were at the last reading: healthy
// ones with their RDMA nodes, and those without a driver unhealthy. They come last. A VF for user
// space is unhealthy unless it was read, since its device nodes work without an ADD.
func TestUnreadForAMoment(t *testing.T) {
	at := func(function uint8) vf.PCIAddr { return vf.PCIAddr{Bus: 1, Device: 0x10, Function: function} }
	st := func(index int, driver string) vf.State {
		return vf.State{ID: vf.ID{Index: index}, PCI: at(uint8(index)), Driver: driver, Link: &vf.Link{}, RDMA: &vf.RDMA{Device: "mlx5_2"}}
	}
	before := time.Now()
	h := host{
		spec: desired.Spec{Pools: []desired.Pool{{Name: "net", Prefix: "x", AsBound: true}}},
		pfs: []vf.PF{{Name: "enp1s0", PCI: vf.PCIAddr{Bus: 1}, Up: true, Carrier: true, Err: "no answer", VFs: []vf.State{
			st(0, "igbvf"), st(1, ""), st(2, vf.DriverVFIO), st(3, vf.DriverVFIO),
		}}},
		lately: map[vf.PCIAddr]earlier{{Bus: 1}: {listed: before, now: []vf.State{st(3, vf.DriverVFIO)}}},
		newer:  func(_ journal.Record, listed time.Time) bool { return listed.Equal(before) },
	}
	for i := range 4 {
		h.records = append(h.records, journal.Record{ID: vf.ID{Index: i}, Phase: vf.PhaseFree})
	}
	got := h.devicesByPool(func(journal.Record) bool { return true })["x/net"]
	for i, healthy := range []bool{true, false, false, true} {
		if d := got[i]; (d.unfit == "") != healthy || d.free != healthy || !d.doubtful || d.rdma == nil {
			t.Errorf("VF %d: %+v", i, d)
		}
	}
	if !strings.Contains(got[2].unfit, "PF enp1s0 cannot be read: no answer") {
		t.Errorf("it says %q", got[2].unfit)
	}
}

// No VF of a PF whose link is flapping is healthy, also while the link is up.
func TestFlappingLinkIsUnhealthy(t *testing.T) {
	h := host{
		spec:  desired.Spec{Pools: []desired.Pool{{Name: "net", Prefix: "x", AsBound: true}}},
		pfs:   []vf.PF{{Name: "ens1f0", Up: true, Carrier: true, Flapping: true, VFs: []vf.State{{Driver: "igbvf", Link: &vf.Link{}}}}},
		newer: func(journal.Record, time.Time) bool { return true },
		// The pod has the VF, so nothing else is wrong with it.
		given: map[vf.PCIAddr]string{{}: "default/a"},
	}
	none := func(journal.Record) bool { return false }
	if got := h.devicesByPool(none)["x/net"]; len(got) != 1 || got[0].unfit != "PF ens1f0: "+vf.DescribeFlapping() || got[0].free {
		t.Errorf("%+v", got)
	}
	h.pfs[0].Flapping = false
	if got := h.devicesByPool(none)["x/net"]; len(got) != 1 || got[0].unfit != "" {
		t.Errorf("steady: %+v", got)
	}
}

// A VF that has no carrier although its PF has a link is unhealthy, also while its pod has it. Free
// VFs of that PF, and of PFs with errors of late, stay healthy and come last.
func TestVFsOfDoubtfulPFsComeLast(t *testing.T) {
	none := func(journal.Record) bool { return false }
	dark := vf.ID{PF: vf.PFID{Port: "one"}}
	h := host{
		spec:       desired.Spec{Pools: []desired.Pool{{Name: "net", Prefix: "x", AsBound: true}}},
		newer:      func(journal.Record, time.Time) bool { return true },
		records:    []journal.Record{{ID: dark, Phase: vf.PhaseAttached}, {ID: vf.ID{PF: dark.PF, Index: 1}, Phase: vf.PhaseFree}, {ID: vf.ID{PF: vf.PFID{Port: "two"}}, Phase: vf.PhaseFree}},
		isDark:     func(r journal.Record) bool { return r.ID == dark },
		isDoubtful: func(pf vf.PF, _ []journal.Record) bool { return pf.ID.Port == "one" },
	}
	for _, r := range h.records {
		v := vf.State{ID: r.ID, PCI: vf.PCIAddr{Bus: uint8(len(r.ID.PF.Port)), Device: uint8(r.ID.Index), Function: uint8(len(h.pfs))}, Driver: "igbvf", Link: &vf.Link{}}
		if i := slices.IndexFunc(h.pfs, func(pf vf.PF) bool { return pf.ID == r.ID.PF }); i >= 0 {
			h.pfs[i].VFs = append(h.pfs[i].VFs, v)
			continue
		}
		h.pfs = append(h.pfs, vf.PF{ID: r.ID.PF, Name: r.ID.PF.Port, Up: true, Carrier: true, VFs: []vf.State{v}})
	}
	got := h.devicesByPool(func(journal.Record) bool { return true })["x/net"]
	if len(got) != 3 || !strings.Contains(got[0].unfit, "no carrier") || got[1].unfit != "" || got[2].unfit != "" {
		t.Fatalf("%+v", got)
	}
	free := []vf.PCIAddr{got[1].pci, got[2].pci}
	if first := preferDevices(got, free, nil, 1, nil); len(first) != 1 || first[0] != got[2].pci {
		t.Errorf("%v comes first, of %v", first, free)
	}
	if both := preferDevices(got, free, nil, 2, nil); len(both) != 2 {
		t.Errorf("both are asked for, and there are %v", both)
	}
	h.isDark = none
	if got := h.devicesByPool(none)["x/net"]; strings.Contains(got[0].unfit, "no carrier") {
		t.Errorf("%+v", got[0])
	}
}

// No free VF of a pool over two named segments is healthy, so that no pod gets one, also without a
// network. A pod that has one keeps it healthy.
func TestPoolOverTwoSegmentsIsUnhealthy(t *testing.T) {
	ids := []vf.ID{{PF: vf.PFID{MAC: vf.MAC{2}}}, {PF: vf.PFID{MAC: vf.MAC{4}}}}
	h := host{
		spec: desired.Spec{
			PFs:   []desired.PFRule{{Name: "a", Want: desired.PFSpec{Segment: "storage"}}, {Name: "b", Want: desired.PFSpec{Segment: "front"}}},
			Pools: []desired.Pool{{Name: "net", Prefix: "x", AsBound: true}},
		},
		pfs: []vf.PF{
			{Name: "a", ID: ids[0].PF, Up: true, Carrier: true, VFs: []vf.State{{ID: ids[0], Driver: "igbvf", Link: &vf.Link{}}}},
			{Name: "b", ID: ids[1].PF, Up: true, Carrier: true, VFs: []vf.State{{ID: ids[1], Driver: "igbvf", Link: &vf.Link{}}}},
		},
		records: []journal.Record{{ID: ids[0], Phase: vf.PhaseFree}, {ID: ids[1], Phase: vf.PhaseAttached}},
		newer:   func(journal.Record, time.Time) bool { return true },
	}
	yes := func(journal.Record) bool { return true }
	const why = "its pool gives out no VF: it has VFs on two segments, whose pods do not reach each other: front (b) and storage (a)"
	if got := h.devicesByPool(yes)["x/net"]; len(got) != 2 || got[0].unfit != why || got[0].free || got[1].unfit != "" {
		t.Errorf("%+v", got)
	}
	h.spec.PFs[1].Want.VFs = 1
	made := h.pfs[1].VFs
	h.pfs[1].VFs = nil
	if got := h.devicesByPool(yes)["x/net"]; len(got) != 1 || got[0].unfit != "" || !got[0].free {
		t.Errorf("no VF of the other segment is made: %+v", got)
	}
	h.pfs[1].VFs = made
	h.spec.PFs[1].Want.Segment = "storage"
	if got := h.devicesByPool(yes)["x/net"]; len(got) != 2 || got[0].unfit != "" || !got[0].free {
		t.Errorf("one segment: %+v", got)
	}
}

// Only the pool that asks for RDMA gives the nodes of a VF's RDMA device.
func TestPoolsOfRDMADevices(t *testing.T) {
	rdma := &vf.RDMA{Device: "mlx5_2", Nodes: []string{"/dev/infiniband/uverbs2"}}
	h := host{
		spec: desired.Spec{Pools: []desired.Pool{
			{Name: "rdma", Prefix: "x", AsBound: true, Selectors: []desired.Selector{{IsRDMA: true, PFNames: []desired.Part[string]{{PF: "ens1f0"}}}}},
			{Name: "net", Prefix: "x", AsBound: true},
		}},
		pfs: []vf.PF{
			{Name: "ens1f0", VFs: []vf.State{{Driver: "mlx5_core", RDMA: rdma}, {ID: vf.ID{Index: 1}, Driver: "mlx5_core"}}},
			{Name: "ens1f1", VFs: []vf.State{{Driver: "mlx5_core", RDMA: rdma}}},
		},
		newer: func(journal.Record, time.Time) bool { return true },
	}
	got := map[string][]string{}
	for pool, all := range h.devicesByPool(func(journal.Record) bool { return false }) {
		for _, d := range all {
			got[pool] = append(got[pool], strings.Join(nodesOf(d), " "))
		}
	}
	if diff := cmp.Diff(map[string][]string{"x/rdma": {"/dev/infiniband/uverbs2"}, "x/net": {"", ""}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
