package layout

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// listPlaces returns the files and packages that the checks of this folder name, by the list that
// has them. After a move, a check with an old name would find nothing and pass.
func listPlaces() map[string][]string {
	places := map[string][]string{
		"floors": slices.Concat(floors...), "pure": pure, "namesDrivers": namesDrivers, "namesSysfs": namesSysfs, "readsErrorText": readsErrorText,
		"podNetworks": podNetworks, "rpcFolder and apiFolder": {rpcFolder, apiFolder}, "engineList": {engineList}, "unfinished": unfinished,
		"withoutKubernetes": withoutKubernetes,
	}
	for _, b := range bans {
		places["bans"] = slices.Concat(places["bans"], b.importers, b.exempt, b.never, b.but)
	}
	for _, m := range mechanisms {
		places["mechanisms"] = append(slices.AppendSeq(places["mechanisms"], maps.Keys(m.others)), m.owner)
	}
	for program, b := range budgets {
		places["budgets"] = append(places["budgets"], "cmd/"+program)
		for _, never := range b.never {
			if own, isOwn := strings.CutPrefix(never, module+"/"); isOwn {
				places["budgets"] = append(places["budgets"], own)
			}
		}
	}
	return places
}

// checkPlaces finds names in lists that are neither a file nor a folder of the tree. Import paths
// of other modules begin with a domain, which has a dot.
func checkPlaces(tree fs.FS, places map[string][]string) (complaints []string) {
	for _, list := range slices.Sorted(maps.Keys(places)) {
		names := slices.Sorted(slices.Values(places[list]))
		for _, name := range slices.Compact(names) {
			first, _, _ := strings.Cut(name, "/")
			if place := strings.TrimSuffix(name, "/..."); !strings.Contains(first, ".") && !exists(tree, place) {
				complaints = append(complaints, fmt.Sprintf("%s has %s, which is not in the tree: write its new name, or take it out", list, name))
			}
		}
	}
	return complaints
}

func TestListedPlacesExist(t *testing.T) {
	report(t, checkPlaces(repository(t), listPlaces()), nil)
}

func TestCheckPlaces(t *testing.T) {
	tree := fstest.MapFS{"internal/vf/drivers.go": {}, "lab/lab.go": {}}
	got := checkPlaces(tree, map[string][]string{
		"pure": {"internal/vf", "vf", "vf"}, "files": {"internal/vf/drivers.go", "internal/vf/gone.go"},
		"bans": {"...", "lab/...", "demo/...", "k8s.io/client-go/..."},
	})
	want := []string{
		"bans has demo/..., which is not in the tree: write its new name, or take it out",
		"files has internal/vf/gone.go, which is not in the tree: write its new name, or take it out",
		"pure has vf, which is not in the tree: write its new name, or take it out",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// fromHere matches a file of the tree that a test reads by a path from its own folder, and fromTop
// one that it reads by a path from the top.
var (
	fromHere = regexp.MustCompile(`\bos\.(?:ReadFile|ReadDir|Open|Stat|DirFS)\("(\.\.?/[^"]+)"\)`)
	fromTop  = regexp.MustCompile(`\btop\s*\+\s*"/([^"]+)"`)
)

// checkReadPlaces finds files that tests read and that are not in the tree. Some tests run only in
// the lab, so that a move which misses their paths is found late. Below build are files that make
// writes.
func checkReadPlaces(tree fs.FS, tests []string) (complaints []string, err error) {
	for _, name := range tests {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		read := func(place string) {
			if !exists(tree, place) && !strings.HasPrefix(place, "build/") {
				complaints = append(complaints, fmt.Sprintf("%s reads %s, which is not in the tree", name, place))
			}
		}
		for _, found := range fromHere.FindAllSubmatch(text, -1) {
			read(path.Join(path.Dir(name), string(found[1])))
		}
		for _, found := range fromTop.FindAllSubmatch(text, -1) {
			read(string(found[1]))
		}
	}
	return complaints, nil
}

func TestTestsReadWhatIsThere(t *testing.T) {
	tree := repository(t)
	all, err := files(tree)
	if err != nil {
		t.Fatal(err)
	}
	complaints, err := checkReadPlaces(tree, slices.DeleteFunc(all, func(name string) bool {
		return !strings.HasSuffix(name, "_test.go") || name == "test/layout/places_test.go" // which has bad examples
	}))
	report(t, complaints, err)
}

func TestCheckReadPlaces(t *testing.T) {
	tree := fstest.MapFS{
		"docs/a.md": {}, "test/e2e/testdata/x": {},
		"test/e2e/a_test.go": {Data: []byte(`os.ReadFile("../../docs/a.md"); os.Open("./testdata/x"); top + "/docs/a.md"; top + "/build/x"`)},
		"test/e2e/b_test.go": {Data: []byte(`os.ReadFile("../docs/a.md"); top + "/a.md"`)},
	}
	got, err := checkReadPlaces(tree, []string{"test/e2e/a_test.go", "test/e2e/b_test.go"})
	want := []string{"test/e2e/b_test.go reads test/docs/a.md, which is not in the tree", "test/e2e/b_test.go reads a.md, which is not in the tree"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
}
