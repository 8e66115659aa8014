package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// writeInitramfs writes the initramfs that fill fills to the file name.
func writeInitramfs(name string, fill func(*archive) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(fillInitramfs(f, fill), f.Close())
}

func fillInitramfs(f io.Writer, fill func(*archive) error) error {
	return fillArchive(f, func(a *archive) error {
		a.char("dev/console", 0o600, 5, 1)
		a.char("dev/null", 0o666, 1, 3)
		for _, dir := range []string{"proc", "sys", "run", "tmp", "root", "var/run", "etc"} {
			a.dir(dir)
		}
		return fill(a)
	})
}

// fillArchive writes the archive that fill fills.
func fillArchive(f io.Writer, fill func(*archive) error) error {
	w := bufio.NewWriterSize(f, 1<<20)
	a := newArchive(w)
	if err := fill(a); err != nil {
		return err
	}
	return errors.Join(a.close(), w.Flush())
}

// initramfsCode returns what, besides the image, decides what is in an initramfs: an init script
// of boot/ and this file.
func initramfsCode(init string) (string, error) {
	script, err := bootFiles.ReadFile("boot/" + init)
	if err != nil {
		return "", err
	}
	self, err := bootFiles.ReadFile("initramfs.go")
	return string(script) + string(self), err
}

// addInit puts busybox and the init script boot/<name> in.
func addInit(a *archive, img image, name string) error {
	script, err := bootFiles.ReadFile("boot/" + name)
	if err != nil {
		return err
	}
	a.text("init", string(script), 0o755)
	return a.add("bin/busybox", img.part("busybox"))
}

// fillCommand adds what differs from one fast node to the next: the command and the caller's files.
func fillCommand(a *archive, o FastOptions) error {
	for _, dest := range slices.Sorted(maps.Keys(o.Files)) {
		if err := a.add(dest, o.Files[dest]); err != nil {
			return fmt.Errorf("copy %s to %s of the fast node: %w", o.Files[dest], dest, err)
		}
	}
	a.dir(o.Dir)
	a.text("command", "exec "+quoteArgs(o.Argv)+"\n", 0o644)
	a.text("command.env", commandEnv(o), 0o644)
	return a.err
}

// fillFast adds what all fast nodes have: tools and modules.
func fillFast(a *archive, img image) error {
	if err := addInit(a, img, "fast-init"); err != nil {
		return err
	}
	a.text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0o644)
	a.text("etc/group", "root:x:0:\n", 0o644)
	a.text("etc/hosts", "127.0.0.1 localhost fast\n::1 localhost\n", 0o644)
	for _, link := range []string{"modprobe", "insmod", "rmmod", "depmod", "modinfo", "lsmod"} {
		a.link("usr/sbin/"+link, "../bin/kmod")
	}
	a.link("sbin/modprobe", "../usr/bin/kmod") // what the kernel calls
	a.link("bin/sh", "../usr/bin/dash")        // busybox's shell prefers its own ip, which knows no VFs
	if err := a.add("", img.part("tools")); err != nil {
		return err
	}
	return a.add("lib/modules", img.part("modules"))
}

func commandEnv(o FastOptions) string {
	var b strings.Builder
	for _, kv := range o.Env {
		if key, value, ok := strings.Cut(kv, "="); ok {
			fmt.Fprintf(&b, "export %s=%s\n", key, quote(value))
		}
	}
	fmt.Fprintf(&b, "lab_dir=%s\n", quote(path.Clean("/"+o.Dir)))
	return b.String()
}

// quote makes s one word of sh(1).
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quoteArgs(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = quote(arg)
	}
	return strings.Join(words, " ")
}

// copyOut copies what a guest writes, and says so only if the copy failed on
// our side.
func copyOut(w io.Writer, r io.Reader) error {
	if w == nil {
		w = io.Discard
	}
	_, err := io.Copy(w, r)
	return err
}
