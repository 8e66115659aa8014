package gather

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/doctor"
)

// Only programs count, and of somebody else's nothing is told.
func TestReadLibvirt(t *testing.T) {
	root := t.TempDir()
	if got := readLibvirt(root); got.There {
		t.Error("libvirt is there without its folder")
	}
	for name, mode := range map[string]os.FileMode{
		"qemu": 0o755, "qemu.d/culvert": 0o755, "qemu.d/10-other": 0o755, "qemu.d/culvert-hook": 0o755,
		"network.d/culvert": 0o644, "lxc.d/culvert": 0o755,
	} {
		at := filepath.Join(root, doctor.HooksDir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	want := doctor.Libvirt{There: true, Hooks: []doctor.Hook{
		{Event: "qemu", File: "/etc/libvirt/hooks/qemu.d/culvert"}, {Event: "qemu", File: "/etc/libvirt/hooks/qemu.d/culvert-hook"},
	}}
	if diff := cmp.Diff(want, readLibvirt(root)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
