package lab

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
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

// fillNode adds what finds a node's root, and who the node is.
func (n *node) fillNode(a *archive) error {
	img := n.conf.image()
	if err := addInit(a, img, "node-init"); err != nil {
		return err
	}
	list, err := os.ReadFile(img.part("boot-modules"))
	if err != nil {
		return err
	}
	kernel, err := os.ReadFile(img.part("kernel"))
	if err != nil {
		return err
	}
	a.text("boot-modules", string(list), 0o644)
	for _, module := range strings.Fields(string(list)) {
		if err := a.add("modules/"+module, img.part("modules/"+strings.TrimSpace(string(kernel))+"/"+module)); err != nil {
			return err
		}
	}
	a.dir("sysroot")
	a.text("node.env", fmt.Sprintf("address=%s/%d\ngateway=%s\n", n.seen.Address, mgmtPrefix.Bits(), mgmtGateway), 0o644)
	var hosts strings.Builder
	fmt.Fprintf(&hosts, "127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
	for i, name := range n.conf.Nodes {
		fmt.Fprintf(&hosts, "%s %s\n", nodeAddr(i+1), name)
	}
	id := sha256.Sum256([]byte("culvert lab " + n.seen.Name)) // the same in each lab: a snapshot serves many
	a.text("node/etc/hosts", hosts.String(), 0o644)
	a.text("node/etc/resolv.conf", "# The lab has no name server: queries are refused at once.\nnameserver 127.0.0.1\n", 0o644)
	a.text("node/etc/hostname", n.seen.Name+"\n", 0o644)
	a.text("node/etc/machine-id", hex.EncodeToString(id[:16])+"\n", 0o444)
	a.text("node/etc/ssh/ssh_host_ed25519_key", string(n.host.private), 0o600)
	a.text("node/etc/ssh/ssh_host_ed25519_key.pub", string(n.host.public), 0o644)
	a.entry("node/root", cpioDir|0o700, 0, 0, 0, nil)
	a.entry("node/root/.ssh", cpioDir|0o700, 0, 0, 0, nil)
	a.text("node/root/.ssh/authorized_keys", string(n.login.public), 0o600)
	return nil
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
