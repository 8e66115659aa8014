package kernel

import (
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/culvert-net/culvert/internal/vf"
)

// treeOf lays out a tree of text under a temporary root. A file whose text is
// "-> target" becomes a link; "-> " followed by nothing is not used.
func treeOf(t *testing.T, archive string) tree {
	t.Helper()
	return layOut(t, parseArchive(t, archive))
}

func parseArchive(t *testing.T, archive string) *txtar.Archive {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", archive))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// layOut writes the files of an archive. A file that is named for a PCI function stands for the
// folder of this function: it has a line "file value" or "file -> target" for each file in the
// folder.
func layOut(t *testing.T, a *txtar.Archive) tree {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "bus/pci/devices"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		if _, err := vf.ParsePCIAddr(f.Name); err != nil {
			put(t, filepath.Join(root, f.Name), string(f.Data))
			continue
		}
		dir := filepath.Join(root, "bus/pci/devices", f.Name)
		for line := range strings.Lines(string(f.Data)) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			put(t, filepath.Join(dir, name), value+"\n")
		}
	}
	return tree{root}
}

// put writes a file. Data of the form "-> target" makes a link instead, and "hex ..." stands for
// bytes.
func put(t *testing.T, path, data string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	to, isLink := strings.CutPrefix(data, "-> ")
	digits, isHex := strings.CutPrefix(data, "hex ")
	switch {
	case isLink:
		err = os.Symlink(strings.TrimSpace(to), path)
	case isHex:
		var b []byte
		if b, err = hex.DecodeString(strings.TrimSpace(digits)); err == nil {
			err = os.WriteFile(path, b, 0o644)
		}
	default:
		err = os.WriteFile(path, []byte(data), fs.FileMode(0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}
