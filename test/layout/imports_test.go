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
	"vf":          {"excerpt"},
	"suggest":     {},
	"keylock":     {},
	"change":      {},
	"durable":     {},
	"excerpt":     {},
	"screen":      {"excerpt"},
	"strictjson":  {"excerpt", "suggest", "vf"},
	"api":         {"vf"},
	"kernel/step": {"vf"},

	"api/v1alpha1":  {"vf"},
	"netconf":       {"api", "vf"},
	"netannotation": {"excerpt", "netconf", "strictjson", "suggest", "vf"},
	"guest":         {"guest/moving", "suggest", "vf"},
	"guest/moving":  {},

	// pure parts: in go values, out come values
	"desired":     {"api/v1alpha1", "excerpt", "suggest", "vf"},
	"ipam":        {"api", "strictjson", "suggest", "vf"},
	"ipam/blocks": {"api/v1alpha1", "change", "ipam", "vf"},
	"alloc":       {"desired", "journal", "netannotation", "vf"},
	"status":      {"api", "api/v1alpha1", "attach", "desired", "excerpt", "journal", "reconcile", "vf"},
	"status/...":  {"api", "excerpt", "journal", "screen", "suggest", "vf"},
	"trouble":     {"journal"},

	// the kernel, on Linux and in memory
	"kernel":     {"change", "excerpt", "kernel/...", "vf"},
	"kernel/...": {"change", "kernel/...", "vf"},

	// parts that keep or change state
	"journal":       {"change", "durable", "journal/pages", "netconf", "vf"}, // netconf: the plugins of a sandbox
	"journal/pages": {},
	"inventory":     {"change", "vf"},
	"reconcile":     {"change", "desired", "excerpt", "journal", "kernel/step", "keylock", "vf"},
	"claims":        {"excerpt", "vf"},
	"attach":        {"alloc", "desired", "ipam", "journal", "kernel/step", "keylock", "vf"},
	"bond":          {"journal", "kernel/step", "vf"},
	"segment":       {"api", "desired", "vf"},
	"rpc":           {"api", "vf"},
	"install":       {"durable", "intake/cni/place", "kernel/balance", "netconf", "program"},

	// diagnosis of a host
	"doctor":        {"api", "claims", "desired", "guest", "kernel/survey", "netannotation", "netconf", "screen", "vf"},
	"doctor/gather": {"api", "claims", "desired", "doctor", "excerpt", "kernel/pathmtu", "kernel/survey", "netconf", "vf"},
	"doctor/mend":   {"api", "doctor", "durable", "kernel/survey"},

	// the node's kubelet, as a source of the owners of VFs
	"kubelet": {"vf"},
	// the sockets on which Culvert serves the kubelet
	"kubelet/socket": {"change"},

	// the host's libvirt, as a source of guests
	"libvirt": {"vf"},

	// changes to guests by a person, through libvirt and culvertd
	"guest/admin": {"api", "guest", "journal", "libvirt", "rpc", "vf"},

	// objects of other projects -> Culvert's
	"verdict": {"api", "api/v1alpha1", "desired", "excerpt", "intake/cni", "intake/pod", "migrate", "netannotation", "suggest", "vf"},
	"migrate": {"api", "api/v1alpha1", "desired", "excerpt", "intake/cni", "journal", "netannotation", "netconf", "vf"},

	// the cluster: only these packages and controller import client-go
	"kube":      {"api", "api/v1alpha1", "change", "excerpt", "kernel/balance", "netannotation", "netconf", "service", "service/table", "vf"},
	"kube/view": {"api", "api/v1alpha1", "netannotation", "vf"},

	// requests from outside
	"intake/deviceplugin": {"api", "change", "desired", "durable", "journal", "kubelet/socket", "vf"},
	"intake/pod":          {"api", "durable", "excerpt", "intake/cni", "journal", "kernel/step", "keylock", "netannotation", "netconf", "vf"},
	"intake/guest":        {"api", "attach", "guest", "journal", "libvirt", "trouble", "vf"},
	"intake/...":          {"api", "attach", "desired", "durable", "excerpt", "ipam", "journal", "netannotation", "netconf", "strictjson", "suggest", "vf"},

	// a whole node: its wanted Spec, its parts, its status, its membership in the cluster
	"wanted":        {"api", "api/v1alpha1", "change", "desired", "durable", "excerpt", "vf"},
	"node":          {"api", "attach", "excerpt", "inventory", "ipam/blocks", "journal", "kernel/step", "reconcile", "vf", "wanted"},
	"status/gather": {"excerpt", "api", "claims", "desired", "intake/cni", "journal", "node", "status", "vf"},
	"metrics":       {"api", "attach", "vf"},
	"membership":    {"change", "excerpt", "api", "api/v1alpha1", "intake/cni", "ipam", "ipam/blocks", "journal", "netannotation", "node", "status", "trouble", "vf", "wanted"},
	"daemon":        {"api", "bond", "change", "claims", "desired", "intake/...", "journal", "kernel", "kernel/balance", "kernel/balance/...", "kernel/beacon", "kernel/dirwatch", "kernel/guard", "kube", "kubelet", "membership", "metrics", "node", "rpc", "segment", "service/agent", "status", "status/gather", "vf", "wanted"},

	// Services over VF networks
	"service":           {"excerpt", "netannotation", "vf"},
	"service/agent":     {"api", "excerpt", "journal", "kernel/balance", "netannotation", "service", "service/table", "vf"},
	"service/endpoints": {"api/v1alpha1", "desired", "excerpt", "journal", "netannotation", "service", "vf"},
	"service/table":     {"kernel/balance", "service"},

	// the cluster's own program
	"controller": {"api", "api/v1alpha1", "desired", "excerpt", "intake/cni", "ipam", "ipam/blocks", "netannotation", "netconf", "service", "service/endpoints", "status", "vf"},

	// machines and measurements: they see Culvert from outside
	"lab/...":   {"durable", "lab/...", "screen"},
	"bench/...": {"api", "bench/...", "excerpt", "kernel/bpf", "kernel/netns", "kernel/rtnl", "kernel/tuning", "program", "rpc", "screen", "suggest", "vf"},
	"demo/...":  {"api", "bench/...", "demo/...", "lab", "lab/cluster", "lab/parts", "program", "rpc", "screen", "vf"},

	// programs
	"program":                {},
	"cli":                    {"screen", "suggest"},
	"cmd/culvert":            {"api", "cli", "desired", "doctor/...", "guest/admin", "install", "journal", "kernel/...", "kube/view", "libvirt", "migrate", "program", "rpc", "screen", "status/...", "suggest", "verdict", "vf"},
	"cmd/culvert-bench":      {"bench/...", "cli", "durable", "rpc", "screen"},
	"cmd/culvert-lab":        {"bench", "cli", "demo", "lab", "lab/cluster"},
	"cmd/culvert-cni":        {"api", "rpc"},
	"cmd/culvert-hook":       {"api", "guest/moving", "rpc"},
	"cmd/culvertd":           {"api", "daemon", "desired", "intake/...", "journal", "kernel/...", "netannotation", "rpc", "vf", "wanted"},
	"cmd/culvert-controller": {"controller"},

	"tools/...": {"..."},
	"test/...":  {"..."},
}

// pure lists packages that neither open files nor make system calls.
var pure = []string{"vf", "suggest", "strictjson", "api", "api/v1alpha1", "netconf", "netannotation", "guest", "guest/moving", "kernel/step", "desired", "ipam", "ipam/blocks", "alloc", "doctor", "journal/pages", "status", "status/text", "status/pick", "screen", "trouble", "keylock", "change", "excerpt", "service", "kernel/balance", "service/table"}

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
		"status/vf.go":             file("status", own+"attach"),
		"status/text/table.go":     file("text", own+"attach"),
		"vf/mac.go":                file("vf", "net", "os"),
		"attach/ok.go":             file("attach", "os", own+"alloc", own+"kernel/step"),
		"attach/bad.go":            file("attach", own+"vf", own+"kernel"),
		"attach/any_test.go":       file("attach", own+"kernel/fake", own+"reconcile"),
		"kernel/rtnl/conn.go":      file("rtnl", own+"vf", own+"journal"),
		"kernel/step/step.go":      file("step", own+"kernel"),
		"cmd/culvert-cni/main.go":  file("main", own+"rpc", own+"attach"),
		"intake/cni/cni.go":        file("cni", own+"attach"),
		"lab/up.go":                file("lab", own+"lab/boot", own+"vf"),
		"novel/novel.go":           file("novel"),
		"test/e2e/e2e.go":          file("e2e", own+"lab", own+"attach"),
		"attach/testdata/input.go": file("input", own+"cmd/culvertd"),
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
		"attach/bad.go:3: attach imports kernel, which points the wrong way",
		"cmd/culvert-cni/main.go:3: cmd/culvert-cni imports attach, which points the wrong way",
		"kernel/rtnl/conn.go:3: kernel/rtnl imports journal, which points the wrong way",
		"kernel/step/step.go:2: kernel/step imports kernel, which points the wrong way",
		"lab/up.go:3: lab imports vf, which points the wrong way",
		"novel/novel.go: package novel has no entry in mayImport",
		"status/text/table.go:2: status/text imports attach, which points the wrong way",
		"vf/mac.go:3: vf is pure and imports os: read outside, and hand the value in",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
