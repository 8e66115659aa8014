package layout

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// budget bounds the parts of one program.
type budget struct {
	packages  int     // besides those of the standard library
	megabytes float64 // of the program as `make build` links it
	// never lists packages that the program must not have, and functions (package.Name) that must
	// not be linked into it. A pattern that ends in /... means a folder and all below it.
	never []string
}

// Programs that run as root on nodes link neither labs nor measurements.
var (
	labs         = []string{module + "/lab/..."}
	measurements = []string{module + "/bench/...", "github.com/safchain/ethtool"}
	ebpf         = []string{"github.com/cilium/ebpf/...", "golang.org/x/net/bpf"}
	// go-libvirt's root package imports package ssh, of which the linker keeps tables.
	sshClient = []string{"golang.org/x/crypto/ssh.NewClientConn"}
	ssh       = []string{"golang.org/x/crypto/ssh/..."}
	// These packages give and take the VFs of a node, and keep its ledger.
	givesVFs = []string{
		module + "/internal/node/alloc", module + "/internal/node/attach", module + "/internal/node/journal/...", module + "/internal/node/reconcile", "go.etcd.io/bbolt/...",
	}
	nodeOnly = slices.Concat(labs, measurements, sshClient)
	shim     = slices.Concat(labs, measurements, ebpf, ssh, []string{"k8s.io/...", "github.com/spf13/...", "github.com/vishvananda/..."})
)

// budgets has the budgets of the programs in cmd/, with some room above their present size. A
// commit that raises a budget says why.
var budgets = map[string]budget{
	// Since its budget was 175, packages whose types it shows have begun to read an interface's
	// tuning and a network's annotation. AddressPools with subnets added 0.03 MB to it and to
	// culvertd, which had no room left. Longer import paths added 0.1 MB to both. Its budget was 192
	// packages before the parser of networks and the reader of NodeStates were packages of their own,
	// and 194 before attach was several packages. The scanner of what people write by hand, which
	// culvert doctor has, added 0.2 MB to it and to culvertd. culvert net check judges AddressPools,
	// the ranges of whereabouts and the pods in objects of any kind: one package and 0.3 MB. The
	// conversions of operator files name what they lose: 0.2 MB. guest/shell, by which culvert doctor
	// looks into guests, and strictyaml, the reader of host.yaml, are one package each. What scripts do
	// and what Windows guests need are 0.1 MB. The answers of culvert why, the archive of culvert support
	// and the history of VFs are 3 packages and 0.3 MB. culvert ui, the page, is 2 packages and 1.1 MB, most
	// of it the server of net/http, whose client it had. It judges pods by intake/pod, which reads the
	// configurations of claims: one package.
	"culvert": {209, 19.8, slices.Concat(nodeOnly, ebpf)}, // with the parsers of networks, for culvert migrate
	// 18 of culvertd's packages are the Prometheus client, which serves its metrics.
	// For Services it loads eBPF programs, 13 packages and 0.9 MB, and writes nftables, 16
	// packages and 0.6 MB. Bonds of VFs and duplicate address detection added 0.3 MB. The fail-over of
	// bonds, guards, and the errors that NICs count are 3 packages and 0.3 MB. The leases of PFs, and the
	// slots and the Windows of a guest's definition, are 0.1 MB. The scanner of other programs' scripts
	// follows functions and arrays: 0.1 MB. The metrics of steps, events, the ledger, addresses and
	// requests are 0.07 MB. Claims are 8 packages, of which gogo's protobuf, in
	// which the kubelet's API of claims is written, has 4.
	// ResourceSlices and the names in claims are 3 packages and 0.1 MB; k8s.io/api, which has their types,
	// would be more. The networks of claims, the claims' status and their metadata files are one package
	// and 0.1 MB.
	"culvertd":    {377, 27.1, nodeOnly}, // its budget was 353 packages before attach was several
	"culvert-cni": {7, 3.5, shim},
	// Besides the packages of culvert-cni it has guest/moving, the mark of a guest that migrates.
	"culvert-hook": {8, 3.5, shim},
	// 20 of its packages are k8s.io/endpointslice, which makes EndpointSlices, and its metrics.
	// It judges the configurations of claims by the nodes' parser, one package.
	"culvert-controller": {625, 37, slices.Concat(labs, measurements, ebpf, ssh, givesVFs)},
	// It is copied to the other end of a measurement. Its budget was 47 packages before it used
	// kernel/tuning, which reads the fields by which a NIC chooses the receive queue. The comparison of
	// two sides, questions beside a load and the page by question are 0.3 MB.
	"culvert-bench": {54, 11.4, slices.Concat(labs, ssh, []string{"k8s.io/...", "go.etcd.io/..."})},
	// govmomi is 12 of its packages. It has the types of the whole vSphere API, 6 MB.
	"culvert-esxi": {30, 16, slices.Concat(labs, measurements, ebpf, ssh, givesVFs, []string{"k8s.io/...", "github.com/vmware/govmomi/simulator/..."})},
	// The Open Container Initiative's types of an image are 3 packages; Culvert has no own ones.
	// Demos and tests share lab/demo/requests with the small program that they put into pods. The
	// questions of the demo's page, and its compressed measurements, brought it above 13 MB.
	"culvert-lab": {40, 13.5, []string{"github.com/cilium/ebpf/...", "k8s.io/...", "go.etcd.io/..."}},
}

// made has the packages and the binary of a program.
type made struct {
	packages []string
	binary   []byte
}

func (m made) megabytes() float64 { return float64(len(m.binary)) / 1e6 }

// checkBudget returns where a program exceeds its budget.
func checkBudget(name string, b budget, m made) (complaints []string) {
	if n := len(m.packages); n > b.packages {
		complaints = append(complaints, fmt.Sprintf("cmd/%s has %d packages, and may have %d: go list -deps ./cmd/%[1]s", name, n, b.packages))
	}
	if mb := m.megabytes(); mb > b.megabytes {
		complaints = append(complaints, fmt.Sprintf("cmd/%s has %.1f MB, and may have %.1f", name, mb, b.megabytes))
	}
	for _, never := range b.never {
		for _, p := range m.packages {
			if within(never, p) {
				complaints = append(complaints, fmt.Sprintf("cmd/%s links %s: another program has that (docs/design/0012-programs.md)", name, p))
			}
		}
		// The names of linked functions are in the program for its stack traces.
		if bytes.Contains(m.binary, []byte(never+"\x00")) {
			complaints = append(complaints, fmt.Sprintf("cmd/%s links the function %s: another program has that (docs/design/0012-programs.md)", name, never))
		}
	}
	return complaints
}

// goes runs the go command in a folder of the tree.
func goes(t *testing.T, dir string, args ...string) string {
	t.Helper()
	build, err := filepath.Abs("../../tools/go") // which has the flags that all programs are built with
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), build, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, said.String())
	}
	return string(out)
}

// TestBudgets: every program has a budget and keeps it. With -v it prints the table.
func TestBudgets(t *testing.T) {
	tree := repository(t)
	if _, err := sources(tree); err != nil { // so that go test caches the result only while these files are the same
		t.Fatal(err)
	}
	programs, err := fs.ReadDir(tree, "cmd")
	if err != nil {
		t.Fatal(err)
	}
	top, bin := root(t), t.TempDir()
	goes(t, top, "build", "-trimpath", "-ldflags", "-s -w", "-o", bin+"/", "./cmd/...")
	deps := dependencies(t, top)
	table := "program             packages      MB\n"
	for _, p := range programs {
		name := p.Name()
		b, found := budgets[name]
		if !found {
			t.Errorf("cmd/%s has no budget: add one to budgets in test/layout/programs_test.go", name)
		}
		binary, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		m := made{deps[name], binary}
		table += fmt.Sprintf("%-18s %5d/%-4d %4.1f/%.1f\n", name, len(m.packages), b.packages, m.megabytes(), b.megabytes)
		report(t, checkBudget(name, b, m), nil)
	}
	t.Logf("%s", table)
	for name := range budgets {
		if _, err := fs.Stat(tree, "cmd/"+name); err != nil {
			t.Errorf("there is a budget for cmd/%s, which is not there", name)
		}
	}
}

// dependencies returns the packages outside the standard library that each program
// consists of, from one run of go list, which reads all of them each time.
func dependencies(t *testing.T, top string) map[string][]string {
	t.Helper()
	outside, deps := map[string]bool{}, map[string][]string{}
	lines := strings.Split(goes(t, top, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{join .Deps \" \"}}{{end}}", "./cmd/..."), "\n")
	for _, line := range lines {
		if words := strings.Fields(line); len(words) > 0 {
			outside[words[0]] = true
		}
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if name, isProgram := strings.CutPrefix(words[0], module+"/cmd/"); isProgram {
			deps[name] = slices.DeleteFunc(words, func(p string) bool { return !outside[p] })
		}
	}
	return deps
}

// withoutKubernetes lists packages that link no package of Kubernetes, which would take most of the
// time that it takes to compile them and their tests.
var withoutKubernetes = []string{"internal/node/alloc", "internal/node/desired"}

func TestWithoutKubernetes(t *testing.T) {
	if _, err := sources(repository(t)); err != nil { // for the cache of go test, as in TestBudgets
		t.Fatal(err)
	}
	for _, pkg := range withoutKubernetes {
		for _, dep := range strings.Fields(goes(t, root(t), "list", "-deps", "./"+pkg)) {
			if within("k8s.io/...", dep) || within("sigs.k8s.io/...", dep) {
				t.Errorf("%s links %s: let its callers hand in the value, or its JSON", pkg, dep)
			}
		}
	}
}

func TestCheckBudget(t *testing.T) {
	b := budget{2, 0.00001, []string{"a/...", "ssh.Dial"}}
	good := made{[]string{"b", "ssh"}, []byte("ssh.Dial2\x00")}
	bad := made{[]string{"a/c", "b", "ssh"}, []byte("ssh.Dialer\x00ssh.Dial\x00")}
	got := append(checkBudget("x", b, good), checkBudget("x", b, bad)...)
	want := []string{
		"cmd/x has 3 packages, and may have 2: go list -deps ./cmd/x",
		"cmd/x has 0.0 MB, and may have 0.0",
		"cmd/x links a/c: another program has that (docs/design/0012-programs.md)",
		"cmd/x links the function ssh.Dial: another program has that (docs/design/0012-programs.md)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
