package kernel

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// Users finds an open VF by the file of its group and by its own file, in every process that has
// one of them open. It passes over processes without files, and entries of /proc that are no
// processes.
func TestUsers(t *testing.T) {
	sys, proc := treeOf(t, "host.txtar"), t.TempDir()
	k := New(Options{SysRoot: sys.root, ProcRoot: proc})
	grouped, own, none := pciAddr(t, "01:10.2"), pciAddr(t, "05:00.2"), pciAddr(t, "02:00.0")
	bindVFIO(t, sys, grouped, "77")
	put(t, sys.pciPath(own, "vfio-dev/vfio3/dev"), "511:3")
	links(t, proc, map[string]string{
		"100/fd/0": "/dev/null", "100/fd/7": "/dev/vfio/77", "100/fd/8": "/dev/vfio/77", "100/fd/9": "/dev/vfio/vfio",
		"200/fd/1": "/dev/vfio/devices/vfio3", "300/fd/1": "/dev/vfio/7", "self/fd/1": "/dev/vfio/77", "400/fd/1": "/dev/vfio/noiommu-77",
	})
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

// bindVFIO binds a VF to vfio-pci, in an IOMMU group.
func bindVFIO(t *testing.T, sys tree, addr vf.PCIAddr, group string) {
	t.Helper()
	put(t, sys.pciPath(addr, "driver"), "-> ../../drivers/vfio-pci")
	put(t, sys.pciPath(addr, "iommu_group"), "-> ../../../../kernel/iommu_groups/"+group)
}

// links makes the open files of processes as links from PID/fd/N to their targets.
func links(t *testing.T, proc string, fds map[string]string) {
	t.Helper()
	for name, to := range fds {
		put(t, filepath.Join(proc, name), "-> "+to)
	}
}

// Users finds an open VF under any name of its file, and without a name: by its device number, by
// the name of a removed file, and by the anonymous inode that the kernel describes. VFs of one
// group share their users.
func TestUsersByDeviceNumber(t *testing.T) {
	sys, proc := treeOf(t, "host.txtar"), t.TempDir()
	k := New(Options{SysRoot: sys.root, ProcRoot: proc})
	grouped, same, own := pciAddr(t, "01:10.2"), pciAddr(t, "01:10.4"), pciAddr(t, "05:00.2")
	for _, addr := range []vf.PCIAddr{grouped, same} {
		bindVFIO(t, sys, addr, "77")
	}
	put(t, filepath.Join(sys.root, "class/vfio/77/dev"), "1:7\n") // that of /dev/full
	put(t, sys.pciPath(own, "vfio-dev/vfio3/dev"), "1:5\n")       // that of /dev/zero
	links(t, proc, map[string]string{
		"100/fd/3": "/dev/full", "200/fd/4": "/dev/zero", "300/fd/5": "/dev/null",
		"400/fd/6": "/dev/vfio/77 (deleted)", "500/fd/7": "anon_inode:[vfio-device]", "600/fd/8": "anon_inode:[vfio-device]",
		"700/fd/9": "anon_inode:[vfio-device]", "800/fd/1": "anon_inode:[eventpoll]",
	})
	const described = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1050\nvfio-device-syspath: /sys/devices/"
	put(t, filepath.Join(proc, "500/fdinfo/7"), described+"pci0000:00/0000:00:02.0/0000:01:10.2\n")
	put(t, filepath.Join(proc, "600/fdinfo/8"), described+"pci0000:00/0000:00:02.0/0000:09:00.0\n") // not asked for
	put(t, filepath.Join(proc, "700/fdinfo/9"), described+"virtual/mtty/mtty/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001\n")
	got, err := k.Users(t.Context(), grouped, same, own)
	want := map[vf.PCIAddr][]vf.Process{
		grouped: {{PID: 100}, {PID: 400}, {PID: 500}}, same: {{PID: 100}, {PID: 400}}, own: {{PID: 200}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
}

// If the kernel does not report which VF an anonymous inode belongs to, its process counts as a
// user of several VFs: of each that the kernel has open and whose process is unknown.
func TestUsersOfUnidentifiedDevice(t *testing.T) {
	for enabled, users := range map[string][]vf.Process{"1\n": {{PID: 100}, {PID: 200}}, "0\n": nil, "": {{PID: 100}, {PID: 200}}} {
		sys, proc := treeOf(t, "host.txtar"), t.TempDir()
		k := New(Options{SysRoot: sys.root, ProcRoot: proc})
		passed, known, host := pciAddr(t, "05:00.2"), pciAddr(t, "01:10.2"), pciAddr(t, "01:10.0")
		put(t, sys.pciPath(known, "vfio-dev/vfio4/dev"), "1:5\n")
		for _, addr := range []vf.PCIAddr{known, host} { // host is bound to igbvf, which enables it, too
			put(t, sys.pciPath(addr, "enable"), "1\n")
		}
		if enabled != "" {
			put(t, sys.pciPath(passed, "enable"), enabled)
		}
		links(t, proc, map[string]string{"100/fd/3": "anon_inode:[vfio-device]", "200/fd/4": "anon_inode:[vfio-device]", "300/fd/5": "/dev/zero"})
		put(t, filepath.Join(proc, "100/fdinfo/3"), "pos:\t0\nflags:\t02000002\n")
		got, err := k.Users(t.Context(), passed, known, host)
		want := map[vf.PCIAddr][]vf.Process{known: {{PID: 300}}}
		if users != nil {
			want[passed] = users
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("enabled %q: %v -want +got:\n%s", enabled, err, diff)
		}
	}
}

// Users finds a real device node under another name in a real process, also after the node was
// removed.
func TestUsersOfRealNode(t *testing.T) {
	node := filepath.Join(t.TempDir(), "vf0")
	if err := unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 7))); err != nil {
		t.Skipf("it makes a device node, which takes root: %v", err)
	}
	open, err := os.Open(node)
	if err != nil {
		t.Skipf("device nodes cannot be opened on this file system: %v", err)
	}
	defer open.Close()
	sys := treeOf(t, "host.txtar")
	addr := pciAddr(t, "01:10.2")
	bindVFIO(t, sys, addr, "77")
	put(t, filepath.Join(sys.root, "class/vfio/77/dev"), "1:7\n")
	k := New(Options{SysRoot: sys.root})
	isUser := func() bool {
		t.Helper()
		got, err := k.Users(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(got[addr], func(p vf.Process) bool { return p.PID == os.Getpid() })
	}
	if !isUser() {
		t.Error("a node under another name")
	}
	if err := os.Remove(node); err != nil {
		t.Fatal(err)
	}
	if !isUser() {
		t.Error("a node that was removed")
	}
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	if isUser() {
		t.Error("a node that was closed")
	}
}

// A process whose files the reader may not list is passed over without an error; other processes
// are reported.
func TestUsersThatMayNotBeSeen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it gives up root's rights, which takes root")
	}
	proc := t.TempDir()
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
	for pid, want := range map[string]map[string]bool{"100": {"/dev/vfio/77": true}, "200": {}} {
		got, err := k.readOpened(pid)
		if diff := cmp.Diff(want, got.names); diff != "" || err != nil {
			t.Errorf("process %s: %v -want +got:\n%s", pid, err, diff)
		}
	}
}

// I3, I7: the search through the processes takes too long. Then a VF that the kernel has enabled
// counts as open, one that it has not enabled as closed, and of others Users says that it could not
// look. One caller's leaving does not end the search of another.
func TestI7SlowSearchThroughProcesses(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	k := New(Options{SysRoot: sys.root, ProcRoot: t.TempDir()})
	closed, open, unknown := pciAddr(t, "01:10.2"), pciAddr(t, "01:10.6"), pciAddr(t, "01:10.4")
	for addr, enabled := range map[vf.PCIAddr]string{closed: "0\n", open: "1\n", unknown: ""} {
		bindVFIO(t, sys, addr, "77")
		if enabled != "" {
			put(t, sys.pciPath(addr, "enable"), enabled)
		}
	}
	release, begun := make(chan struct{}), make(chan struct{}, 9)
	find := func() ([]opener, error) {
		begun <- struct{}{}
		<-release
		return []opener{{process: vf.Process{PID: 100}, devices: map[vf.PCIAddr]bool{open: true}}}, nil
	}
	busy := k.searches.join(find)
	<-begun
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if got, err := k.Users(ctx, closed, open); err != nil || cmp.Diff(map[vf.PCIAddr][]vf.Process{open: {{}}}, got) != "" {
		t.Errorf("an open VF: %v %v", got, err)
	}
	if got, err := k.Users(ctx, unknown); !errors.Is(err, vf.ErrTimeout) {
		t.Errorf("a VF of which sysfs says nothing: %v %v", got, err)
	}
	patient := k.searches.join(find)
	close(release)
	<-busy.ended
	<-patient.ended
	if len(begun) != 1 || len(patient.openers) != 1 {
		t.Errorf("%d more searches for three callers, found %v", len(begun), patient.openers)
	}
}

// The file of an IOMMU group opens all functions of the group. So a process that has the file of a
// VF without a vfio driver is its user, unless the VF is alone in the group.
func TestUsersOfAGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		members []string
		driver  string
		isUser  bool
	}{
		"shared, without a driver":     {[]string{"0000:01:10.4", "0000:01:10.6"}, "", true},
		"shared, with its own driver":  {[]string{"0000:01:10.4", "0000:01:10.6"}, "igbvf", true},
		"alone, without a driver":      {[]string{"0000:01:10.4"}, "", false},
		"alone, with its own driver":   {[]string{"0000:01:10.4"}, "igbvf", false},
		"alone, with a driver of vfio": {[]string{"0000:01:10.4"}, "vfio-pci", true},
	} {
		sys, proc := treeOf(t, "host.txtar"), t.TempDir()
		k, addr := New(Options{SysRoot: sys.root, ProcRoot: proc}), pciAddr(t, "01:10.4")
		put(t, sys.pciPath(addr, "iommu_group"), "-> ../../../../kernel/iommu_groups/77")
		for _, m := range tt.members {
			put(t, filepath.Join(sys.root, "kernel/iommu_groups/77/devices", m), "")
		}
		if tt.driver != "" {
			put(t, sys.pciPath(addr, "driver"), "-> ../../drivers/"+tt.driver)
		}
		links(t, proc, map[string]string{"100/fd/7": "/dev/vfio/77"})
		got, err := k.Users(t.Context(), addr)
		isUser := len(got[addr]) == 1 && got[addr][0].PID == 100
		if isUser != tt.isUser || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// I3: a VF whose files cannot be read is not reported as closed. A file in place of a link stands
// for a link that cannot be read (EINVAL).
func TestI3UnreadVFIsNotClosed(t *testing.T) {
	addr := pciAddr(t, "01:10.2")
	for _, name := range []string{"iommu_group", "driver", "vfio-dev"} {
		sys := treeOf(t, "host.txtar")
		put(t, sys.pciPath(addr, name), "")
		k := New(Options{SysRoot: sys.root, ProcRoot: t.TempDir()})
		got, err := k.Users(t.Context(), addr)
		if err == nil || len(got) > 0 || !strings.Contains(err.Error(), "look who has VFs open: ") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
