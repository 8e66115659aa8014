package lab

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A folder of labs that another user prepared in /tmp is refused, before and after it is made.
func TestForeignRunDirIsRefused(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"another user's": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 65534, 65534)) },
		"open to others": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"a symlink":      func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"a file":         func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "culvert-lab-1000")
			if err := prepare(dir); errors.Is(err, os.ErrPermission) {
				t.Skip("only root gives folders to other users:", err)
			} else if err != nil {
				t.Fatal(err)
			}
			if _, err := labPathsIn(dir, "x"); !errors.Is(err, errForeign) {
				t.Errorf("found: %v", err)
			}
			if name == "a file" {
				return // nothing is made below it
			}
			if err := (paths{run: filepath.Join(dir, "x")}).makeRun(); !errors.Is(err, errForeign) {
				t.Errorf("made: %v", err)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "culvert-lab-1000")
	p, err := labPathsIn(dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.makeRun(); err != nil {
		t.Fatal(err)
	}
	if _, err := labPathsIn(dir, "x"); err != nil {
		t.Error("its own folder:", err)
	}
}
