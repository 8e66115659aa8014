package evidence

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
)

func TestPlatform(t *testing.T) {
	r := Reader{Root: t.TempDir()}
	for name, text := range map[string]string{
		"proc/cmdline":                                        "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro console=ttyS0 mitigations=off iommu=pt\n",
		"sys/devices/system/cpu/smt/control":                  "on\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state0/name":     "POLL\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state1/name":     "C1\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state2/name":     "C6\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state2/disable":  "1\n",
		"sys/devices/system/cpu/intel_pstate/no_turbo":        "0\n",
		"sys/class/iommu/dmar0/x":                             "",
		"sys/module/cxgb4/taint":                              "OE\n",
		"sys/module/igb/taint":                                "\n",
		"sys/class/net/net1/queues/rx-0/rps_cpus":             "00,00000000\n",
		"sys/class/net/net1/queues/rx-1/rps_cpus":             "3\n",
		"sys/class/net/net1/queues/tx-0/xps_cpus":             "1\n",
		"sys/bus/pci/devices/0000:01:00.0/current_link_speed": "8.0 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:01:00.0/current_link_width": "8\n",
		"sys/bus/pci/devices/0000:01:10.0/current_link_width": "0\n",
	} {
		if err := os.MkdirAll(filepath.Dir(r.pathOf(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.pathOf(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../0000:01:00.0", r.pathOf("sys/bus/pci/devices/0000:01:10.0/physfn")); err != nil {
		t.Fatal(err)
	}
	want := []bench.Setting{
		{Name: "kernel command line", Value: "mitigations=off iommu=pt"}, {Name: "SMT", Value: "on"}, {Name: "idle states", Value: "POLL C1"},
		{Name: "turbo off (intel_pstate)", Value: "0"}, {Name: "IOMMU", Value: "dmar0"}, {Name: "drivers out of the kernel's tree", Value: "cxgb4"},
	}
	if diff := cmp.Diff(want, r.readPlatform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]bench.Setting{{Name: "rx-1 rps_cpus", Value: "3"}, {Name: "tx-0 xps_cpus", Value: "1"}}, r.readSteering("net1")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, pci := range []string{"0000:01:00.0", "0000:01:10.0"} {
		if got := r.readBus(pci); got != "8.0 GT/s PCIe x8" {
			t.Errorf("%s: %q", pci, got)
		}
	}
}
