//go:build lab

package kernel_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// P11: a process that has a VF open with the arguments of a guest of qm is named by that guest. A
// shell stands for QEMU, which has no argument -id outside of Proxmox VE.
func TestLabGuestOfProxmox(t *testing.T) {
	n := labNode(t)
	v := n.bound(0, 2)
	n.do(step.Unbind{VF: v.PCI}, step.Bind{VF: v.PCI, Driver: vf.DriverVFIO})
	group, err := os.Readlink(filepath.Join("/sys/bus/pci/devices", v.PCI.String(), "iommu_group"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `exec 3<>"/dev/vfio/$1"; echo open; read -r end`, "kvm", filepath.Base(group),
		"-id", "100", "-name", "web,debug-threads=on", "-no-shutdown")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	uses, err := n.Uses(n.context(), v.PCI)
	want := fmt.Sprintf("vm 100 web (%s, process %d)", uses[v.PCI].By.Name, cmd.Process.Pid)
	if got := uses[v.PCI].String(); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the shell ends with the status of read
	if uses, err := n.Uses(n.context(), v.PCI); err != nil || len(uses) > 0 {
		t.Errorf("the process has ended: %v %v", uses, err)
	}
	n.do(step.Unbind{VF: v.PCI}, step.Bind{VF: v.PCI})
}
