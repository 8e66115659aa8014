package durable

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// only fails unless the folder holds just the named files.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if strings.Join(have, " ") != strings.Join(names, " ") {
		t.Errorf("%s holds %q, want %q", dir, have, names)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestWriteFile(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	for _, c := range []struct {
		content string
		perm    fs.FileMode
	}{{"first", 0o644}, {"", 0o600}, {"third", 0o755}} {
		if err := WriteFile(path, []byte(c.content), c.perm); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != c.perm || content(t, path) != c.content {
			t.Errorf("%q: %v %v", content(t, path), info.Mode(), err)
		}
	}
	only(t, dir, "state")
}

// If any step fails, the file is whole: the old file, or the new one once it was renamed. The error
// names the file and the step, and no temporary file is left.
func TestEachStepFails(t *testing.T) {
	broken := errors.New("broken disk")
	for _, at := range []step{create, fillFile, setMode, syncFile, closeFile, renameFile, syncFolder} {
		t.Run(string(at), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state")
			if err := WriteFile(path, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			err := writeFile(path, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }, func(s step) error {
				if s == at {
					return broken
				}
				return nil
			})
			if !errors.Is(err, broken) || err.Error() != "write "+path+": "+string(at)+": broken disk" {
				t.Errorf("got %v", err)
			}
			want := "old"
			if at == syncFolder {
				want = "new"
			}
			if got := content(t, path); got != want {
				t.Errorf("the file holds %q, want %q", got, want)
			}
			only(t, dir, "state")
		})
	}
}

func TestContentThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	source := &fs.PathError{Op: "open", Path: "/source", Err: fs.ErrPermission}
	err := Write(path, 0o644, func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return errors.Join(errors.New("no paper"), source)
	})
	if err == nil || !strings.Contains(err.Error(), "no paper") || !strings.Contains(err.Error(), "/source") {
		t.Errorf("got %v", err)
	}
	only(t, dir)
}

func TestTargetsThatAreNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"folder", "pipe", "out"} {
		path := filepath.Join(dir, name)
		if err := WriteFile(path, []byte("x"), 0o600); err == nil || !strings.HasPrefix(err.Error(), "write "+path+": ") || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Symlink("x", filepath.Join(dir, "folder")); err == nil {
		t.Error("a folder was replaced with a link")
	}
	missing := filepath.Join(dir, "missing", "state")
	err := WriteFile(missing, []byte("x"), 0o600)
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "write "+missing+": "+string(create)+": no such file or directory" {
		t.Errorf("got %v", err)
	}
	only(t, dir, "folder", "out", "pipe")
}

// WriteFile replaces a symbolic link; the file to which the link pointed stays.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(WriteFile(at("target"), []byte("kept"), 0o600), Symlink("target", at("link")), Symlink("target", at("link"))); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(at("link")); err != nil || to != "target" {
		t.Fatalf("%q %v", to, err)
	}
	if err := WriteFile(at("link"), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if content(t, at("target")) != "kept" || content(t, at("link")) != "new" {
		t.Errorf("target %q, link %q", content(t, at("target")), content(t, at("link")))
	}
	if err := Rename(at("link"), at("moved")); err != nil {
		t.Fatal(err)
	}
	only(t, dir, "moved", "target")
	if err := Rename(at("link"), at("moved")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
}

func TestRemoveTemporary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".state-1.tmp", ".state-22.tmp", ".other-1.tmp", "state"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveTemporary(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	only(t, dir, ".other-1.tmp", "state")
}

func TestMkdirAll(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := MkdirAll(deep, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(filepath.Join(deep, "state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(filepath.Join(deep, "state", "d"), 0o755); err == nil {
		t.Error("a folder below a file")
	}
}

// A folder that its owner may not write to, as Multus makes one, gets its owner's rights and no others.
func TestMakeWritable(t *testing.T) {
	for before, want := range map[os.FileMode]os.FileMode{0: 0o700, 0o555: 0o755, 0o750: 0o750, 0o700: 0o700} {
		dir := filepath.Join(t.TempDir(), "d")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, before), MakeWritable(dir)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode %o becomes %v, want %o, %v", before, info.Mode(), want, err)
		}
	}
	if err := MakeWritable(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// If the disk is full, WriteFile fails and the file keeps its old content.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "state")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, bytes.Repeat([]byte("new "), 100<<10), 0o600)
	if !errors.Is(err, unix.ENOSPC) || !strings.HasPrefix(err.Error(), "write "+path+": "+string(fillFile)) {
		t.Errorf("got %v", err)
	}
	if content(t, path) != "old" {
		t.Errorf("the file holds %q", content(t, path))
	}
	only(t, dir, "state")
}
