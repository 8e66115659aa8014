package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/culvert-net/culvert/durable"
)

// What is said of a file.
const (
	signNew   = "+"
	signOther = "~"
	signSame  = "="
	signGone  = "-"
)

// content is what the file is to hold.
func (f file) content() ([]byte, error) {
	if f.source != "" {
		return os.ReadFile(f.source)
	}
	return f.body, nil
}

// sign compares what is there with what is wanted.
func (h Host) sign(f file) (string, error) {
	at := h.on(f.place)
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
		if to, err := readlink(at); err == nil && to == f.link {
			return signSame, nil
		}
		return signOther, nil
	}
	if info.Mode() != f.mode { // a link has another, too
		return signOther, nil
	}
	want, err := f.content()
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

// put makes the file what it should be, and says so.
func (h Host) put(f file) (sign string, err error) {
	if sign, err = h.sign(f); err != nil {
		return sign, err
	}
	line := sign + " " + f.place
	switch {
	case f.link != "":
		line += " -> " + f.link
	case f.keep && sign == signSame:
		line += " stays as it is"
	}
	h.say("%s", line)
	if h.DryRun || sign == signSame {
		return sign, nil
	}
	at := h.on(f.place)
	if err := mkdir(filepath.Dir(at)); err != nil {
		return sign, err
	}
	if f.link != "" {
		return sign, durable.Symlink(f.link, at)
	}
	body, err := f.content()
	if err != nil {
		return sign, err
	}
	return sign, durable.WriteFile(at, body, f.mode)
}

// take removes the file, and folders that are empty then.
func (h Host) take(f file) error {
	at := h.on(f.place)
	if f.keep {
		if there, err := os.ReadFile(at); err == nil && !bytes.Equal(there, f.body) {
			return nil
		}
	}
	if h.exists(f.place) {
		h.say("%s %s", signGone, f.place)
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
	// Until others have something in it, or it is not there.
	for dir := path.Dir(f.place); !h.floor(dir) && os.Remove(h.on(dir)) == nil; {
		dir = path.Dir(dir)
	}
	return nil
}

// exists reports whether the host has a file or folder of that name, be it a
// link that leads nowhere.
func (h Host) exists(name string) bool {
	_, err := os.Lstat(h.on(name))
	return err == nil
}

// mkdir makes a folder and those above it that others can enter, whatever the
// umask is.
func mkdir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := mkdir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// readlink is os.Readlink; what is there and is no link leads to "".
func readlink(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", err
	}
	return os.Readlink(name)
}
