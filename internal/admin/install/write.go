package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/culvert-net/culvert/internal/durable"
)

// These signs mark the outcome for a file.
const (
	signNew   = "+"
	signOther = "~"
	signSame  = "="
	signGone  = "-"
)

// fileContent returns the wanted content of the file.
func (f file) fileContent() ([]byte, error) {
	if f.source != "" {
		return os.ReadFile(f.source)
	}
	return f.body, nil
}

// compareFile compares the file on the host with the wanted one, and returns the
// sign for the difference.
func (h Host) compareFile(f file) (string, error) {
	at := h.hostPath(f.place)
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return signNew, nil
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fmt.Errorf("%s is a folder", at)
	case f.keep:
		return signSame, nil
	}
	if f.link != "" {
		if to, err := readLink(at); err == nil && to == f.link {
			return signSame, nil
		}
		return signOther, nil
	}
	if info.Mode() != f.mode { // a link has another, too
		return signOther, nil
	}
	want, err := f.fileContent()
	if err != nil {
		return "", err
	}
	there, err := os.ReadFile(at)
	if err != nil {
		return "", err
	}
	if bytes.Equal(there, want) {
		return signSame, nil
	}
	return signOther, nil
}

// putFile writes the file if it is missing or differs, and prints a line about it.
func (h Host) putFile(f file) (sign string, err error) {
	if sign, err = h.compareFile(f); err != nil {
		return sign, err
	}
	line := sign + " " + f.place
	switch {
	case f.link != "":
		line += " -> " + f.link
	case f.keep && sign == signSame:
		line += " stays as it is"
	}
	h.printLine("%s", line)
	if h.DryRun || sign == signSame {
		return sign, nil
	}
	at := h.hostPath(f.place)
	if err := makeFolder(filepath.Dir(at)); err != nil {
		return sign, err
	}
	if f.link != "" {
		return sign, durable.Symlink(f.link, at)
	}
	body, err := f.fileContent()
	if err != nil {
		return sign, err
	}
	return sign, durable.WriteFile(at, body, f.mode)
}

// removeFile removes the file, and the folders that become empty. It keeps an
// edited file.
func (h Host) removeFile(f file) error {
	at := h.hostPath(f.place)
	if f.keep {
		if there, err := os.ReadFile(at); err == nil && !bytes.Equal(there, f.body) {
			return nil
		}
	}
	if h.fileExists(f.place) {
		h.printLine("%s %s", signGone, f.place)
	}
	if h.DryRun {
		return nil
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.RemoveTemporary(at); err != nil {
		return err
	}
	// Remove fails at a folder that has other files, or does not exist.
	for dir := path.Dir(f.place); !h.isKeptFolder(dir) && os.Remove(h.hostPath(dir)) == nil; {
		dir = path.Dir(dir)
	}
	return nil
}

// fileExists reports whether the host has a file or folder of that name, or a
// link, also one without a target.
func (h Host) fileExists(name string) bool {
	_, err := os.Lstat(h.hostPath(name))
	return err == nil
}

// makeFolder makes a folder and the missing folders above it. All users can enter
// them, under every umask.
func makeFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := makeFolder(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// readLink returns the target of a link; "" for a file that is no link.
func readLink(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", err
	}
	return os.Readlink(name)
}
