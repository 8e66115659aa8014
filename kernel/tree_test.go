package kernel

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// treeOf lays out a tree of text under a temporary root. A file whose text is
// "-> target" becomes a link; "-> " followed by nothing is not used.
func treeOf(t *testing.T, archive string) tree {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", archive))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, f := range a.Files {
		path := filepath.Join(root, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, ok := strings.CutPrefix(string(f.Data), "-> "); ok {
			err = os.Symlink(strings.TrimSpace(to), path)
		} else {
			err = os.WriteFile(path, f.Data, fs.FileMode(0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree{root}
}
