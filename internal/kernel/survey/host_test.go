package survey

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rootOf returns a root with files of the given texts.
func rootOf(t *testing.T, files map[string]string) Root {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Root(root)
}

// The models that vfio-pci binds to are named in files of modprobe.d and in the kernel's arguments.
// Each has the form that vf.NIC has, whatever form it was written in (vfio_pci_fill_ids).
func TestVFIOIDs(t *testing.T) {
	const cmdline = "quiet vfio-pci.ids=8086:10CA,10de:1b80:ffff:ffff vfio_pci.ids=15b3:1018 " +
		"vfio-pci.disable_vga=1 vfio.ids=1:1 ids=2:2 vfio-pci.ids=8086\n"
	const options = "options vfio-pci disable_idle_d3=1 ids=8086:154c,8086:ca"
	const file = "/etc/modprobe.d/vfio.conf: " + options
	root := rootOf(t, map[string]string{
		"proc/cmdline":             cmdline,
		"etc/modprobe.d/vfio.conf": options + "\n",
		"usr/lib/modprobe.d/more.conf": "# ids=3:3\n  options   vfio_pci ids=\"8086:1889,\" \n" +
			"options igb ids=4:4\n",
		"etc/modprobe.d/old.bak":    "options vfio-pci ids=5:5\n",
		"etc/modprobe.d/short.conf": "options vfio-pci\noptions\nalias vfio-pci ids=6:6\n",
	})
	const both = "the kernel's argument vfio-pci.ids=8086:10CA,10de:1b80:ffff:ffff"
	want := map[string]string{
		"8086:10ca": both, "10de:1b80": both,
		"15b3:1018": "the kernel's argument vfio_pci.ids=15b3:1018",
		"8086:154c": file, "8086:00ca": file,
		"8086:1889": "/usr/lib/modprobe.d/more.conf: options vfio_pci ids=\"8086:1889,\"",
	}
	h := Read(root)
	if diff := cmp.Diff(want, h.Modules.VFIOIDs); diff != "" || len(h.Errs) > 0 {
		t.Errorf("%v -want +got:\n%s", h.Errs, diff)
	}
}

// A file of modprobe.d hides the files of its name in less important folders (modprobe.d(5)). The
// modules of the running kernel alone count as available, and those that are built in count too.
func TestModulesOfAHost(t *testing.T) {
	root := rootOf(t, map[string]string{
		"proc/sys/kernel/osrelease":  "6.12.9-amd64\n",
		"sys/module/vfio_pci/refcnt": "0\n",
		"lib/modules/6.12.9-amd64/modules.dep": "kernel/drivers/net/igbvf.ko.xz:\n" +
			"kernel/fs/overlay.ko:\n",
		"usr/lib/modules/6.12.9-amd64/modules.builtin": "kernel/drivers/iommu/iommufd.ko\n" +
			"kernel/fs/overlay.ko\n",
		"lib/modules/6.1.0/modules.dep": "kernel/drivers/net/iavf.ko:\n",
		"etc/modprobe.d/net.conf":       "blacklist igbvf\n",
		"usr/lib/modprobe.d/net.conf":   "blacklist iavf\n",
		"lib/modprobe.d/vfio.conf":      "install vfio-pci /bin/false\n",
	})
	want := Modules{
		Loaded: []string{"vfio_pci"}, Available: []string{"igbvf", "iommufd", "overlay"},
		Blocked: map[string]string{
			"igbvf":    "/etc/modprobe.d/net.conf: blacklist igbvf",
			"vfio_pci": "/lib/modprobe.d/vfio.conf: install vfio-pci /bin/false",
		},
		VFIOIDs: map[string]string{},
	}
	h := Read(root)
	if diff := cmp.Diff(want, h.Modules); diff != "" || len(h.Errs) > 0 {
		t.Errorf("%v -want +got:\n%s", h.Errs, diff)
	}
}

// A release that is no name of a folder leaves the available modules unknown.
func TestModulesOfAnOddRelease(t *testing.T) {
	m := Read(rootOf(t, map[string]string{
		"proc/sys/kernel/osrelease": "../6.1.0\n", "lib/6.1.0/modules.dep": "kernel/iavf.ko:\n",
	})).Modules
	if m.Available != nil || !m.Can("igbvf") {
		t.Errorf("available are %v", m.Available)
	}
}

// Read finds the programs that matter by their names, with the user and the limits of each. It
// lists them by process number, not by the text of the number.
func TestProcessesOfAHost(t *testing.T) {
	const limits = "Max open files            1024                 524288               files\n" +
		"Max locked memory         unlimited            unlimited            bytes\n"
	root := rootOf(t, map[string]string{
		"proc/1000/comm": "kubelet\n", "proc/1000/limits": limits,
		"proc/1000/status": "Name:\tkubelet\nUid:\t1\t0\t2\t3\nGid:\t7\t7\t7\t7\n",
		"proc/999/comm":    "culvertd\n",
		"proc/7/comm":      "bash\n", "proc/self/comm": "kubelet\n",
		"proc/swaps": "Filename Type\n",
	})
	want := []Process{
		{PID: 999, Name: "culvertd", UID: -1, Limits: Limits{OpenFiles: -1, LockedMemory: -1}},
		{PID: 1000, Name: "kubelet", Limits: Limits{OpenFiles: 1024, LockedMemory: Unlimited}},
	}
	h := Read(root)
	if diff := cmp.Diff(want, h.Processes); diff != "" || len(h.Errs) > 0 {
		t.Errorf("%v -want +got:\n%s", h.Errs, diff)
	}
}

// Read takes the other values of a host from the files that the kernel has for them. A list of
// processors that cannot be read is an error that names its file.
func TestHostOfFiles(t *testing.T) {
	const pages = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	h := Read(rootOf(t, map[string]string{
		"proc/cpuinfo":                          "processor\t: 0\nvendor_id\t: GenuineIntel\n",
		"proc/swaps":                            "Filename\tType\n/dev/sda2 partition 1 0 -2\n",
		"proc/sys/net/ipv4/ip_forward":          "1\n",
		"sys/devices/system/cpu/online":         "0-3\n",
		"sys/devices/system/node/online":        "0-1\n",
		"sys/devices/system/node/node0/cpulist": "0,2\n",
		"sys/devices/system/node/node1/cpulist": "1,3-\n",
		"sys/firmware/acpi/tables/DMAR":         "",
		"sys/fs/selinux/enforce":                "1",
		"sys/kernel/iommu_groups/0/type":        "DMA\n",
		pages:                                   "512\n",
		"usr/bin/kubelet":                       "",
	}))
	for _, c := range []struct{ what, got, want any }{
		{"vendor of the CPU", h.CPUVendor, "GenuineIntel"},
		{"processors", h.CPUs, []int{0, 1, 2, 3}},
		{"processors of nodes", h.NodeCPUs[0], []int{0, 2}},
		{"swaps", h.Swaps, []string{"/dev/sda2"}},
		{"sysctls", h.Sysctls, map[string]string{IPForward: "1"}},
		{"ACPI tables", h.ACPITables, []string{"DMAR"}},
		{"SELinux", h.SELinux, "enforcing"},
		{"IOMMU groups", h.IOMMUGroups, 1},
		{"huge pages", h.HugePages, map[uint64]int{2 << 20: 512}},
		{"programs", h.Programs, []string{"/usr/bin/kubelet"}},
		{"errors", len(h.Errs), 1},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.what, diff)
		}
	}
	const file = "/sys/devices/system/node/node1/cpulist: "
	if len(h.Errs) != 1 || len(h.Errs[0]) <= len(file) || h.Errs[0][:len(file)] != file {
		t.Errorf("errors %q", h.Errs)
	}
	permissive := rootOf(t, map[string]string{"sys/fs/selinux/enforce": "0"})
	if got := Read(permissive).SELinux; got != "permissive" {
		t.Errorf("SELinux that does not enforce is %q", got)
	}
}

// R3: OpenStack shows in the vendor, the product or the tag of the machine.
func TestReadOpenStack(t *testing.T) {
	for file, want := range map[string]bool{"sys_vendor": true, "product_name": true, "chassis_asset_tag": true, "board_serial": false} {
		if got := Read(rootOf(t, map[string]string{"sys/class/dmi/id/" + file: "OpenStack Nova\n"})).OpenStack; got != want {
			t.Errorf("%s: %t", file, got)
		}
	}
}
