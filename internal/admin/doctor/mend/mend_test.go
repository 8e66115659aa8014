package mend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/api"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestApply: Apply makes each repair, reads it back, and returns the command that undoes it. A
// failed repair does not stop the others.
func TestApply(t *testing.T) {
	root := t.TempDir()
	forward := filepath.Join(root, "proc/sys/net/ipv4/ip_forward")
	write(t, forward, "0\n")
	h := Host{Root: root, Load: func(_ context.Context, name string) error {
		switch name {
		case "vfio-pci":
			write(t, filepath.Join(root, "sys/module/vfio_pci/refcnt"), "0\n")
		case "broken":
			return errors.New("modprobe broken: exit status 1")
		}
		return nil
	}}
	got := h.Apply(t.Context(), []doctor.Change{
		{Module: "vfio-pci"}, {Module: "broken"}, {Module: "silent"},
		{Key: "net.ipv4.ip_forward", Value: "1"}, {Key: "net.bridge.bridge-nf-call-iptables", Value: "1"},
	})
	for i := range got {
		if !got[i].Done {
			got[i].Error = got[i].Error[:20] // the rest names the temporary folder
		}
	}
	want := []api.Repair{
		{What: "load module vfio-pci", Done: true, Found: "loaded, and /etc/modules-load.d/90-culvert-vfio-pci.conf loads it at boot", Undo: "rm /etc/modules-load.d/90-culvert-vfio-pci.conf && modprobe -r vfio-pci"},
		{What: "load module broken", Error: "modprobe broken: exi"},
		{What: "load module silent", Error: "modprobe silent succ"},
		{
			What: "set net.ipv4.ip_forward to 1", Done: true, Found: "it reads 1 (it was 0), and /etc/sysctl.d/90-culvert-net.ipv4.ip_forward.conf sets it at boot",
			Undo: "rm /etc/sysctl.d/90-culvert-net.ipv4.ip_forward.conf && sysctl -w net.ipv4.ip_forward=0",
		},
		{What: "set net.bridge.bridge-nf-call-iptables to 1", Error: "read net.bridge.brid"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("repairs (-want +got):\n%s", diff)
	}
	files := map[string]string{}
	for _, dir := range []string{"etc/modules-load.d", "etc/sysctl.d"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(root, dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			files[e.Name()] = string(text)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"90-culvert-vfio-pci.conf":            "# culvert doctor --fix\nvfio-pci\n",
		"90-culvert-net.ipv4.ip_forward.conf": "# culvert doctor --fix; it was 0\nnet.ipv4.ip_forward = 1\n",
	}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestChanges: a repair that two findings name is made once. Findings without a safe repair add
// none.
func TestChanges(t *testing.T) {
	overlay := &doctor.Change{Module: "overlay"}
	got := Changes([]doctor.Finding{{}, {Change: overlay}, {Change: &doctor.Change{Module: "overlay"}}, {Change: &doctor.Change{Key: "a", Value: "1"}}})
	if diff := cmp.Diff([]doctor.Change{{Module: "overlay"}, {Key: "a", Value: "1"}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
