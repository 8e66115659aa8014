package gather

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/vf"
)

// layOut writes an archive to a folder of the test's, and returns the folder. A text "-> x" becomes
// a link, and a text that begins with #! a program.
func layOut(t *testing.T, archive string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path, mode := filepath.Join(root, f.Name), os.FileMode(0o644)
		if strings.HasPrefix(string(f.Data), "#!") {
			mode = 0o755
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if to, link := strings.CutPrefix(string(f.Data), "-> "); err == nil && link {
			err = os.Symlink(strings.TrimSpace(to), path)
		} else if err == nil {
			err = os.WriteFile(path, f.Data, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// machine has the hardware that netlink would report, or an error for each question.
type machine struct {
	pfs     []vf.PF
	nics    []vf.NIC
	pf, nic error
}

func (m machine) PFs(context.Context) ([]vf.PF, error)   { return m.pfs, m.pf }
func (m machine) NICs(context.Context) ([]vf.NIC, error) { return m.nics, m.nic }

func testMachine() machine {
	pf := vf.PF{Name: "enp1s0f0", PCI: vf.PCIAddr{Bus: 1}, VFs: []vf.State{{PCI: vf.PCIAddr{Bus: 1, Device: 16}}}}
	return machine{pfs: []vf.PF{pf}, nics: []vf.NIC{{PCI: pf.PCI, Name: pf.Name}}}
}

const goodHost = `
-- etc/culvert/host.yaml --
pfs: [{name: enp1s0f0, vfs: 1, mtu: 9000}]
-- etc/rc.local --
echo 4 >/sys/class/net/enp1s0f0/device/sriov_numvfs
-- etc/libvirt/x --
-- proc/sys/kernel/osrelease --
6.12.9-amd64
-- sys/bus/pci/devices/0000:01:00.0/msi_irqs/24 --
-- sys/bus/pci/devices/0000:01:10.0/msi_irqs/26 --
-- var/lib/culvert/ledger.db --
-- var/lib/kubelet/config.yaml --
failSwapOn: false
`

func testOptions(root string, m machine) Options {
	return Options{
		Root: root, Kernel: m, HostFile: "/etc/culvert/host.yaml", Ledger: "/var/lib/culvert/ledger.db", Version: "v1", Build: "abc", IsRoot: true,
		Status:  func(context.Context) (api.NodeStatus, error) { return api.NodeStatus{Node: "a"}, nil },
		Cluster: func(context.Context) (doctor.Cluster, error) { return doctor.Cluster{Name: "c"}, nil },
	}
}

// TestFacts: a host that answers everything leaves no reason why a fact is missing. Files are
// looked for below the root, and facts name them by their path on the host.
func TestFacts(t *testing.T) {
	m := testMachine()
	f := Facts(t.Context(), testOptions(layOut(t, goodHost), m))
	if reasons := f.NICErr + f.SpecErr + f.ClaimsErr + f.StatusErr + f.Cluster.Err; reasons != "" || f.SpecMissing {
		t.Errorf("missing: %q, %t", reasons, f.SpecMissing)
	}
	if diff := cmp.Diff(m.nics, f.NICs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for pci, irq := range map[vf.PCIAddr]int{m.pfs[0].PCI: 24, m.pfs[0].VFs[0].PCI: 26} {
		if got := f.Devices[pci].IRQs; !slices.Equal(got, []int{irq}) {
			t.Errorf("function %s has the interrupts %v, want %d", pci, got, irq)
		}
	}
	if want, ok := f.Spec.ForPF(m.pfs[0]); !ok || want.MTU != 9000 {
		t.Errorf("host.yaml wants %+v, %t", want, ok)
	}
	if len(f.Claims) != 1 || f.Claims[0].File != "/etc/rc.local" {
		t.Errorf("claims: %+v", f.Claims)
	}
	if f.Host.Release != "6.12.9-amd64" || !f.Libvirt.There || !f.KubeletSwap || f.CNI.OwnBuild != "abc" || !f.Root || f.Version != "v1" {
		t.Errorf("%+v", f)
	}
	if f.Ledger.Path != "/var/lib/culvert" || f.Ledger.Missing || f.Ledger.Type == "" {
		t.Errorf("the disk of the ledger: %+v", f.Ledger)
	}
	if f.Status == nil || f.Status.Node != "a" || f.Cluster.Name != "c" || f.Peer != nil {
		t.Errorf("status %+v, cluster %+v, peer %+v", f.Status, f.Cluster, f.Peer)
	}
}

// TestFactsOfNothing: a fact that cannot be had leaves its reason in the facts, in one line. The
// other facts are there all the same.
func TestFactsOfNothing(t *testing.T) {
	no := func(what string) error { return errors.New(what + " is\nbroken") }
	m := testMachine()
	m.nics, m.nic, m.pf = nil, no("the list of NICs"), no("the list of PFs")
	o := testOptions(layOut(t, "-- etc/culvert/host.yaml --\npfs: [{vfs: many}]\n-- etc/netplan --\n-- etc/rc.local --\necho 4 >/sys/class/net/enp1s0f0/device/sriov_numvfs\n"), m)
	o.Status = func(context.Context) (api.NodeStatus, error) { return api.NodeStatus{}, no("culvertd") }
	o.Cluster = func(context.Context) (doctor.Cluster, error) { return doctor.Cluster{}, no("the API server") }
	f := Facts(t.Context(), o)
	for name, c := range map[string]struct{ got, want string }{
		"NICs": {f.NICErr, "the list of NICs is; broken; the list of PFs is; broken"}, "status": {f.StatusErr, "culvertd is; broken"}, "cluster": {f.Cluster.Err, "the API server is; broken"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	if f.SpecMissing || !strings.Contains(f.SpecErr, "many") || !strings.Contains(f.ClaimsErr, "etc/netplan") {
		t.Errorf("host.yaml: %t, %q; claims: %q", f.SpecMissing, f.SpecErr, f.ClaimsErr)
	}
	if f.Status != nil || !f.Ledger.Missing || len(f.Devices) != 2 || len(f.Claims) != 1 {
		t.Errorf("%+v", f)
	}
	o.Cluster = nil
	if f := Facts(t.Context(), o); f.Cluster != nil {
		t.Errorf("without a cluster to ask: %+v", f.Cluster)
	}
}

// TestReadSpec: a host without host.yaml is no fault. A file that cannot be read is one.
func TestReadSpec(t *testing.T) {
	for name, c := range map[string]struct {
		archive string
		missing bool
		err     string
	}{
		"none":      {"", true, ""},
		"right":     {"-- host.yaml --\npfs: [{name: a, vfs: 1}]\n", false, ""},
		"wrong":     {"-- host.yaml --\npfs: [{name: a, vfs: x}]\n", false, "host.yaml"},
		"a folder":  {"-- host.yaml/x --\n", false, "no file"},
		"too large": {"-- host.yaml --\n" + strings.Repeat("#\n", maxFile), false, "more than 1048576 bytes"},
	} {
		_, missing, err := readSpec(Options{Root: layOut(t, c.archive), HostFile: "/host.yaml"})
		if missing != c.missing || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: missing %t, %v; want %t, %q", name, missing, err, c.missing, c.err)
		}
	}
}

// TestKubeletSwap: the kubelet refuses swap unless the first configuration that says so allows it
// (KubeletConfiguration v1beta1, failSwapOn is true by default).
func TestKubeletSwap(t *testing.T) {
	const first, second = "-- var/lib/kubelet/config.yaml --\n", "-- etc/kubernetes/kubelet/config.yaml --\n"
	for archive, want := range map[string]bool{
		"":                             false,
		first + "kind: x\n":            false,
		first + "failSwapOn: true\n":   false,
		first + "failSwapOn: false\n":  true,
		second + "failSwapOn: false\n": true,
		first + "failSwapOn: true\n" + second + "failSwapOn: false\n": false,
		first + "kind: x\n" + second + "failSwapOn: false\n":          true,
		first + "failSwapOn: [\n" + second + "failSwapOn: false\n":    true,
		first + "failSwapOn: [1]\n" + second + "failSwapOn: false\n":  true,
		first + "failSwapOn: [1]\n" + second + "kind: x\n":            false,
	} {
		if got := kubeletSwap(layOut(t, archive)); got != want {
			t.Errorf("%q allows swap: %t", archive, got)
		}
	}
}

// TestFIFOIsNotRead: the doctor does not wait for a writer of a FIFO, and names the file.
func TestFIFOIsNotRead(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "x.conf"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(dir, "x.conf"); err == nil || err.Error() != "x.conf: no file" {
		t.Error(err)
	}
}

// TestProbePeer sends probes over the loopback interface of a network namespace. A probe is as
// large as host.yaml wants the interface to be, else as the interface, and at most as an IP packet.
func TestProbePeer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making a network namespace needs root")
	}
	path := filepath.Join(t.TempDir(), "net")
	if err := netns.New(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(path); err != nil {
			t.Error(err)
		}
	})
	runIP := func(args ...string) {
		t.Helper()
		if err := netns.Run(path, func() error { return exec.Command("ip", args...).Run() }); err != nil {
			t.Fatalf("ip %v: %v", args, err)
		}
	}
	probe := func(peer, hostFile string) (p doctor.Peer) {
		m := machine{pfs: []vf.PF{{Name: "lo"}, {Name: "eth0", PCI: vf.PCIAddr{Bus: 1}}}}
		o := testOptions(layOut(t, "-- etc/culvert/host.yaml --\n"+hostFile), m)
		o.Peer = netip.MustParseAddr(peer)
		if err := netns.Run(path, func() error { p = *Facts(t.Context(), o).Peer; return nil }); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := probe("192.0.2.1", ""); p.Fits != 0 || !strings.Contains(p.Err, "192.0.2.1") || p.Least != 68 {
		t.Errorf("without a route: %+v", p)
	}
	runIP("link", "set", "lo", "up")
	for name, c := range map[string]struct {
		peer, hostFile string
		want           doctor.Peer
	}{
		"IPv4":         {"127.0.0.1", "", doctor.Peer{Address: "127.0.0.1", Device: "lo", MTU: 65536, Want: 65535, Fits: 65535, Least: 68}},
		"IPv6":         {"::1", "", doctor.Peer{Address: "::1", Device: "lo", MTU: 65536, Want: 65535, Fits: 65535, Least: 1280}},
		"in host.yaml": {"127.0.0.1", "pfs: [{name: lo, vfs: 0, mtu: 9000}]\n", doctor.Peer{Address: "127.0.0.1", Device: "lo", MTU: 65536, Want: 9000, Fits: 9000, Least: 68}},
		"of another":   {"127.0.0.1", "pfs: [{name: eth0, vfs: 0, mtu: 9000}]\n", doctor.Peer{Address: "127.0.0.1", Device: "lo", MTU: 65536, Want: 65535, Fits: 65535, Least: 68}},
	} {
		if diff := cmp.Diff(c.want, probe(c.peer, c.hostFile)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	// The interface is smaller than host.yaml wants it.
	runIP("link", "set", "lo", "mtu", "1400")
	if p := probe("127.0.0.1", "pfs: [{name: lo, vfs: 0, mtu: 1500}]\n"); p.Want != 1500 || p.Fits != 1400 || p.MTU != 1400 || p.Err != "" {
		t.Errorf("host.yaml wants more: %+v", p)
	}
}
