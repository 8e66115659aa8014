package layout

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// The manifests must be those that tools/manifest makes of the present chart. To
// make them takes Helm, so the test only compares the chart with the hash in the
// manifests.
func TestManifestIsCurrent(t *testing.T) {
	const chart = "dist/kubernetes/chart"
	tree := os.DirFS("../..")
	var names []string
	err := fs.WalkDir(tree, chart, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&fs.ModeSymlink == 0 {
			names = append(names, name)
			return nil
		}
		if target, err := fs.Stat(tree, name); err != nil || !target.IsDir() {
			names = append(names, name)
			return err
		}
		linked, err := fs.ReadDir(tree, name)
		for _, l := range linked {
			names = append(names, name+"/"+l.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	all := sha256.New()
	for _, name := range names {
		body, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(all, "%x  %s\n", sha256.Sum256(body), name)
	}
	for _, name := range []string{"culvert.yaml", "release-services.yaml"} {
		manifest, err := fs.ReadFile(tree, "dist/kubernetes/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("# chart: %x\n", all.Sum(nil)); !strings.Contains(string(manifest), want) {
			t.Errorf("dist/kubernetes/%s was made of another chart (want %q): run tools/manifest", name, want)
		}
	}
}
