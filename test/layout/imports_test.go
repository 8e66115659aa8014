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

// mayImport lists, for every package, the other packages of this module that it may
// import. A name that ends in /... means a folder and all below it. Tests may import any
// package: they combine parts that do not import each other.
//
//	host:    desired -> reconcile -> kernel -> inventory -> status
//	pod/VM:  intake -> alloc -> attach -> kernel -> status
//
// Only daemon and the program culvert import package kernel itself and make a
// kernel.Kernel. Packages reconcile, attach, inventory and doctor/gather name steps or
// read state, and their callers hand in the kernel that does it.
var mayImport = map[string][]string{
	// values and words
	"internal/vf":                 {"internal/excerpt"},
	"internal/suggest":            {},
	"internal/keylock":            {},
	"internal/change":             {},
	"internal/durable":            {},
	"internal/excerpt":            {},
	"internal/screen":             {"internal/excerpt"},
	"internal/network/strictjson": {"internal/excerpt", "internal/suggest", "internal/vf"},
	"internal/api":                {"internal/vf"},
	"internal/kernel/step":        {"internal/vf"},

	"api/v1alpha1":                   {"internal/vf"},
	"internal/network/netconf":       {"internal/api", "internal/vf"},
	"internal/network/netannotation": {"internal/excerpt", "internal/network/netconf", "internal/network/strictjson", "internal/suggest", "internal/vf"},
	"internal/guest":                 {"internal/guest/moving", "internal/suggest", "internal/vf"},
	"internal/guest/moving":          {},

	// pure parts: in go values, out come values
	"internal/node/desired":        {"api/v1alpha1", "internal/excerpt", "internal/suggest", "internal/vf"},
	"internal/network/ipam":        {"internal/api", "internal/network/strictjson", "internal/suggest", "internal/vf"},
	"internal/network/ipam/blocks": {"api/v1alpha1", "internal/change", "internal/network/ipam", "internal/vf"},
	"internal/node/alloc":          {"internal/node/desired", "internal/node/journal", "internal/network/netannotation", "internal/vf"},
	"internal/node/status":         {"internal/api", "api/v1alpha1", "internal/node/attach", "internal/node/desired", "internal/excerpt", "internal/node/journal", "internal/node/reconcile", "internal/vf"},
	"internal/node/status/...":     {"internal/api", "internal/excerpt", "internal/node/journal", "internal/screen", "internal/suggest", "internal/vf"},
	"internal/node/trouble":        {"internal/node/journal"},

	// the kernel, on Linux and in memory
	"internal/kernel":     {"internal/change", "internal/excerpt", "internal/kernel/...", "internal/vf"},
	"internal/kernel/...": {"internal/change", "internal/kernel/...", "internal/vf"},

	// parts that keep or change state
	"internal/node/journal":       {"internal/change", "internal/durable", "internal/node/journal/pages", "internal/network/netconf", "internal/vf"}, // netconf: the plugins of a sandbox
	"internal/node/journal/pages": {},
	"internal/node/inventory":     {"internal/change", "internal/vf"},
	"internal/node/reconcile":     {"internal/change", "internal/node/desired", "internal/excerpt", "internal/node/journal", "internal/kernel/step", "internal/keylock", "internal/vf"},
	"internal/node/claims":        {"internal/excerpt", "internal/vf"},
	"internal/node/attach":        {"internal/node/alloc", "internal/node/desired", "internal/network/ipam", "internal/node/journal", "internal/kernel/step", "internal/keylock", "internal/vf"},
	"internal/node/bond":          {"internal/node/journal", "internal/kernel/step", "internal/vf"},
	"internal/node/segment":       {"internal/api", "internal/node/desired", "internal/vf"},
	"internal/rpc":                {"internal/api", "internal/vf"},
	"internal/admin/install":      {"internal/durable", "internal/node/intake/cni/place", "internal/kernel/balance", "internal/network/netconf", "internal/program"},

	// diagnosis of a host
	"internal/admin/doctor":        {"internal/api", "internal/node/claims", "internal/node/desired", "internal/guest", "internal/kernel/survey", "internal/network/netannotation", "internal/network/netconf", "internal/screen", "internal/vf"},
	"internal/admin/doctor/gather": {"internal/api", "internal/node/claims", "internal/node/desired", "internal/admin/doctor", "internal/excerpt", "internal/kernel/pathmtu", "internal/kernel/survey", "internal/network/netconf", "internal/vf"},
	"internal/admin/doctor/mend":   {"internal/api", "internal/admin/doctor", "internal/durable", "internal/kernel/survey"},

	// the node's kubelet, as a source of the owners of VFs
	"internal/node/kubelet": {"internal/vf"},
	// the sockets on which Culvert serves the kubelet
	"internal/node/kubelet/socket": {"internal/change"},

	// the host's libvirt, as a source of guests
	"internal/guest/libvirt": {"internal/vf"},

	// changes to guests by a person, through libvirt and culvertd
	"internal/admin/guests": {"internal/api", "internal/guest", "internal/node/journal", "internal/guest/libvirt", "internal/rpc", "internal/vf"},

	// objects of other projects -> Culvert's
	"internal/admin/verdict": {"internal/api", "api/v1alpha1", "internal/node/desired", "internal/excerpt", "internal/node/intake/cni", "internal/node/intake/pod", "internal/admin/migrate", "internal/network/netannotation", "internal/suggest", "internal/vf"},
	"internal/admin/migrate": {"internal/api", "api/v1alpha1", "internal/node/desired", "internal/excerpt", "internal/node/intake/cni", "internal/node/journal", "internal/network/netannotation", "internal/network/netconf", "internal/vf"},

	// the cluster: only these packages and controller import client-go
	"internal/node/kube":         {"internal/api", "api/v1alpha1", "internal/change", "internal/excerpt", "internal/kernel/balance", "internal/network/netannotation", "internal/network/netconf", "internal/network/service", "internal/node/service/table", "internal/vf"},
	"internal/admin/clusterview": {"internal/api", "api/v1alpha1", "internal/network/netannotation", "internal/vf"},

	// requests from outside
	"internal/node/intake/deviceplugin": {"internal/api", "internal/change", "internal/node/desired", "internal/durable", "internal/node/journal", "internal/node/kubelet/socket", "internal/vf"},
	"internal/node/intake/pod":          {"internal/api", "internal/durable", "internal/excerpt", "internal/node/intake/cni", "internal/node/journal", "internal/kernel/step", "internal/keylock", "internal/network/netannotation", "internal/network/netconf", "internal/vf"},
	"internal/node/intake/guest":        {"internal/api", "internal/node/attach", "internal/guest", "internal/node/journal", "internal/guest/libvirt", "internal/node/trouble", "internal/vf"},
	"internal/node/intake/...":          {"internal/api", "internal/node/attach", "internal/node/desired", "internal/durable", "internal/excerpt", "internal/network/ipam", "internal/node/journal", "internal/network/netannotation", "internal/network/netconf", "internal/network/strictjson", "internal/suggest", "internal/vf"},

	// a whole node: its wanted Spec, its parts, its status, its membership in the cluster
	"internal/node/sources":       {"internal/api", "api/v1alpha1", "internal/change", "internal/node/desired", "internal/durable", "internal/excerpt", "internal/vf"},
	"internal/node":               {"internal/api", "internal/node/attach", "internal/excerpt", "internal/node/inventory", "internal/network/ipam/blocks", "internal/node/journal", "internal/kernel/step", "internal/node/reconcile", "internal/vf", "internal/node/sources"},
	"internal/node/status/gather": {"internal/excerpt", "internal/api", "internal/node/claims", "internal/node/desired", "internal/node/intake/cni", "internal/node/journal", "internal/node", "internal/node/status", "internal/vf"},
	"internal/node/metrics":       {"internal/api", "internal/node/attach", "internal/vf"},
	"internal/node/membership":    {"internal/change", "internal/excerpt", "internal/api", "api/v1alpha1", "internal/node/intake/cni", "internal/network/ipam", "internal/network/ipam/blocks", "internal/node/journal", "internal/network/netannotation", "internal/node", "internal/node/status", "internal/node/trouble", "internal/vf", "internal/node/sources"},
	"internal/node/daemon":        {"internal/api", "internal/node/bond", "internal/change", "internal/node/claims", "internal/node/desired", "internal/node/intake/...", "internal/node/journal", "internal/kernel", "internal/kernel/balance", "internal/kernel/balance/...", "internal/kernel/beacon", "internal/kernel/dirwatch", "internal/kernel/guard", "internal/node/kube", "internal/node/kubelet", "internal/node/membership", "internal/node/metrics", "internal/node", "internal/rpc", "internal/node/segment", "internal/node/service/agent", "internal/node/status", "internal/node/status/gather", "internal/vf", "internal/node/sources"},

	// Services over VF networks
	"internal/network/service":    {"internal/excerpt", "internal/network/netannotation", "internal/vf"},
	"internal/node/service/agent": {"internal/api", "internal/excerpt", "internal/node/journal", "internal/kernel/balance", "internal/network/netannotation", "internal/network/service", "internal/node/service/table", "internal/vf"},
	"internal/cluster/endpoints":  {"api/v1alpha1", "internal/node/desired", "internal/excerpt", "internal/node/journal", "internal/network/netannotation", "internal/network/service", "internal/vf"},
	"internal/node/service/table": {"internal/kernel/balance", "internal/network/service"},

	// the cluster's own program
	"internal/cluster/controller": {"internal/api", "api/v1alpha1", "internal/node/desired", "internal/excerpt", "internal/node/intake/cni", "internal/network/ipam", "internal/network/ipam/blocks", "internal/network/netannotation", "internal/network/netconf", "internal/network/service", "internal/cluster/endpoints", "internal/node/status", "internal/vf"},

	// machines and measurements: they see Culvert from outside
	"lab/...":      {"internal/durable", "lab/...", "internal/screen"},
	"bench/...":    {"internal/api", "bench/...", "internal/excerpt", "internal/kernel/bpf", "internal/kernel/netns", "internal/kernel/rtnl", "internal/kernel/tuning", "internal/program", "internal/rpc", "internal/screen", "internal/suggest", "internal/vf"},
	"lab/demo/...": {"internal/api", "bench/...", "lab/demo/...", "lab", "lab/cluster", "lab/parts", "internal/program", "internal/rpc", "internal/screen", "internal/vf"},

	// programs
	"internal/program":       {},
	"internal/admin/cli":     {"internal/screen", "internal/suggest"},
	"cmd/culvert":            {"internal/api", "internal/admin/cli", "internal/node/desired", "internal/admin/doctor/...", "internal/admin/guests", "internal/admin/install", "internal/node/journal", "internal/kernel/...", "internal/admin/clusterview", "internal/guest/libvirt", "internal/admin/migrate", "internal/program", "internal/rpc", "internal/screen", "internal/node/status/...", "internal/suggest", "internal/admin/verdict", "internal/vf"},
	"cmd/culvert-bench":      {"bench/...", "internal/admin/cli", "internal/durable", "internal/rpc", "internal/screen"},
	"cmd/culvert-lab":        {"bench", "internal/admin/cli", "lab/demo", "lab", "lab/cluster"},
	"cmd/culvert-cni":        {"internal/api", "internal/rpc"},
	"cmd/culvert-hook":       {"internal/api", "internal/guest/moving", "internal/rpc"},
	"cmd/culvertd":           {"internal/api", "internal/node/daemon", "internal/node/desired", "internal/node/intake/...", "internal/node/journal", "internal/kernel/...", "internal/network/netannotation", "internal/rpc", "internal/vf", "internal/node/sources"},
	"cmd/culvert-controller": {"internal/cluster/controller"},

	"tools/...": {"..."},
	"test/...":  {"..."},
}

// pure lists packages that neither open files nor make system calls.
var pure = []string{"internal/vf", "internal/suggest", "internal/network/strictjson", "internal/api", "api/v1alpha1", "internal/network/netconf", "internal/network/netannotation", "internal/guest", "internal/guest/moving", "internal/kernel/step", "internal/node/desired", "internal/network/ipam", "internal/network/ipam/blocks", "internal/node/alloc", "internal/admin/doctor", "internal/node/journal/pages", "internal/node/status", "internal/node/status/text", "internal/node/status/pick", "internal/screen", "internal/node/trouble", "internal/keylock", "internal/change", "internal/excerpt", "internal/network/service", "internal/kernel/balance", "internal/node/service/table"}

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

// rule finds the entry of mayImport for pkg: its own, else the longest pattern that
// matches it.
func rule(pkg string) (pattern string, found bool) {
	if _, own := mayImport[pkg]; own {
		return pkg, true
	}
	for p := range mayImport {
		if within(p, pkg) && (!found || len(p) > len(pattern)) {
			pattern, found = p, true
		}
	}
	return pattern, found
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
		pattern, found := rule(s.pkg)
		if !found {
			complaints = append(complaints, fmt.Sprintf("%s: package %s has no entry in mayImport (test/layout/imports_test.go): say which packages it may import, and put it into the README's layout", s.name, s.pkg))
			continue
		}
		for _, i := range s.imports {
			if c := complain(s, pattern, i); c != "" {
				complaints = append(complaints, c)
			}
		}
	}
	return complaints, nil
}

// complain returns the complaint about one import, or "" if the import is allowed.
func complain(s source, pattern string, i imported) string {
	if slices.Contains(pure, s.pkg) && slices.ContainsFunc(impure, func(p string) bool { return within(p, i.path) }) {
		return fmt.Sprintf("%s:%d: %s is pure and imports %s: read outside, and hand the value in", s.name, i.line, s.pkg, i.path)
	}
	own, ok := strings.CutPrefix(i.path, module+"/")
	if !ok || slices.ContainsFunc(mayImport[pattern], func(p string) bool { return within(p, own) }) {
		return ""
	}
	return fmt.Sprintf("%s:%d: %s imports %s, which points the wrong way: it may import %s. Declare what it needs as a small interface in %s and let cmd/ hand it in, or move the value that both need down to a package that both may import",
		s.name, i.line, s.pkg, own, orNothing(mayImport[pattern]), s.pkg)
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing of ours"
	}
	return strings.Join(list, ", ")
}

func TestImportsPointOneWay(t *testing.T) {
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
		"internal/node/status/vf.go":             file("status", own+"internal/node/attach"),
		"internal/node/status/text/table.go":     file("text", own+"internal/node/attach"),
		"internal/vf/mac.go":                     file("vf", "net", "os"),
		"internal/node/attach/ok.go":             file("attach", "os", own+"internal/node/alloc", own+"internal/kernel/step"),
		"internal/node/attach/bad.go":            file("attach", own+"internal/vf", own+"internal/kernel"),
		"internal/node/attach/any_test.go":       file("attach", own+"internal/kernel/fake", own+"internal/node/reconcile"),
		"internal/kernel/rtnl/conn.go":           file("rtnl", own+"internal/vf", own+"internal/node/journal"),
		"internal/kernel/step/step.go":           file("step", own+"internal/kernel"),
		"cmd/culvert-cni/main.go":                file("main", own+"internal/rpc", own+"internal/node/attach"),
		"internal/node/intake/cni/cni.go":        file("cni", own+"internal/node/attach"),
		"lab/up.go":                              file("lab", own+"lab/boot", own+"internal/vf"),
		"novel/novel.go":                         file("novel"),
		"test/e2e/e2e.go":                        file("e2e", own+"lab", own+"internal/node/attach"),
		"internal/node/attach/testdata/input.go": file("input", own+"cmd/culvertd"),
	}
	got, err := checkImports(tree)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], ": it may import ")
		got[i], _, _ = strings.Cut(got[i], " (test/layout")
	}
	want := []string{
		"cmd/culvert-cni/main.go:3: cmd/culvert-cni imports internal/node/attach, which points the wrong way",
		"internal/kernel/rtnl/conn.go:3: internal/kernel/rtnl imports internal/node/journal, which points the wrong way",
		"internal/kernel/step/step.go:2: internal/kernel/step imports internal/kernel, which points the wrong way",
		"internal/node/attach/bad.go:3: internal/node/attach imports internal/kernel, which points the wrong way",
		"internal/node/status/text/table.go:2: internal/node/status/text imports internal/node/attach, which points the wrong way",
		"internal/vf/mac.go:3: internal/vf is pure and imports os: read outside, and hand the value in",
		"lab/up.go:3: lab imports internal/vf, which points the wrong way",
		"novel/novel.go: package novel has no entry in mayImport",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
