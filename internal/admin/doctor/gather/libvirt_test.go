package gather

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/admin/doctor"
)

// readLibvirt finds only programs, and no hook of another author that does not run Culvert's.
func TestReadLibvirt(t *testing.T) {
	root := t.TempDir()
	if got := readLibvirt(root); got.There {
		t.Error("libvirt is there without its folder")
	}
	const script = "#!/bin/sh\n"
	for name, is := range map[string]struct {
		mode os.FileMode
		text string
	}{
		"qemu": {0o755, script}, "qemu.d/culvert": {0o755, script}, "qemu.d/10-other": {0o755, "no script, of culvert-hook"}, "qemu.d/culvert-hook": {0o755, script},
		"network": {0o755, script + `exec /usr/local/libexec/culvert/culvert-hook "$@"`}, "qemu.d/20-both": {0o755, script + "$0.d/culvert"},
		"network.d/culvert": {0o644, script}, "lxc.d/culvert": {0o755, script},
	} {
		at := filepath.Join(root, doctor.HooksDir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(is.text), is.mode); err != nil {
			t.Fatal(err)
		}
	}
	// A program of Go shows the commit that it was built from.
	if err := os.MkdirAll(filepath.Join(root, doctor.HooksDir, "network.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Args[0], filepath.Join(root, doctor.HooksDir, "network.d/culvert-hook")); err != nil {
		t.Fatal(err)
	}
	build, err := buildinfo.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	want := doctor.Libvirt{There: true, Hooks: []doctor.Hook{
		{Event: "qemu", File: "/etc/libvirt/hooks/qemu.d/20-both", Script: true},
		{Event: "qemu", File: "/etc/libvirt/hooks/qemu.d/culvert"}, {Event: "qemu", File: "/etc/libvirt/hooks/qemu.d/culvert-hook"},
		{Event: "network", File: "/etc/libvirt/hooks/network", Script: true},
		{Event: "network", File: "/etc/libvirt/hooks/network.d/culvert-hook", Build: Revision(build)},
	}}
	if diff := cmp.Diff(want, readLibvirt(root)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
