package layout

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// floors lists all packages of this module from the top floor down. A package imports packages of
// lower floors only. A name that ends in /... means a folder and all below it, whose packages may
// import each other. Other packages of one floor do not. Tests may import any package: they combine
// parts that do not import each other.
//
// A new package below a name with /... needs no entry. For another one, take the highest floor
// below all packages that will import it; it must stay above all that it imports. If no floor does,
// add one. CONTRIBUTING.md, "The map of rooms", says what each
// package holds.
var floors = [][]string{
	{"cmd/...", "tools/..."},
	{"test/..."},

	// a person beside culvertd
	{"internal/admin/page/source", "internal/admin/verdict"},
	{"internal/admin/migrate"},
	{"internal/admin/cli", "internal/admin/clusterview", "internal/admin/doctor/...", "internal/admin/guests", "internal/admin/install", "internal/admin/page", "internal/admin/support"},
	{"internal/admin/why"},

	// a person with an ESXi host
	{"internal/esxi/apply", "internal/esxi/credentials"},
	{"internal/esxi/vsphere"},
	{"internal/esxi/plan", "internal/esxi/status"},
	{"internal/esxi/made"},
	{"internal/esxi/file", "internal/esxi/state"},

	// the controller
	{"internal/cluster/controller"},
	{"internal/cluster/endpoints"},

	// culvertd: its composition, the ways in, the flows, what they rest on
	{"internal/node/daemon"},
	{"internal/node/intake/claim", "internal/node/intake/pod", "internal/node/membership", "internal/node/metrics", "internal/node/status/gather", "internal/node/trial"},
	{"internal/node", "internal/node/intake/cni", "internal/node/intake/deviceplugin", "internal/node/intake/guest", "internal/node/kube", "internal/node/offer/publish", "internal/node/service/agent", "internal/node/status"},
	{"internal/node/attach/upkeep", "internal/node/service/table"},
	{"internal/node/attach", "internal/node/attach/loan"},
	{"internal/node/attach/reset"},
	{"internal/node/attach/hold"},
	{"internal/node/alloc", "internal/node/attach/lease", "internal/node/bond", "internal/node/intake/claim/metadata", "internal/node/reconcile", "internal/node/status/text"},
	{"internal/node/trouble"},
	{"internal/node/intake/cni/place", "internal/node/journal/...", "internal/node/offer", "internal/node/segment", "internal/node/sources", "internal/node/status/flow", "internal/node/status/pick"},
	{"internal/node/claims", "internal/node/desired", "internal/node/inventory", "internal/node/kubelet/..."},

	// measurements and demos, which see Culvert from outside
	{"lab/demo/..."},
	{"bench/..."},

	// subjects that node, cluster and admin share
	{"internal/guest/...", "internal/kernel/...", "internal/network/...", "internal/rpc"},
	{"internal/api/..."},
	{"internal/vf"},
	{"lab/..."},

	// mechanisms, each written once
	{"internal/screen", "internal/strictyaml"},
	{"internal/change", "internal/durable", "internal/exactjson", "internal/excerpt", "internal/keylock", "internal/program", "internal/reasons", "internal/share", "internal/suggest"},
	{"api/v1alpha1"},
}

// A ban is an import that the floors allow and the design does not. The lists have names of
// packages, with /... as in floors; names that are not of this module are whole import paths.
type ban struct {
	importers, exempt []string
	never, but        []string
	reason            string
}

var bans = []ban{
	{
		importers: []string{"internal/...", "bench/..."}, never: []string{"lab/..."},
		reason: "labs see Culvert from outside",
	},
	{
		importers: []string{"internal/..."}, never: []string{"bench/..."},
		reason: "measurements see Culvert from outside",
	},
	{
		importers: []string{"cmd/..."}, never: []string{"test/..."},
		reason: "programs link no test code: move what both need out of test",
	},
	{
		importers: []string{"..."}, exempt: []string{"test/...", "internal/kernel/fake", "internal/kernel/faulty"},
		never:  []string{"internal/kernel/fake", "internal/kernel/faulty"},
		reason: "these kernels are for tests",
	},
	{
		importers: []string{"internal/admin/...", "cmd/culvert"},
		never:     []string{"internal/node/..."},
		but: []string{
			"internal/node/claims", "internal/node/desired", "internal/node/intake/cni/place", "internal/node/intake/pod",
			"internal/node/journal", "internal/node/status", "internal/node/status/flow", "internal/node/status/pick", "internal/node/status/text",
		},
		reason: "only culvertd gives and takes VFs: ask it through internal/rpc, or read NodeStates",
	},
	{
		importers: []string{"internal/node/..."}, exempt: []string{"internal/node/daemon"},
		never: []string{"internal/kernel/..."}, but: []string{"internal/kernel/step", "internal/kernel/balance"},
		reason: "name a step.Step or read state through an interface, and let internal/node/daemon hand in the kernel that does it",
	},
	{
		importers: []string{"internal/admin/..."},
		never:     []string{"internal/kernel/..."}, but: []string{"internal/kernel/balance", "internal/kernel/pathmtu", "internal/kernel/survey"},
		reason: "a person's commands change no NIC: culvertd does. doctor mends the host by internal/kernel/survey",
	},
	{
		importers: []string{"internal/cluster/...", "cmd/culvert-controller"},
		never:     []string{"internal/kernel/...", "internal/node/..."}, but: []string{"internal/node/desired"},
		reason: "the controller has no node: culvertd does the work there, and the NodeStates have the results",
	},
	{
		importers: []string{"cmd/culvert-cni", "cmd/culvert-hook"},
		never:     []string{"internal/..."}, but: []string{"internal/api", "internal/guest/moving", "internal/rpc", "internal/vf"},
		reason: "the runtime and libvirt execute it for each pod and guest, so it stays small: culvertd does the work",
	},
	{
		importers: []string{"..."}, exempt: []string{"cmd/culvert-controller", "internal/admin/clusterview", "internal/cluster/controller", "internal/node/kube", "test/..."},
		never:  []string{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/...", "k8s.io/dynamic-resource-allocation/..."},
		reason: "only internal/node/kube (culvertd), internal/cluster/controller and internal/admin/clusterview (a person) talk to an API server: take a small interface, and let one of them serve it",
	},
}

// pure lists packages that neither open files nor make system calls.
var pure = []string{
	"api/v1alpha1", "internal/admin/doctor", "internal/api", "internal/api/nodestate", "internal/change", "internal/excerpt", "internal/guest", "internal/guest/moving",
	"internal/kernel/balance", "internal/kernel/step", "internal/keylock", "internal/network/claim", "internal/network/ipam", "internal/network/ipam/blocks", "internal/network/netannotation",
	"internal/network/netconf", "internal/network/service", "internal/network/strictjson", "internal/node/alloc", "internal/node/desired", "internal/node/journal/pages", "internal/node/offer",
	"internal/node/service/table", "internal/node/status", "internal/node/status/pick", "internal/node/status/text", "internal/node/trouble", "internal/screen",
	"internal/share", "internal/strictyaml", "internal/suggest", "internal/vf",
}

// impure lists the packages that pure packages must not import.
var impure = []string{"os", "os/exec", "os/signal", "syscall", "net/http", "io/ioutil", "golang.org/x/sys/..."}

// within reports whether pkg is pattern, or below it when it ends in "...".
func within(pattern, pkg string) bool {
	dir, all := strings.CutSuffix(pattern, "...")
	if !all {
		return pattern == pkg
	}
	return dir == "" || pkg+"/" == dir || strings.HasPrefix(pkg, dir)
}

// isAny reports whether one of the patterns has pkg.
func isAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return within(p, pkg) })
}

// findFloor returns the number of a package's floor, 0 for the top one, and the pattern there that
// has the package. The longest pattern decides, so that lab/demo/... comes before lab/... .
func findFloor(pkg string) (number int, pattern string) {
	number = -1
	for i, floor := range floors {
		for _, p := range floor {
			if within(p, pkg) && len(p) > len(pattern) {
				number, pattern = i, p
			}
		}
	}
	return number, pattern
}

func checkImports(tree fs.FS) ([]string, error) {
	all, err := sources(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, s := range all {
		if s.isTest() {
			continue
		}
		if number, _ := findFloor(s.pkg); number < 0 {
			complaints = append(complaints, fmt.Sprintf("%s: package %s has no floor: add it to floors (test/layout/imports_test.go) and to the map in CONTRIBUTING.md", s.name, s.pkg))
			continue
		}
		for _, i := range s.imports {
			if c := complain(s.pkg, i.path); c != "" {
				complaints = append(complaints, fmt.Sprintf("%s:%d: %s", s.name, i.line, c))
			}
		}
	}
	return complaints, nil
}

// complain returns the complaint about one import of a package, or "" if the import is allowed.
func complain(pkg, imported string) string {
	if slices.Contains(pure, pkg) && isAny(impure, imported) {
		return fmt.Sprintf("%s is pure and imports %s: read outside, and hand the value in", pkg, imported)
	}
	own, isOwn := strings.CutPrefix(imported, module+"/")
	for _, b := range bans {
		if isAny(b.importers, pkg) && !isAny(b.exempt, pkg) && isAny(b.never, own) && !isAny(b.but, own) {
			return fmt.Sprintf("%s imports %s: %s", pkg, own, b.reason)
		}
	}
	if !isOwn {
		return ""
	}
	from, pattern := findFloor(pkg)
	to, other := findFloor(own)
	switch {
	case to > from || pattern == other:
		return ""
	case to == from:
		return fmt.Sprintf("%s imports %s of the same floor: move the value that both need to a lower floor, or declare what %[1]s needs as a small interface there, and let a package above both hand it in (in the node internal/node/daemon)", pkg, own)
	}
	return fmt.Sprintf("%s imports %s of a higher floor: declare what it needs as a small interface in %[1]s and let a package above both hand it in (in the node internal/node/daemon), or move the value that both need to a lower floor", pkg, own)
}

func TestImportsGoDown(t *testing.T) {
	complaints, err := checkImports(repository(t))
	report(t, complaints, err)
}

func TestCheckImports(t *testing.T) {
	file := func(pkg string, imports ...string) *fstest.MapFile {
		text := "package " + pkg + "\n"
		for _, i := range imports {
			text += "import _ \"" + i + "\"\n"
		}
		return &fstest.MapFile{Data: []byte(text)}
	}
	own := module + "/"
	tree := fstest.MapFS{
		"api/v1alpha1/spec.go":                   file("v1alpha1", own+"internal/vf"),
		"cmd/culvert-cni/main.go":                file("main", own+"internal/rpc", own+"internal/screen"),
		"internal/kernel/any/a.go":               file("any", own+"internal/kernel/step"),
		"internal/kernel/rtnl/conn.go":           file("rtnl", own+"internal/vf", own+"internal/node/journal"),
		"internal/node/alloc/alloc.go":           file("alloc", "k8s.io/client-go/rest", own+"internal/node/bond"),
		"internal/node/attach/any_test.go":       file("attach", own+"internal/kernel/fake", own+"internal/node/daemon"),
		"internal/node/attach/bad.go":            file("attach", own+"internal/vf", own+"internal/kernel"),
		"internal/node/attach/ok.go":             file("attach", "os", own+"internal/node/alloc", own+"internal/kernel/step"),
		"internal/node/attach/testdata/input.go": file("input", own+"cmd/culvertd"),
		"internal/node/daemon/daemon.go":         file("daemon", own+"internal/kernel", own+"internal/node/attach"),
		"internal/node/status/text/table.go":     file("text", own+"internal/node/attach"),
		"internal/novel/novel.go":                file("novel"),
		"internal/vf/mac.go":                     file("vf", "net", "os"),
		"internal/vf/lab.go":                     file("vf", own+"lab"),
		"lab/demo/demo.go":                       file("demo", own+"lab", own+"bench", own+"internal/vf"),
		"lab/up.go":                              file("lab", own+"lab/boot", own+"internal/vf"),
		"test/e2e/e2e.go":                        file("e2e", own+"lab", own+"internal/node/attach"),
	}
	got, err := checkImports(tree)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		place, text, _ := strings.Cut(got[i], ": ")
		text, _, _ = strings.Cut(text, ": ")
		got[i] = place + ": " + text
	}
	want := []string{
		"api/v1alpha1/spec.go:2: api/v1alpha1 imports internal/vf of a higher floor",
		"cmd/culvert-cni/main.go:3: cmd/culvert-cni imports internal/screen",
		"internal/kernel/rtnl/conn.go:3: internal/kernel/rtnl imports internal/node/journal of a higher floor",
		"internal/node/alloc/alloc.go:2: internal/node/alloc imports k8s.io/client-go/rest",
		"internal/node/alloc/alloc.go:3: internal/node/alloc imports internal/node/bond of the same floor",
		"internal/node/attach/bad.go:3: internal/node/attach imports internal/kernel",
		"internal/node/status/text/table.go:2: internal/node/status/text imports internal/node/attach of a higher floor",
		"internal/novel/novel.go: package internal/novel has no floor",
		"internal/vf/lab.go:2: internal/vf imports lab",
		"internal/vf/mac.go:3: internal/vf is pure and imports os",
		"lab/up.go:3: lab imports internal/vf of a higher floor",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
