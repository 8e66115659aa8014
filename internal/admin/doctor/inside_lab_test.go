//go:build lab

package doctor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/culvert-net/culvert/internal/admin/doctor"
)

// TestInsideScript asks a lab node as if it were a guest: busybox's shell, a VF with its driver, and the
// interrupts of a real kernel.
func TestInsideScript(t *testing.T) {
	culvert := os.Getenv("CULVERT")
	if culvert == "" {
		t.Fatal("CULVERT is not set: make build && CULVERT=$PWD/build/bin/culvert go test -tags lab ./internal/admin/doctor")
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte(doctor.InsideScript), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), culvert, "lab", "fast", "--quiet", "--file", script+":/script", "--", "sh", "-c", `
		modprobe igbvf && echo 1 >/sys/class/net/eth0/device/sriov_numvfs
		until vf=$(ls /sys/bus/pci/devices/0000:01:10.0/net) && [ -n "$vf" ]; do usleep 100000; done
		ip link set "$vf" up && exec busybox sh /script`)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	in := doctor.ParseInside(string(out))
	at := slices.IndexFunc(in.Interfaces, func(i doctor.InsideInterface) bool { return i.Driver == "igbvf" })
	if in.Err != "" || in.Kernel != "Linux" || len(in.CPUs) != 1 || at < 0 {
		t.Fatalf("%+v from\n%s", in, out)
	}
	if vf := in.Interfaces[at]; vf.MTU != 1500 || vf.RxQueues != 1 || vf.MAC.IsZero() || len(vf.IRQs) == 0 || !slices.Equal(vf.IRQs[0], []int{0}) {
		t.Errorf("%+v from\n%s", vf, out)
	}
}
