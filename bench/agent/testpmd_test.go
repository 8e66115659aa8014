package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/rpcserver"
)

const devicePCI = "0000:01:11.4"

// deviceTree has the files of a host on which testpmd can drive the VF 6 of a PF.
func deviceTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	const devices = "sys/bus/pci/devices/"
	for name, text := range map[string]string{
		devices + "0000:01:00.0/net/enp1s0/mtu":                      "1500\n",
		devices + devicePCI + "/vendor":                              "0x8086\n",
		devices + devicePCI + "/device":                              "0x10ca\n",
		devices + devicePCI + "/local_cpulist":                       "0-1023\n",
		"sys/kernel/iommu_groups/16/name":                            "\n",
		"sys/bus/pci/drivers/vfio-pci/bind":                          "",
		"sys/bus/pci/drivers/igbvf/bind":                             "",
		"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages":    "32\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "0\n",
		"proc/self/mounts":                                           "hugetlbfs /dev/hugepages hugetlbfs rw 0 0\n",
		"proc/cpuinfo":                                               "processor\t: 0\nflags\t\t: fpu sse4_1 sse4_2\n",
		"dev/vfio/16":                                                "",
	} {
		writeDeviceFile(t, root, name, text)
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(filepath.Join(root, to), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(devices+"0000:01:00.0", devices+devicePCI+"/physfn")
	link(devices+devicePCI, devices+"0000:01:00.0/virtfn6")
	link("sys/bus/pci/drivers/vfio-pci", devices+devicePCI+"/driver")
	link("sys/kernel/iommu_groups/16", devices+devicePCI+"/iommu_group")
	return root
}

func writeDeviceFile(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func deviceStatus() api.NodeStatus {
	pci, _ := vf.ParsePCIAddr(devicePCI)
	return api.NodeStatus{VFs: []api.VF{{Name: "enp1s0#6", PCI: pci, Pool: "culvert.dev/dpdk", Phase: string(vf.PhaseFree)}}}
}

// deviceAgent is an agent on such a host, whose testpmd has such a day.
func deviceAgent(t *testing.T, day string) *agent {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("testpmd needs root")
	}
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, testpmdName)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv(testpmdDay, day)
	t.Setenv("TMPDIR", t.TempDir())
	return &agent{life: t.Context(), Options: Options{Reader: evidence.Reader{Root: deviceTree(t)}, Culvertd: serveStatus(t, deviceStatus())}}
}

// serveStatus is a culvertd that answers with a status.
func serveStatus(t *testing.T, st api.NodeStatus) string {
	t.Helper()
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, func(srv *rpc.Server) {
		srv.Handle(api.MethodStatus, func(context.Context, json.RawMessage) (any, error) { return st, nil })
	})
	return socket
}

var testpmdTask = Task{Interface: devicePCI, Workload: bench.Workload{Kind: bench.Packets, Engine: engine.Testpmd, Seconds: 0.5, Warmup: 0.1, Size: 64}}

// runTestpmd carries the traffic of a role, and returns how often the edges of the window were called.
func runTestpmd(ctx context.Context, a *agent, role testpmdRole) (run bench.Run, edges int, err error) {
	h, err := a.startTestpmd(ctx, testpmdTask, role, Ready{MAC: "02:00:00:00:00:0b"})
	if err != nil {
		return run, 0, err
	}
	edge := func() { edges++ }
	run, err = h.carryTraffic(ctx, marks{planned: func(Window) {}, begin: edge, end: edge})
	return run, edges, errors.Join(err, h.close())
}

// leavesNoTestpmd fails a test that leaves a testpmd, or its folder.
func leavesNoTestpmd(t *testing.T) {
	t.Helper()
	for _, stat := range globFiles(t, "/proc/[0-9]*/stat") {
		text, err := os.ReadFile(stat)
		if err == nil && strings.Contains(string(text), "("+testpmdName+")") && strings.Contains(string(text), fmt.Sprintf(" %d ", os.Getpid())) {
			t.Errorf("it is left: %s", text)
		}
	}
	if left := globFiles(t, filepath.Join(os.TempDir(), "culvert-testpmd-*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

func globFiles(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each role counts by the VF's counters, which do not begin at 0.
func TestTestpmd(t *testing.T) {
	a := deviceAgent(t, "")
	rate := func(n uint64) bool { return n > 3000 && n < 9000 } // 5000 in half a second
	for role, is := range map[testpmdRole]func(bench.Run) bool{
		testpmdReceives: func(r bench.Run) bool {
			c := r.To.Interfaces[0]
			return rate(r.Packets) && r.Bytes == 64*r.Packets && c.RxPackets == r.Packets && c.TxPackets == 0 && r.Totals.Arrived >= r.Packets && r.To.Whole.Interfaces[0].RxPackets == r.Totals.Arrived
		},
		testpmdSends: func(r bench.Run) bool {
			return rate(r.Sent) && r.Packets == 0 && r.Totals.Sent > r.Sent && r.From.Whole.Interfaces[0].TxPackets == r.Totals.Sent
		},
		testpmdForwards: func(r bench.Run) bool {
			c := r.From.Interfaces[0]
			return rate(c.RxPackets) && rate(c.TxPackets) && r.Packets == 0 && r.Sent == 0
		},
	} {
		run, edges, err := runTestpmd(t.Context(), a, role)
		if err != nil || edges != 2 || run.Void == "" && !is(run) {
			t.Errorf("%s: %+v, %d edges, %v", role.forwardMode(), run, edges, err)
		}
		if m := run.From.Mechanism.Name + run.To.Mechanism.Name; run.Void == "" && m != "DPDK 24.11.8" {
			t.Errorf("%s: mechanism %q", role.forwardMode(), m)
		}
		leavesNoTestpmd(t)
	}
}

// On a bad day of testpmd there is an error or a void run with the reason, and nothing is left.
func TestTestpmdOnBadDays(t *testing.T) {
	for day, want := range map[string]string{
		"no driver": "testpmd has no driver for the VF 0000:01:11.4, model 8086:10ca",
		"dies":      "Segmentation fault",
		"garbage":   "read the answer of testpmd to /ethdev/stats",
	} {
		t.Run(day, func(t *testing.T) {
			run, _, err := runTestpmd(t.Context(), deviceAgent(t, day), testpmdReceives)
			if got := run.Void + fmt.Sprint(err); !strings.Contains(got, want) {
				t.Errorf("%+v, %v; want %q", run, err, want)
			}
			leavesNoTestpmd(t)
		})
	}
}

// When the run is interrupted, at whatever point testpmd hangs, no process and no file is left.
func TestTestpmdInterrupted(t *testing.T) {
	for _, day := range []string{"no prompt", "no link", "silent", "hangs"} {
		t.Run(day, func(t *testing.T) {
			a := deviceAgent(t, day)
			ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errors.New("interrupted"))
			defer cancel()
			if _, _, err := runTestpmd(ctx, a, testpmdSends); err == nil || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("%v", err)
			}
			leavesNoTestpmd(t)
		})
	}
}

// The version of DPDK is found once for each VF, and the VF is the one end.
func TestDescribeDevice(t *testing.T) {
	a := deviceAgent(t, "")
	for range 2 {
		var d Description
		a.describeDevice(t.Context(), devicePCI, &d)
		six := 6
		want := Description{
			Machine: bench.Machine{Tools: []bench.Setting{{Name: "testpmd", Value: "24.11.8"}}},
			Ends:    []bench.End{{Interface: devicePCI, MTU: 1500, Driver: "vfio-pci", PF: "enp1s0", VF: &six}},
		}
		if diff := cmp.Diff(want, d, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Error(diff)
		}
		t.Setenv(testpmdDay, "no driver") // it is not started again
	}
	leavesNoTestpmd(t)
}

// testpmd is not started without all that it needs, and the reason says what is missing.
func TestTestpmdIsRefused(t *testing.T) {
	const device = "sys/bus/pci/devices/" + devicePCI
	relink := func(to, name string) func(t *testing.T, a *agent) {
		return func(t *testing.T, a *agent) {
			t.Helper()
			root := a.Reader.Root
			if err := os.Remove(filepath.Join(root, device, name)); err != nil {
				t.Fatal(err)
			}
			if to == "" {
				return
			}
			if err := os.Symlink(filepath.Join(root, to), filepath.Join(root, device, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name, text string) func(t *testing.T, a *agent) {
		return func(t *testing.T, a *agent) { t.Helper(); writeDeviceFile(t, a.Reader.Root, name, text) }
	}
	status := func(change func(v *api.VF)) func(t *testing.T, a *agent) {
		return func(t *testing.T, a *agent) {
			t.Helper()
			st := deviceStatus()
			change(&st.VFs[0])
			a.Culvertd = serveStatus(t, st)
		}
	}
	for name, tc := range map[string]struct {
		make func(t *testing.T, a *agent)
		want string
	}{
		"no testpmd":    {func(t *testing.T, _ *agent) { t.Helper(); t.Setenv("PATH", t.TempDir()) }, "dpdk-testpmd is not installed here: apt-get install dpdk-dev"},
		"no SSE4.2":     {write("proc/cpuinfo", "flags\t\t: fpu sse4_1\n"), "DPDK needs a processor with SSE4.2"},
		"igbvf has it":  {relink("sys/bus/pci/drivers/igbvf", "driver"), "is bound to igbvf and not to vfio-pci: put it into a pool with deviceType: vfio-pci"},
		"no driver":     {relink("", "driver"), "is bound to no driver: put it into a pool with deviceType: vfio-pci"},
		"no VF":         {relink("", "physfn"), "is no VF"},
		"no device":     {func(t *testing.T, a *agent) { t.Helper(); a.Reader.Root = t.TempDir() }, "there is no PCI device 0000:01:11.4 here"},
		"no IOMMU":      {relink("", "iommu_group"), "is in no IOMMU group: turn the IOMMU on"},
		"unsafe IOMMU":  {write("sys/kernel/iommu_groups/16/name", "vfio-noiommu\n"), "is bound without an IOMMU"},
		"no culvertd":   {func(_ *testing.T, a *agent) { a.Culvertd = "/nonexistent" }, "is not known without culvertd"},
		"a guest's":     {status(func(v *api.VF) { v.Owner = &vf.Owner{Kind: vf.OwnerGuest, Name: "db1"} }), "belongs to vm db1"},
		"a pod's":       {status(func(v *api.VF) { v.Phase, v.Owner = api.PhaseGiven, &vf.Owner{Kind: vf.OwnerPod, Name: "a/b"} }), "belongs to pod a/b"},
		"quarantined":   {status(func(v *api.VF) { v.Phase = string(vf.PhaseQuarantined) }), "is quarantined in culvertd's ledger, and not free"},
		"used":          {status(func(v *api.VF) { v.Phase, v.UsedBy = api.PhaseOutside, "a macvlan of the host" }), "is in use, a macvlan of the host"},
		"no pool":       {status(func(v *api.VF) { v.Pool = "" }), "is in no pool"},
		"unknown":       {status(func(v *api.VF) { v.PCI = vf.PCIAddr{} }), "culvertd does not know the VF"},
		"no huge pages": {write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "31\n"), "62 MiB of huge pages are free, and testpmd takes 64: sysctl -w vm.nr_hugepages=N"},
		"no hugetlbfs":  {write("proc/self/mounts", "proc /proc proc rw 0 0\n"), "no file system of huge pages is mounted"},
	} {
		t.Run(name, func(t *testing.T) {
			a := deviceAgent(t, "")
			tc.make(t, a)
			var d Description
			a.describeDevice(t.Context(), devicePCI, &d)
			if len(d.Lacking) != 1 || d.Lacking[0].Engine != engine.Testpmd || !strings.Contains(d.Lacking[0].Why, tc.want) {
				t.Errorf("lacking %+v; want %q", d.Lacking, tc.want)
			}
			if _, _, err := runTestpmd(t.Context(), a, testpmdSends); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("a run: %v; want %q", err, tc.want)
			}
			leavesNoTestpmd(t)
		})
	}
	if err := explainOpening(devicePCI, "/dev/vfio/16", &os.PathError{Err: syscall.EBUSY}); !strings.Contains(err.Error(), "a program has the VF 0000:01:11.4 open by /dev/vfio/16") {
		t.Error(err)
	}
}

// A pod may get the VF between the first look at the ledger and the moment when testpmd has it open.
func TestPodGetsTheVFFirst(t *testing.T) {
	a := deviceAgent(t, "")
	asked := 0
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, func(srv *rpc.Server) {
		srv.Handle(api.MethodStatus, func(context.Context, json.RawMessage) (any, error) {
			st := deviceStatus()
			if asked++; asked > 1 {
				st.VFs[0].Owner = &vf.Owner{Kind: vf.OwnerPod, Name: "a/b"}
			}
			return st, nil
		})
	})
	a.Culvertd = socket
	if _, _, err := runTestpmd(t.Context(), a, testpmdReceives); err == nil || !strings.Contains(err.Error(), "belongs to pod a/b") {
		t.Errorf("%v", err)
	}
	leavesNoTestpmd(t)
}

// A testpmd that ended may still be in culvertd's status.
func TestFormerTestpmdIsNoUser(t *testing.T) {
	st := deviceStatus()
	st.VFs[0].Phase, st.VFs[0].UsedBy = api.PhaseOutside, vf.Use{By: vf.Process{PID: 1, Name: "dpdk-testpmd"}}.String()
	if err := checkFree(st, devicePCI); err != nil {
		t.Error(err)
	}
}

func TestTestpmdArguments(t *testing.T) {
	for role, want := range map[testpmdRole]string{
		testpmdReceives: "--lcores 0@2,1@5 --huge-unlink --file-prefix cv --allow 0000:01:11.4 -- -i --forward-mode=rxonly --port-topology=loop --nb-cores=1 --rxq=1 --txq=1 --total-num-mbufs=16384 --disable-link-check --no-lsc-interrupt",
		testpmdSends:    "--lcores 0@2,1@4 --huge-unlink --file-prefix cv --allow 0000:01:11.4 -- -i --forward-mode=txonly --port-topology=loop --nb-cores=1 --rxq=1 --txq=1 --total-num-mbufs=16384 --disable-link-check --no-lsc-interrupt --eth-peer=0,02:00:00:00:00:01 --txpkts=64",
		testpmdForwards: "--lcores 0@2,1@3 --huge-unlink --file-prefix cv --allow 0000:01:11.4 -- -i --forward-mode=mac --port-topology=loop --nb-cores=1 --rxq=1 --txq=1 --total-num-mbufs=16384 --disable-link-check --no-lsc-interrupt --eth-peer=0,02:00:00:00:00:01",
	} {
		peer := "02:00:00:00:00:01"
		if role == testpmdReceives {
			peer = ""
		}
		if diff := cmp.Diff(want, strings.Join(testpmdArguments([]int{2, 3, 4, 5}, role, testpmdTask, peer), " ")); diff != "" {
			t.Error(diff)
		}
	}
	for _, tc := range []struct {
		cpus []int
		nth  int
		want string
	}{{nil, 2, "(0-1)@0"}, {[]int{3}, 2, "(0-1)@3"}, {[]int{3, 4}, 0, "0@3,1@4"}, {[]int{3, 4}, 2, "0@3,1@4"}} {
		if got := placeCores(tc.cpus, tc.nth); got != tc.want {
			t.Errorf("%v, %d: %s, want %s", tc.cpus, tc.nth, got, tc.want)
		}
	}
	for list, want := range map[string]bool{"0-3": true, "2": true, "0-1,3": false, "": false, "x": false, "5,2-2": true} {
		if got := isListed(list, 2); got != want {
			t.Errorf("%q: %v", list, got)
		}
	}
}

// testpmd's own processors and statistics cannot fall.
func TestTestpmdCountersThatFall(t *testing.T) {
	few, many := uint64(1), uint64(2)
	if _, err := subtractStats("v", portStats{Received: &many, Sent: &few}, portStats{Received: &few, Sent: &few}); err == nil || !strings.Contains(err.Error(), "fell from 2 to 1") {
		t.Errorf("%v", err)
	}
}

func FuzzTelemetry(f *testing.F) {
	f.Add([]byte(`{"/ethdev/stats":{"ipackets":0,"opackets":5632,"ibytes":0,"obytes":382976,"imissed":0,"q_ipackets":[0,0]}}`))
	f.Add([]byte(`{"/ethdev/stats":null}`))
	f.Add([]byte(`{"version":"DPDK 24.11.8","pid":761,"max_output_len":16384}`))
	f.Add([]byte(`{"/ethdev/stats":{"ipackets":-1}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, said []byte) {
		if version, err := parseGreeting(said); err == nil && (version == "" || strings.ContainsAny(version, "\n\x1b")) {
			t.Errorf("%q: version %q", said, version)
		}
		var s portStats
		if err := parseTelemetry(said, statsCommand, &s); err == nil && s.check() == nil {
			if _, err := subtractStats("v", s, s); err != nil {
				t.Errorf("%q: %v", said, err)
			}
		}
	})
}
