package lab

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// archive writes an initramfs: a cpio archive in the "newc" format of the
// kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
// Everything in it belongs to root. Parents are made before their children,
// and a name is written once: the first one wins.
type archive struct {
	w    io.Writer
	ino  uint32
	done map[string]bool
	err  error
}

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
	cpioLink = 0o120000
	cpioChar = 0o020000
)

func newArchive(w io.Writer) *archive {
	return &archive{w: w, done: map[string]bool{"": true, ".": true}}
}

// addEntry writes one header with its body. After an error it does nothing more, and writeTrailer
// returns that error.
func (a *archive) addEntry(name string, mode uint32, major, minor uint32, size int64, body io.Reader) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if a.err != nil || a.done[name] {
		return
	}
	if dir := path.Dir(name); dir != "." {
		a.addEntry(dir, cpioDir|0o755, 0, 0, 0, nil)
	}
	a.done[name] = true
	a.writeRecord(name, mode, major, minor, size, body)
}

func (a *archive) writeRecord(name string, mode, major, minor uint32, size int64, body io.Reader) {
	if a.err != nil {
		return
	}
	if size >= 1<<32 {
		a.err = fmt.Errorf("add %s to the initramfs: %d bytes are more than the format holds", name, size)
		return
	}
	a.ino++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.ino, mode, 0, 0, 1, 0, uint32(size), 0, 0, major, minor, len(name)+1, 0, name)
	a.writeString(head + strings.Repeat("\x00", -len(head)&3))
	if size == 0 || a.err != nil {
		return
	}
	if n, err := io.Copy(a.w, io.LimitReader(body, size)); err != nil {
		a.err = fmt.Errorf("add %s to the initramfs: %w", name, err)
	} else if n != size {
		a.err = fmt.Errorf("add %s to the initramfs: %d bytes of %d: %w", name, n, size, io.ErrUnexpectedEOF)
	}
	a.writeString(strings.Repeat("\x00", int(-size&3)))
}

func (a *archive) writeString(s string) {
	if a.err == nil {
		_, a.err = io.WriteString(a.w, s)
	}
}

func (a *archive) addDir(name string) { a.addEntry(name, cpioDir|0o755, 0, 0, 0, nil) }

func (a *archive) addLink(name, target string) {
	a.addEntry(name, cpioLink|0o777, 0, 0, int64(len(target)), strings.NewReader(target))
}

func (a *archive) addCharDevice(name string, mode, major, minor uint32) {
	a.addEntry(name, cpioChar|mode, major, minor, 0, nil)
}

func (a *archive) addText(name, body string, perm uint32) {
	a.addEntry(name, cpioFile|perm, 0, 0, int64(len(body)), strings.NewReader(body))
}

// addTree copies the host's file, link or tree at src to name.
func (a *archive) addTree(name, src string) error {
	err := walkTree(src, name, a.addOne)
	return errors.Join(err, a.err)
}

func (a *archive) addOne(name, src string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		a.addEntry(name, cpioDir|uint32(mode.Perm()), 0, 0, 0, nil)
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		a.addLink(name, target)
	case mode.IsRegular():
		f, err := os.Open(src)
		if err != nil {
			return err
		}
		defer f.Close()
		a.addEntry(name, cpioFile|uint32(mode.Perm()), 0, 0, info.Size(), f)
	}
	return a.err // sockets and devices of the host have no place in a guest
}

// writeTrailer writes the trailer. It returns the first error of the archive.
func (a *archive) writeTrailer() error {
	a.writeRecord("TRAILER!!!", 0, 0, 0, 0, nil)
	return a.err
}
