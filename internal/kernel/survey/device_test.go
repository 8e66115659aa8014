package survey

import (
	"os"
	"path/filepath"
	"strings"
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

// The memory of VFs has a size and no place if the firmware did not assign it (linux/pci.h,
// PCI_IOV_RESOURCES). The lines before and after it are of other memory.
func TestNoMemory(t *testing.T) {
	const none, missing = "0x0 0x0 0x0\n", "0x0 0x3fff 0x14220c\n"
	const assigned = "0xf0000000 0xf0003fff 0x14220c\n"
	lines := func(n int, line string) string { return strings.Repeat(line, n) }
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"assigned", lines(7, none) + lines(6, assigned), false},
		{"VFs without memory", lines(7, none) + lines(6, none), false},
		{"the first not assigned", lines(7, none) + missing + lines(5, none), true},
		{"the last not assigned", lines(7, none) + lines(5, assigned) + missing, true},
		{"the ROM not assigned", lines(6, none) + missing + lines(6, assigned), false},
		{"a bridge's window not assigned", lines(13, none) + missing, false},
		{"another format", lines(7, none) + "0x0 0x3fff\n" + "zero 0x3fff 0x1\n", false},
		{"no file", "", false},
	} {
		if got := noMemory([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
