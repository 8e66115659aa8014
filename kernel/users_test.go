package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/vf"
)

// A VF is found open by its group's file and by its own, in every process that has
// it; processes without files, and what is no process, are passed over.
func TestUsers(t *testing.T) {
	sys, proc := treeOf(t, "host.txtar"), t.TempDir()
	k := New(Options{SysRoot: sys.root, ProcRoot: proc})
	grouped, own, none := pciAddr(t, "01:10.2"), pciAddr(t, "05:00.2"), pciAddr(t, "02:00.0")
	put(t, sys.pci(grouped, "iommu_group"), "-> ../../../../kernel/iommu_groups/77")
	put(t, sys.pci(own, "vfio-dev/vfio3/dev"), "511:3")
	for name, to := range map[string]string{
		"100/fd/0": "/dev/null", "100/fd/7": "/dev/vfio/77", "100/fd/8": "/dev/vfio/77", "100/fd/9": "/dev/vfio/vfio",
		"200/fd/1": "/dev/vfio/devices/vfio3", "300/fd/1": "/dev/vfio/7", "self/fd/1": "/dev/vfio/77", "400/fd/1": "/dev/vfio/noiommu-77",
	} {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(proc, "100/comm"), "qemu-system-x86\n")
	put(t, filepath.Join(proc, "500/comm"), "kthreadd\n")
	got, err := k.Users(t.Context(), grouped, own, none)
	want := map[vf.PCIAddr][]vf.Process{
		grouped: {{PID: 100, Name: "qemu-system-x86"}, {PID: 400}}, own: {{PID: 200}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	if got, err := New(Options{SysRoot: sys.root, ProcRoot: filepath.Join(proc, "none")}).Users(t.Context(), none); err != nil || len(got) != 0 {
		t.Errorf("a VF that nobody can open: %v %v", got, err)
	}
}

// A process whose files may not be listed is passed over; the others are told.
func TestUsersThatMayNotBeSeen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it gives up root's rights, which takes root")
	}
	proc, addr := t.TempDir(), pciAddr(t, "01:10.2")
	k := New(Options{ProcRoot: proc})
	if err := os.Chmod(filepath.Dir(proc), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"100": 0o755, "200": 0o700} {
		dir := filepath.Join(proc, name, "fd")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("/dev/vfio/77", dir+"/3"), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nobody = 65534
	if err := unix.Setfsuid(nobody); err != nil { // and without root's capabilities for files
		t.Fatal(err)
	}
	defer func() { _ = unix.Setfsuid(0) }()
	for pid, want := range map[string]map[vf.PCIAddr]bool{"100": {addr: true}, "200": nil} {
		got, err := k.opens(pid, map[string]vf.PCIAddr{"/dev/vfio/77": addr})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("process %s: %v -want +got:\n%s", pid, err, diff)
		}
	}
}
