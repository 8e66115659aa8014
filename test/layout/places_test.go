package layout

import (
	"fmt"
	"io/fs"
	"maps"
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
