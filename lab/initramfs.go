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

// writeInitramfs writes an initramfs to the file name. fill adds its content.
func writeInitramfs(name string, fill func(*archive) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(fillInitramfs(f, fill), f.Close())
}

func fillInitramfs(f io.Writer, fill func(*archive) error) error {
	return fillArchive(f, func(a *archive) error {
		a.addCharDevice("dev/console", 0o600, 5, 1)
		a.addCharDevice("dev/null", 0o666, 1, 3)
		for _, dir := range []string{"proc", "sys", "run", "tmp", "root", "var/run", "etc"} {
			a.addDir(dir)
		}
		return fill(a)
	})
}

// fillArchive writes an archive. fill adds its content.
func fillArchive(f io.Writer, fill func(*archive) error) error {
	w := bufio.NewWriterSize(f, 1<<20)
	a := newArchive(w)
	if err := fill(a); err != nil {
		return err
	}
	return errors.Join(a.writeTrailer(), w.Flush())
}

// initramfsCode returns the code that determines an initramfs besides the image: an init script
// of boot/, and this file.
func initramfsCode(init string) (string, error) {
	script, err := bootFiles.ReadFile("boot/" + init)
	if err != nil {
		return "", err
	}
	self, err := bootFiles.ReadFile("initramfs.go")
	return string(script) + string(self), err
}

// addInit adds busybox and the init script boot/<name>.
func addInit(a *archive, img image, name string) error {
	script, err := bootFiles.ReadFile("boot/" + name)
	if err != nil {
		return err
	}
	a.addText("init", string(script), 0o755)
	return a.addTree("bin/busybox", img.partPath("busybox"))
}

// fillCommand adds the parts that differ between fast nodes: the command and the caller's files.
func fillCommand(a *archive, o FastOptions) error {
	for _, dest := range slices.Sorted(maps.Keys(o.Files)) {
		if err := a.addTree(dest, o.Files[dest]); err != nil {
			return fmt.Errorf("copy %s to %s of the fast node: %w", o.Files[dest], dest, err)
		}
	}
	a.addDir(o.Dir)
	a.addText("command", "exec "+quoteArgs(o.Argv)+"\n", 0o644)
	a.addText("command.env", commandEnv(o), 0o644)
	return a.err
}

// fillFast adds the parts that all fast nodes share: tools and modules.
func fillFast(a *archive, img image) error {
	if err := addInit(a, img, "fast-init"); err != nil {
		return err
	}
	a.addText("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0o644)
	a.addText("etc/group", "root:x:0:\n", 0o644)
	a.addText("etc/hosts", "127.0.0.1 localhost fast\n::1 localhost\n", 0o644)
	for _, link := range []string{"modprobe", "insmod", "rmmod", "depmod", "modinfo", "lsmod"} {
		a.addLink("usr/sbin/"+link, "../bin/kmod")
	}
	a.addLink("sbin/modprobe", "../usr/bin/kmod") // what the kernel calls
	a.addLink("bin/sh", "../usr/bin/dash")        // busybox's shell prefers its own ip, which knows no VFs
	if err := a.addTree("", img.partPath("tools")); err != nil {
		return err
	}
	return a.addTree("lib/modules", img.partPath("modules"))
}

// fillNode adds the init and the modules that mount a node's root, and the node's name, keys and
// addresses.
func (n *node) fillNode(a *archive) error {
	img := n.conf.labImage()
	if err := addInit(a, img, "node-init"); err != nil {
		return err
	}
	list, err := os.ReadFile(img.partPath("boot-modules"))
	if err != nil {
		return err
	}
	kernel, err := os.ReadFile(img.partPath("kernel"))
	if err != nil {
		return err
	}
	a.addText("boot-modules", string(list), 0o644)
	for _, module := range strings.Fields(string(list)) {
		if err := a.addTree("modules/"+module, img.partPath("modules/"+strings.TrimSpace(string(kernel))+"/"+module)); err != nil {
			return err
		}
	}
	a.addDir("sysroot")
	a.addText("node.env", fmt.Sprintf("address=%s/%d\ngateway=%s\n", n.seen.Address, mgmtPrefix.Bits(), mgmtGateway), 0o644)
	var hosts strings.Builder
	fmt.Fprintf(&hosts, "127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
	for i, name := range n.conf.Nodes {
		fmt.Fprintf(&hosts, "%s %s\n", nodeAddr(i+1), name)
	}
	id := sha256.Sum256([]byte("culvert lab " + n.seen.Name)) // the same in each lab: a snapshot serves many
	a.addText("node/etc/hosts", hosts.String(), 0o644)
	a.addText("node/etc/resolv.conf", "# The lab has no name server: queries are refused at once.\nnameserver 127.0.0.1\n", 0o644)
	a.addText("node/etc/hostname", n.seen.Name+"\n", 0o644)
	a.addText("node/etc/machine-id", hex.EncodeToString(id[:16])+"\n", 0o444)
	a.addText("node/etc/ssh/ssh_host_ed25519_key", string(n.host.private), 0o600)
	a.addText("node/etc/ssh/ssh_host_ed25519_key.pub", string(n.host.public), 0o644)
	a.addEntry("node/root", cpioDir|0o700, 0, 0, 0, nil)
	a.addEntry("node/root/.ssh", cpioDir|0o700, 0, 0, 0, nil)
	a.addText("node/root/.ssh/authorized_keys", string(n.login.public), 0o600)
	return nil
}

func commandEnv(o FastOptions) string {
	var b strings.Builder
	for _, kv := range o.Env {
		if key, value, ok := strings.Cut(kv, "="); ok {
			fmt.Fprintf(&b, "export %s=%s\n", key, quoteShell(value))
		}
	}
	fmt.Fprintf(&b, "lab_dir=%s\n", quoteShell(path.Clean("/"+o.Dir)))
	return b.String()
}

// quoteShell makes s one word of sh(1).
func quoteShell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quoteArgs(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = quoteShell(arg)
	}
	return strings.Join(words, " ")
}

// copyOut copies the output of a guest. It returns an error only if writing to w failed.
func copyOut(w io.Writer, r io.Reader) error {
	if w == nil {
		w = io.Discard
	}
	_, err := io.Copy(w, r)
	return err
}
