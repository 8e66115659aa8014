package evidence

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/safchain/ethtool"

	"github.com/culvert-net/culvert/bench"
)

// TestMachine reads a host's files; its interfaces are those of where the test runs.
func TestMachine(t *testing.T) {
	got, err := writeTree(t, "host.txtar").Machine()
	if err != nil {
		t.Fatal(err)
	}
	want := bench.Machine{
		Name: "worker01", Kernel: "6.12.48+deb13-amd64", CPU: "QEMU Virtual CPU version 2.5+", CPUs: 2, NUMANodes: 2, NUMACPUs: []string{"0", "1"}, MemoryMiB: 1966,
		Governor: "performance,powersave", Hypervisor: "tcg",
		Mitigated: []string{"spectre_v1: Mitigation: usercopy/swapgs barriers and __user pointer sanitization"},
		Platform:  []bench.Setting{{Name: "IOMMU", Value: "none"}},
		Sysctls:   []bench.Setting{{Name: "net.core.rmem_max", Value: "212992"}, {Name: "net.ipv4.tcp_rmem", Value: "4096 131072 6291456"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(bench.Machine{}, "Interfaces")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestReadNUMA: numbers of NUMA nodes may have gaps. The processors are listed by number.
func TestReadNUMA(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes map[string]string // the processors by the node's number
		count int
		want  []string
	}{
		"no files":           {nil, 1, nil},
		"one":                {map[string]string{"0": "0-3\n"}, 1, nil},
		"a gap":              {map[string]string{"0": "0-1\n", "2": "2-3\n"}, 2, []string{"0-1", "", "2-3"}},
		"more than nine":     {map[string]string{"2": "0\n", "10": "1\n"}, 2, []string{"", "", "0", "", "", "", "", "", "", "", "1"}},
		"one without any":    {map[string]string{"0": "0\n", "1": "\n"}, 2, []string{"0", ""}},
		"no number of Linux": {map[string]string{"0": "0\n", "9999999": "1\n"}, 1, nil},
	} {
		r := Reader{Root: t.TempDir()}
		for n, cpus := range tc.nodes {
			writeFiles(t, r, map[string]string{"sys/devices/system/node/node" + n + "/cpulist": cpus})
		}
		if count, got := r.readNUMA(); count != tc.count || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %d nodes, %q; want %d, %q", name, count, got, tc.count, tc.want)
		}
	}
}

// R3: a machine of OpenStack is known also from within a pod, where no virtio NIC is an interface.
func TestMachineOfOpenStack(t *testing.T) {
	const vendor, nic = "sys/class/dmi/id/sys_vendor", "sys/bus/virtio/drivers/virtio_net/virtio0/uevent"
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"virtio on OpenStack": {map[string]string{vendor: "OpenStack Foundation\n", nic: ""}, true},
		"virtio elsewhere":    {map[string]string{vendor: "QEMU\n", nic: ""}, false},
		"VFs on OpenStack":    {map[string]string{vendor: "OpenStack Foundation\n"}, false},
	} {
		r := writeTree(t, "host.txtar")
		writeFiles(t, r, c.files)
		if m, err := r.Machine(); err != nil || m.OpenStack != c.want {
			t.Errorf("%s: %t, %v", name, m.OpenStack, err)
		}
	}
}

func TestHypervisor(t *testing.T) {
	for _, c := range []struct{ cpus, vendor, clocks, want string }{
		{"model name : AMD EPYC\nflags : fpu\n", "Dell Inc.", "tsc hpet acpi_pm", ""},
		{"model name : AMD EPYC\nflags : fpu hypervisor\n", "QEMU", "kvm-clock tsc acpi_pm", "kvm"},
		{"model name : QEMU TCG CPU version 2.5+\nflags : fpu hypervisor\n", "QEMU", "hpet", "tcg"},
		{"model name : AMD EPYC\nflags : fpu hypervisor\n", "QEMU", "hpet acpi_pm", "tcg"},
		{"flags : hypervisor\n", "", "hyperv_clocksource_tsc_page", "hyperv"},
		{"flags : hypervisor\n", "", "xen tsc", "xen"},
		{"flags : hypervisor\n", "", "tsc", "unknown"},
	} {
		if got := nameHypervisor(c.cpus, c.vendor, c.clocks); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := parseModel("processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"); got != "Arm implementer 0x41 part 0xd0c" {
		t.Errorf("an Arm is %q", got)
	}
	if got := parseModel("processor : 0\n"); got != "" {
		t.Errorf("one that says nothing is %q", got)
	}
}

// TestMachineRefuses: a fingerprint without processors or memory is none. Other files may be
// missing, as they are on some kernels.
func TestMachineRefuses(t *testing.T) {
	for file, need := range map[string]bool{
		"proc/stat": true, "proc/meminfo": true, "proc/cpuinfo": true, "sys/class/dmi/id/sys_vendor": false, "proc/sys/net/core/rmem_max": false,
	} {
		r := writeTree(t, "host.txtar")
		if err := os.Remove(r.pathOf(file)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Machine(); (err != nil) != need {
			t.Errorf("without %s: %v", file, err)
		}
	}
	for _, file := range []string{"proc/stat", "proc/meminfo"} {
		r := writeTree(t, "host.txtar")
		writeFiles(t, r, map[string]string{file: "x\n"})
		if _, err := r.Machine(); err == nil {
			t.Errorf("%s of one letter is read", file)
		}
	}
}

// TestGovernor: each governor in use is named once. A processor that went offline has none, and a
// file that cannot be read leaves the governors unknown.
func TestGovernor(t *testing.T) {
	r := Reader{Root: t.TempDir()}
	file := func(cpu int) string { return fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu) }
	writeFiles(t, r, map[string]string{file(0): "performance\n", file(1): "performance\n", file(2): "powersave\n", file(3): "-> /gone"})
	if got := r.readGovernor(); got != "performance,powersave" {
		t.Errorf("%q", got)
	}
	if err := os.MkdirAll(r.pathOf(file(4)), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := r.readGovernor(); got != "" {
		t.Errorf("with a folder in place of a file: %q", got)
	}
}

// TestFromPCI: the properties of a VF's PCI function, where the PF has an interface and where it
// has none.
func TestFromPCI(t *testing.T) {
	r := writeTree(t, "host.txtar")
	i := bench.Interface{Name: "net1", PCI: "0000:01:10.2", SpeedMbps: 1000}
	r.fromPCI(&i)
	want := bench.Interface{
		Name: "net1", PCI: "0000:01:10.2", SpeedMbps: 1000, NUMA: 1, IRQs: []bench.IRQ{{Number: 41, CPUs: "0-1", Comes: "1"}, {Number: 42, CPUs: "1"}},
	}
	if diff := cmp.Diff(want, i); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for pci, want := range map[string]string{"0000:01:10.2": "enp1s0 1", "0000:01:10.0": "enp1s0 0", "0000:01:00.0": "", "": ""} {
		pf, vf := r.findPF(pci)
		if got := strings.TrimSuffix(fmt.Sprint(pf, " ", formatIndex(vf)), " "); got != want {
			t.Errorf("%s: %q, want %q", pci, got, want)
		}
	}
	if err := os.RemoveAll(r.pathOf("sys/devices/pci/0000:01:00.0/net")); err != nil {
		t.Fatal(err)
	}
	if pf, vf := r.findPF("0000:01:10.2"); pf != "0000:01:00.0" || formatIndex(vf) != "1" {
		t.Errorf("where the PF is not seen: %q, %s", pf, formatIndex(vf))
	}
	made := bench.Interface{Name: "veth", PCI: "tun", SpeedMbps: 10000}
	r.fromPCI(&made)
	if diff := cmp.Diff(bench.Interface{Name: "veth", SpeedMbps: 10000, NUMA: -1}, made); diff != "" {
		t.Errorf("one without a PCI function: %s", diff)
	}
}

// TestUnder: a bond's frames go over its members, and a tunnel's over the interface below it.
func TestUnder(t *testing.T) {
	r := Reader{Root: t.TempDir()}
	for _, dir := range []string{"bond0/lower_net1", "bond0/lower_net2", "vlan5/lower_bond0", "flannel.1/lower_vlan5", "cni0/lower_veth1", "cni0/bridge", "net1"} {
		if err := os.MkdirAll(r.pathOf("sys/class/net/"+dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]string{
		"bond0": {"net1", "net2"}, "flannel.1": {"vlan5", "bond0", "net1", "net2"}, "cni0": nil, "net1": nil,
	} {
		if diff := cmp.Diff(want, r.interfacesUnder(name)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestSpeeds: a bond of VFs has the speed that the kernel reports, and an interface without
// hardware below it has none.
func TestSpeeds(t *testing.T) {
	r := Reader{Root: t.TempDir()}
	for _, dir := range []string{"bond0/lower_net1", "bond0/lower_net2", "vlan5/lower_bond0", "bond1/lower_net1", "bond1/lower_veth1", "flannel.1/lower_net1", "vlan6/lower_gone"} {
		if err := os.MkdirAll(r.pathOf("sys/class/net/"+dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const bonding, vlan = "bonding", "802.1Q VLAN Support"
	var links []link
	for _, i := range []bench.Interface{
		{Name: "net1", PCI: "0000:01:10.0"}, {Name: "net2", PCI: "0000:02:10.0"}, {Name: "veth1", Driver: "veth"}, {Name: "flannel.1", Driver: "vxlan"},
		{Name: "bond0", Driver: bonding}, {Name: "bond1", Driver: bonding}, {Name: "bond2", Driver: bonding}, {Name: "vlan5", Driver: vlan}, {Name: "vlan6", Driver: vlan},
	} {
		i.SpeedMbps = 1000
		links = append(links, link{Interface: i})
	}
	r.forgetMadeUp(links)
	var known []string
	for _, l := range links {
		if l.SpeedMbps > 0 {
			known = append(known, l.Name)
		}
	}
	if diff := cmp.Diff([]string{"net1", "net2", "bond0", "vlan5"}, known); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func formatIndex(vf *int) string {
	if vf == nil {
		return ""
	}
	return fmt.Sprint(*vf)
}

// endsVariable makes this test's program print the ends of its network namespace.
const endsVariable = "CULVERT_TEST_ENDS"

func TestMain(m *testing.M) {
	if os.Getenv(endsVariable) == "" {
		os.Exit(m.Run())
	}
	ends, err := Reader{}.Ends()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, e := range ends {
		fmt.Printf("%s %s %d %s %q %s\n", e.Interface, e.Address, e.MTU, e.Driver, e.PF, formatIndex(e.VF))
	}
}

// TestEnds is of a veth pair in a network namespace of this test's own. Nothing but the ends may
// be on standard output, which is an agent's pipe.
func TestEnds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making a network namespace needs root")
	}
	netns := fmt.Sprintf("cvends%d", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	ip("netns", "add", netns)
	t.Cleanup(func() { ip("netns", "del", netns) })
	ip("-n", netns, "link", "add", "v0", "mtu", "1400", "type", "veth", "peer", "name", "v1")
	ip("-n", netns, "addr", "add", "10.98.0.1/24", "dev", "v0")
	ip("-n", netns, "addr", "add", "fd00:98::1/64", "dev", "v0", "nodad")
	cmd := exec.Command("ip", "netns", "exec", netns, os.Args[0])
	cmd.Env = append(os.Environ(), endsVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "v1 invalid IP 1500 veth \"\" \nv0 10.98.0.1 1400 veth \"\" \nv0 fd00:98::1 1400 veth \"\" \n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCoalescingAndFlowControl: a NIC that gathers its interrupts for longer has another latency, and one that obeys pause
// frames another packet rate.
func TestCoalescingAndFlowControl(t *testing.T) {
	got := listCoalescing(ethtool.Coalesce{UseAdaptiveRxCoalesce: 1, RxCoalesceUsecs: 3, TxMaxCoalescedFrames: 64})
	want := []bench.Setting{{Name: "adaptive-rx", Value: "1"}, {Name: "adaptive-tx", Value: "0"}, {Name: "rx-usecs", Value: "3"}, {Name: "rx-frames", Value: "0"},
		{Name: "tx-usecs", Value: "0"}, {Name: "tx-frames", Value: "64"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for driver, want := range map[string]string{"iavf": "iavf", "N/A": "", "n/a": "", "": ""} {
		if got := knownText(driver); got != want {
			t.Errorf("a driver's %q is %q, want %q", driver, got, want)
		}
	}
	if got := flowControl(ethtool.Pause{RxPause: 1}); got != "autonegotiated off, rx on, tx off" {
		t.Error(got)
	}
}
