package bpf

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPinned loads a program, attaches it, and pins its objects. It makes no network namespace, so
// that test/kubernetes can run it with culvertd's rights on a node.
func TestPinned(t *testing.T) {
	const root = "/sys/fs/bpf"
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil || fs.Type != unix.BPF_FS_MAGIC || os.Getuid() != 0 {
		t.Skip("needs root and a file system of eBPF at " + root)
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	i, err := AttachIngress(lo.Index, counting(Next))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}()
	dir := filepath.Join(root, fmt.Sprintf("culvert-test-%d", os.Getpid())) // pins go nowhere else
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	for name, pin := range map[string]func(string) error{"counter": i.counter.Pin, "link": i.link.Pin} {
		path := filepath.Join(dir, name)
		if err := pin(path); err != nil {
			t.Errorf("pin the %s: %v", name, err)
		}
		defer os.Remove(path)
	}
}
