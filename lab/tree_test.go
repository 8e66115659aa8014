package lab

import (
	"archive/tar"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A tree that AddTree packs keeps its modes and links when it is unpacked as on a node. Folders
// that existed there keep their modes.
func TestTreeIsUnpackedOverAnother(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	then := time.Unix(1_700_000_000, 0)
	f, err := os.Create(filepath.Join(dir, "tar"))
	if err != nil {
		t.Fatal(err)
	}
	out := tar.NewWriter(f)
	if err := errors.Join(
		os.MkdirAll(filepath.Join(from, "etc/new"), 0o700), os.MkdirAll(filepath.Join(to, "etc"), 0o711),
		os.WriteFile(filepath.Join(from, "etc/new/file"), []byte("text"), 0o640), os.Chtimes(filepath.Join(from, "etc/new/file"), then, then),
		os.Symlink("new/file", filepath.Join(from, "etc/link")), os.WriteFile(filepath.Join(to, "etc/link"), nil, 0o600),
		AddTree(out, filepath.Join(from, "etc"), "etc", true), out.Close(), f.Close(),
	); err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields(untar), "--file", f.Name(), "--directory", to)
	if said, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil || len(said) > 0 {
		t.Fatalf("%v: %s", err, said)
	}
	for name, want := range map[string]os.FileMode{"etc": 0o711, "etc/new": 0o700, "etc/new/file": 0o640} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", name, info, err, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(to, "etc/link"))
	if info, statErr := os.Stat(filepath.Join(to, "etc/link")); err != nil || statErr != nil || string(text) != "text" || !info.ModTime().Equal(then) {
		t.Errorf("%q, %v, %v", text, err, info)
	}
	if err := AddTree(out, filepath.Join(dir, "none"), "none", true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}
