package survey

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// ReadDevice reads a function's interrupts and queues, the bus of its last possible VF, and the
// last bus that the bridge above it reaches.
func TestDevice(t *testing.T) {
	root, addr := t.TempDir(), vf.PCIAddr{Bus: 1}
	bridge := filepath.Join(root, "sys/devices/pci0000:00/0000:00:02.0")
	dir := filepath.Join(bridge, addr.String())
	for name, text := range map[string]string{
		"../subordinate_bus_number": "1\n", "iommu_group/type": "DMA\n", "resource": "0x1 0x2 0x40200\n",
		"msi_irqs/30": "", "msi_irqs/9": "", "net/eth0/queues/rx-0/x": "", "net/eth0/queues/rx-1/x": "", "net/eth0/queues/tx-0/x": "",
		"sriov_totalvfs": "7\n", "sriov_offset": "384\n", "sriov_stride": "2\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := filepath.Join(root, "sys/bus/pci/devices")
	if err := os.MkdirAll(all, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(all, addr.String())); err != nil {
		t.Fatal(err)
	}
	want := Device{GroupType: "DMA", IRQs: []int{9, 30}, RxQueues: 2, TxQueues: 1, LastBus: 2, BusEnd: 1}
	if diff := cmp.Diff(want, ReadDevice(Root(root), addr)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A module that cannot be loaded is named in the error.
func TestLoadModuleSaysWhich(t *testing.T) {
	if err := LoadModule(t.Context(), "culvert-has-no-such-module"); err == nil {
		t.Error("a module that does not exist was loaded")
	}
}
