package kernel

import (
	"os"
	"path/filepath"
	"testing"
)

// The root of a PCI function stands in the link of its address, behind any number of bridges.
func TestPCIeRoot(t *testing.T) {
	sys, addr := tree{t.TempDir()}, pciAddr(t, "3b:00.1")
	path := sys.pciPath(addr)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := sys.readPCIeRoot(addr); got != "" {
		t.Errorf("a function that is not there has the root %q", got)
	}
	for to, want := range map[string]string{
		"../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1":              "pci0000:3a",
		"../../../devices/pci0000:00/0000:3b:00.1":                           "pci0000:00",
		"../../../devices/pci0001:80/0001:80:01.0/0001:81:00.0/0000:3b:00.1": "pci0001:80",
		"/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1":                  "pci0000:3a",
		"../../../devices/LNXSYSTM:00/VMBUS:00/pci0002:00/0000:3b:00.1":      "",
		"../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0":              "",
		"0000:3b:00.1": "",
	} {
		_ = os.Remove(path)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		if got := sys.readPCIeRoot(addr); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}
