package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/admin/doctor/gather"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/survey"
	"github.com/culvert-net/culvert/internal/vf"
)

var update = flag.Bool("update", false, "write the golden files")

// hardware is the hardware of the archive, as netlink would report it.
type hardware struct {
	pfs  []vf.PF
	nics []vf.NIC
}

func (h hardware) PFs(context.Context) ([]vf.PF, error)   { return h.pfs, nil }
func (h hardware) NICs(context.Context) ([]vf.NIC, error) { return h.nics, nil }

// scene is one archive: a host as files, its hardware, culvertd's answer, and the checks that the
// test compares with the part named want.
type scene struct {
	*txtar.Archive
	options gather.Options
	checks  []string
}

func (s scene) part(name string) *txtar.File {
	for i := range s.Files {
		if s.Files[i].Name == name {
			return &s.Files[i]
		}
	}
	return nil
}

func load(t *testing.T, file string) scene {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := scene{Archive: a}
	var hw hardware
	decode := func(name string, into any) bool {
		f := s.part(name)
		if f == nil {
			return false
		}
		if err := json.Unmarshal(f.Data, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return true
	}
	decode("pfs.json", &hw.pfs)
	decode("nics.json", &hw.nics)
	var st api.NodeStatus
	status := func(context.Context) (api.NodeStatus, error) {
		return st, errors.New("culvertd does not answer on /run/culvert/culvertd.sock: systemctl status culvertd")
	}
	if decode("status.json", &st) {
		status = func(context.Context) (api.NodeStatus, error) { return st, nil }
	}
	var cluster *doctor.Cluster
	decode("cluster.json", &cluster)
	s.checks = strings.Fields(string(s.part("checks").Data))
	s.options = gather.Options{
		Root: layOut(t, a), Kernel: hw, Status: status, HostFile: "/etc/culvert/host.yaml",
		Ledger: "/var/lib/culvert/ledger.db", Version: "v1", IsRoot: true,
	}
	if role := s.part("role"); role != nil {
		s.options.Role = strings.TrimSpace(string(role.Data))
	}
	if cluster != nil {
		s.options.Cluster = func(context.Context) (doctor.Cluster, error) { return *cluster, nil }
	}
	return s
}

// examine examines the host, or the guest on it that the archive has.
func (s scene) examine(t *testing.T) []doctor.Finding {
	t.Helper()
	facts := gather.Facts(t.Context(), s.options)
	definition := s.part("guest.xml")
	if definition == nil {
		return doctor.Examine(facts)
	}
	var in *doctor.Inside
	if said := s.part("inside"); said != nil {
		parsed := doctor.ParseInside(string(said.Data))
		in = &parsed
	}
	found, err := doctor.ExamineGuest(facts, definition.Data, in)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// layOut writes the archive's files below root/ to a folder. A text "-> x" is
// a link; plugins and hooks can be executed.
func layOut(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	root := t.TempDir()
	for _, f := range a.Files {
		name, ok := strings.CutPrefix(f.Name, "root/")
		if !ok {
			continue
		}
		path := filepath.Join(root, name)
		mode := fs.FileMode(0o644)
		if strings.Contains(name, "/cni/") || strings.Contains(name, "/hooks/") {
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

func show(found []doctor.Finding, checks []string) string {
	var b strings.Builder
	for _, f := range found {
		if !slices.Contains(checks, f.Check) {
			continue
		}
		fmt.Fprintf(&b, "%s %s: %s\n", f.Severity, f.Object, f.What)
		if f.Why != "" {
			fmt.Fprintf(&b, "    why: %s\n", f.Why)
		}
		for _, m := range f.Mend {
			fmt.Fprintf(&b, "    mend: %s\n", m)
		}
		if f.Change != nil {
			fmt.Fprintf(&b, "    fix: %s\n", f.Change)
		}
	}
	return b.String()
}

// TestScenes examines each host of testdata.
func TestScenes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			s := load(t, file)
			got := show(s.examine(t), s.checks)
			want := s.part("want")
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(s.Archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryFinding: each finding names its object and the fact. Findings about faults say why they
// matter or what mends them. Every check has a finding in one of the archives.
func TestEveryFinding(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	checks := []string{"root", "sriov", "ports", "link", "numa", "mtu", "path", "interrupts", "queues", "arguments", "iommu", "modules", "claims", "culvertd", "limits", "ledger", "cni", "libvirt", "kubernetes", "pools", "isolation",
		"guest", "virtio", "hugepages", "pinning", "placement", "memlock", "slots", "spread", "windows", "inside"}
	seen := map[string]map[api.Severity]bool{}
	for _, file := range files {
		for _, f := range load(t, file).examine(t) {
			if seen[f.Check] == nil {
				seen[f.Check] = map[api.Severity]bool{}
			}
			seen[f.Check][f.Severity] = true
			bad := f.Severity == api.SeverityWarning || f.Severity == api.SeverityError
			if f.Object == "" || f.What == "" || bad && f.Why == "" && len(f.Mend) == 0 {
				t.Errorf("%s: %+v", file, f.Finding)
			}
			if !slices.Contains(checks, f.Check) {
				t.Errorf("%s: api.Finding does not name the check %s", file, f.Check)
			}
		}
	}
	for _, c := range checks[1:] {
		if len(seen[c]) == 0 {
			t.Errorf("no archive has a finding of %s", c)
		}
	}
}

// TestWithoutRoot: facts that only root may read are no fault of the host.
func TestWithoutRoot(t *testing.T) {
	s := load(t, "testdata/culvertd-stopped.txtar")
	s.options.IsRoot = false
	f := gather.Facts(t.Context(), s.options)
	f.Ledger = survey.Disk{Path: "/var/lib/culvert", Type: "ext4", Free: 1 << 30, FreeFiles: 1 << 20, SyncErr: "open /var/lib/culvert: permission denied"}
	want := `note host: seen without root, who also sees limits of processes, profiles of NetworkManager, what culvertd knows and whether its disk keeps what is written
    mend: sudo culvert doctor
note culvertd: only root may ask it
note /var/lib/culvert: only root can try whether it keeps what is written: sudo culvert doctor
`
	if diff := cmp.Diff(want, show(doctor.Examine(f), []string{"root", "culvertd", "ledger"})); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestLedger(t *testing.T) {
	const room = 1 << 30
	good := survey.Disk{Path: "/var/lib/culvert", Type: "ext4", Free: room, FreeFiles: 1 << 20}
	with := func(f func(*survey.Disk)) survey.Disk { d := good; f(&d); return d }
	for _, tc := range []struct {
		disk survey.Disk
		root bool
		want string
	}{
		{good, true, "ok: ext4, 1024 MiB free, syncs"},
		{with(func(d *survey.Disk) { d.Unknown = true }), true, "ok: ext4, 1024 MiB free; whether it syncs could not be tried"},
		{with(func(d *survey.Disk) { d.Missing = true }), true, "note: it is not there yet: culvertd makes it at its first start"},
		{with(func(d *survey.Disk) { d.ReadOnly = true }), true, "error: its file system (ext4) is read-only"},
		{with(func(d *survey.Disk) { d.SyncErr = "sync /var/lib/culvert: input/output error" }), true, "error: nothing can be written durably there: sync /var/lib/culvert: input/output error"},
		{with(func(d *survey.Disk) { d.SyncErr = "permission denied" }), false, "note: only root can try whether it keeps what is written: sudo culvert doctor"},
		{with(func(d *survey.Disk) { d.Free = 1 << 20 }), true, "error: its file system is full: 1024 KiB are free"},
		{with(func(d *survey.Disk) { d.FreeFiles = 0 }), true, "error: its file system is full: 1048576 KiB are free"},
		{with(func(d *survey.Disk) { d.Free = 32 << 20 }), true, "warning: 32 MiB are free there"},
		{with(func(d *survey.Disk) { d.Type = "nfs" }), true, "warning: it is on nfs"},
	} {
		for _, f := range doctor.Examine(doctor.Facts{Ledger: tc.disk, Root: tc.root}) {
			if f.Check == "ledger" {
				if diff := cmp.Diff(tc.want, fmt.Sprintf("%s: %s", f.Severity, f.What)); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", tc.disk, diff)
				}
			}
		}
	}
}

func TestPeer(t *testing.T) {
	for _, tc := range []struct {
		peer doctor.Peer
		want string
	}{
		{doctor.Peer{Address: "a", Device: "e", MTU: 9000, Want: 9000, Fits: 9000}, "ok: packets of 9000 bytes get through e and back, unbroken"},
		{doctor.Peer{Address: "a", Device: "e", MTU: 9000, Want: 9000, Fits: 1518}, "error: packets of 1518 bytes get through e, not of 9000; or mtu: 1500 in host.yaml and in the networks"},
		{doctor.Peer{Address: "a", Device: "e", MTU: 1500, Want: 9000, Fits: 1500}, "error: packets of 1500 bytes get through e, not of 9000; mtu: 9000 for e in /etc/culvert/host.yaml, then: culvert host apply"},
		{doctor.Peer{Address: "a", Device: "e", MTU: 1500, Want: 1500, Least: 68}, "error: it does not answer ping through e, not even to 68 bytes; ping -I e a"},
		{doctor.Peer{Address: "a", Err: "find the way to a: network is unreachable"}, "error: find the way to a: network is unreachable"},
	} {
		for _, f := range doctor.Examine(doctor.Facts{Peer: &tc.peer}) {
			if f.Check != "path" {
				continue
			}
			got := fmt.Sprintf("%s: %s", f.Severity, f.What)
			if n := len(f.Mend); n > 0 {
				got += "; " + f.Mend[n-1]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
}

// TestHookOfAnotherBuild makes its facts in Go: text archives have no programs with a build in
// them.
func TestHookOfAnotherBuild(t *testing.T) {
	hook := func(event, build string) doctor.Hook {
		return doctor.Hook{Event: event, File: doctor.HooksDir + "/" + event + ".d/culvert", Build: build}
	}
	f := doctor.Facts{
		Libvirt: doctor.Libvirt{There: true, Hooks: []doctor.Hook{hook("qemu", "0123456789abcdef"), hook("network", "")}},
		CNI:     doctor.CNI{OwnBuild: "fedcba9876543210"},
	}
	want := `warning /etc/libvirt/hooks/qemu.d/culvert: libvirt's hook was built from 0123456789ab, culvert from fedcba987654
    why: what one knows the other may not
    mend: culvert host install --from FOLDER    # that has programs of one build
`
	if diff := cmp.Diff(want, show(doctor.Examine(f), []string{"libvirt"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// P11: the doctor reports culvertd's problems about libvirt's guests, with the next step.
func TestP11GuestsThatContradict(t *testing.T) {
	f := doctor.Facts{
		Libvirt: doctor.Libvirt{There: true, Hooks: []doctor.Hook{
			{Event: "qemu", File: doctor.HooksDir + "/qemu.d/culvert"}, {Event: "network", File: doctor.HooksDir + "/network.d/culvert"},
		}},
		Host:   survey.Host{Processes: []survey.Process{{Name: "libvirtd"}}},
		Status: &api.NodeStatus{},
	}
	for _, c := range []struct {
		problems []api.Problem
		want     string
	}{
		{[]api.Problem{{Object: "pool culvert.dev/a", Reason: "it is empty"}}, `ok /etc/libvirt/hooks: Culvert's hooks are there
ok culvertd: libvirt's guests and the ledger say the same of who has which VF
`},
		{[]api.Problem{
			{Object: "libvirt", Reason: "it does not run"},
			{Object: "guest web", Reason: "it runs with VF 0000:01:10.0, which pod default/a has", Next: "shut guest web down"},
		}, `ok /etc/libvirt/hooks: Culvert's hooks are there
warning libvirt: culvertd cannot ask it which guests there are: it does not run
    why: a guest whose start or end the hooks do not tell is noticed late, or not by its name
    mend: systemctl status libvirtd virtqemud
    mend: journalctl -u culvertd
warning guest web: it runs with VF 0000:01:10.0, which pod default/a has
    why: libvirt and the ledger do not say the same of who has the VF
    mend: shut guest web down
`},
	} {
		f.Status.Problems = c.problems
		if diff := cmp.Diff(c.want, show(doctor.Examine(f), []string{"libvirt"})); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// FuzzExamineGuest: for any definition and host, each finding about a fault has a reason and a way
// to mend it.
func FuzzExamineGuest(f *testing.F) {
	files, err := filepath.Glob("testdata/guest-*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range a.Files {
			if part.Name == "guest.xml" {
				f.Add(part.Data, uint8(2), int8(1), uint8(3))
			}
		}
	}
	f.Fuzz(func(t *testing.T, definition []byte, nodes uint8, numa int8, pages uint8) {
		host := survey.Host{NodeCPUs: map[int][]int{}, HugePages: map[uint64]int{2 << 20: int(pages)}}
		for n := range int(nodes % 8) {
			host.Nodes = append(host.Nodes, n)
			host.NodeCPUs[n] = []int{2 * n, 2*n + 1}
			host.CPUs = append(host.CPUs, host.NodeCPUs[n]...)
		}
		pf := vf.PF{PCI: vf.PCIAddr{Bus: 1}, NUMA: int(numa), VFs: []vf.State{{PCI: vf.PCIAddr{Bus: 1, Device: 0x10}, IOMMUGroup: int(numa)}}}
		found, err := doctor.ExamineGuest(doctor.Facts{Host: host, PFs: []vf.PF{pf}}, definition, nil)
		if err != nil && !errors.Is(err, vf.ErrInvalid) {
			t.Fatal(err)
		}
		for _, f := range found {
			if bad := f.Severity == api.SeverityWarning || f.Severity == api.SeverityError; f.What == "" || bad && (f.Why == "" || len(f.Mend) == 0) {
				t.Fatalf("%+v", f.Finding)
			}
		}
	})
}
