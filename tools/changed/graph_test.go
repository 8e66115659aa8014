package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var small = []listed{
	{folder: "vf", hasTests: true},
	{folder: "alloc", imports: []string{"vf"}, hasTests: true},
	{folder: "lab", embedded: []string{"lab/image/init"}, hasTests: true},
	{folder: "daemon", imports: []string{"alloc"}, hasTests: true},
	{folder: "cmd/culvertd", imports: []string{"daemon"}},
	{folder: "doctor", tests: []string{"alloc"}, names: []string{"docs/doctor.md"}, hasTests: true},
	{folder: "test/apiserver", names: []string{"dist/crds/*.yaml", "tools/part"}},
	{folder: "kube", tests: []string{"test/apiserver"}, hasTests: true},
	{folder: "test/layout", hasTests: true},
	{folder: "demo", imports: []string{"doctor"}, hasTests: true},
	{folder: "unit", names: []string{"cmd/culvertd"}, hasTests: true}, // builds the program
}

func TestAffected(t *testing.T) {
	for _, c := range []struct{ files, want string }{
		{"", ""},
		// a file that is compiled affects the importers of its package, and their importers
		{"vf/mac.go", "alloc cmd/culvertd daemon doctor test/layout unit vf"},
		// no package imports the tests of another one
		{"vf/mac_test.go", "test/layout vf"},
		{"alloc/testdata/deep/a.txt", "alloc test/layout"},
		// tests of doctor import alloc: that does not affect demo, which imports doctor
		{"alloc/alloc.go", "alloc cmd/culvertd daemon doctor test/layout unit"},
		{"lab/image/init", "lab test/layout"},
		{"docs/doctor.md", "doctor test/layout"},
		{"README.md", "test/layout"},
		// a package without tests serves the tests of others
		{"dist/crds/policy.yaml", "kube test/apiserver test/layout"},
		{"tools/part docs/other.md", "kube test/apiserver test/layout"},
		{"go.sum", "alloc cmd/culvertd daemon demo doctor kube lab test/apiserver test/layout unit vf"},
		// a package that does not exist any more
		{"gone/gone.go", "test/layout"},
	} {
		if diff := cmp.Diff(c.want, strings.Join(affectedFolders(small, strings.Fields(c.files)), " ")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.files, diff)
		}
	}
}

// ownerFolders returns the packages of the changed files, without their importers.
func TestOwners(t *testing.T) {
	files := []string{"vf/mac.go", "vf/mac_test.go", "lab/image/init", "README.md", "gone/gone.go"}
	if diff := cmp.Diff([]string{"lab", "vf"}, ownerFolders(small, files)); diff != "" {
		t.Error(diff)
	}
}

func TestNamesIn(t *testing.T) {
	source := "package a\nimport \"net/http\"\nconst p = \"github.com/culvert-net/culvert/cmd/culvertd\"\nvar a = []string{\"../docs/x.md\", `dist/*/y`, \"/etc/passwd\", \"no/ words\", \"../../out\", \"word\", \"./\", \"a/\"}\n" +
		"// \"docs/comment.md\"\nvar b = filepath.Join(root, \"docs\", \"reference\", name) + path.Join(\"..\", \"rpc\")\n"
	got, err := namesIn("lab", []byte(source))
	if diff := cmp.Diff([]string{"cmd/culvertd", "docs/x.md", "dist/*/y", "a", "docs/reference", "rpc"}, got); err != nil || diff != "" {
		t.Errorf("%v; -want +got:\n%s", err, diff)
	}
	if got, err := namesIn("api/v1", []byte("package a\nvar a = filepath.Join(\"..\", \"..\")\n")); err != nil || len(got) != 1 || got[0] != "." {
		t.Errorf("the whole tree: %v, %v", got, err)
	}
}

// TestListOfTheTree checks packages of this tree that read files of other packages.
func TestListOfTheTree(t *testing.T) {
	t.Chdir("../..")
	all, err := listPackages(".")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"docs/reference/host.md":                 "tools/refdoc",
		"tools/part":                             "lab/parts",
		"test/apiserver/apiserver.go":            "internal/node/kube",
		"dist/kubernetes/culvert.yaml":           "test/layout",
		"internal/vf/vf.go":                      "cmd/culvertd",
		"cmd/culvert-cni/main.go":                "internal/node/intake/cni",
		"test/scenario/testdata/no-such-a.txtar": "test/scenario",
	} {
		if got := affectedFolders(all, []string{file}); !slices.Contains(got, want) {
			t.Errorf("%s affects %v, want %s among them", file, got, want)
		}
	}
}
