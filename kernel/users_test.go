package kernel

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

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
