package kernel

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// The arguments of QEMU as qm of Proxmox VE, libvirt, KubeVirt and a person start it name the guest.
func TestParseGuest(t *testing.T) {
	for args, want := range map[string]string{
		"/usr/bin/kvm -id 100 -name web,debug-threads=on -no-shutdown -pidfile /var/run/qemu-server/100.pid": "100 web",
		"/usr/bin/kvm -id 101 -no-shutdown":                                 "101",
		"/usr/libexec/qemu-kvm -name guest=default_vmi,debug-threads=on -S": "default_vmi",
		"qemu-system-x86_64 --name debug-threads=on,guest=db1":              "db1",
		"qemu-system-x86_64 -name a,,b,process=x":                           "a,b",
		"qemu-system-x86_64 -name debug-threads=on":                         "",
		"qemu-system-x86_64 -device vfio-pci,host=01:10.0,id=100 -id x":     "",
		"dpdk-testpmd -l 0-3 -n 4":                                          "",
		"kvm -id":                                                           "",
		"":                                                                  "",
	} {
		if got := parseGuest(strings.Fields(args)); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	if got := parseGuest([]string{"kvm", "-name", "two\nlines\x1b[31m " + strings.Repeat("x", 1000)}); strings.ContainsAny(got, "\n\x1b") || len(got) > 400 {
		t.Errorf("a name that is no text for people: %q", got)
	}
}

// P11: a VF that a guest of qm has names the guest as its user.
func TestUsesOfGuestOfProxmox(t *testing.T) {
	sys, proc := treeOf(t, "host.txtar"), t.TempDir()
	k := New(Options{SysRoot: sys.root, ProcRoot: proc})
	addr := pciAddr(t, "01:10.2")
	bindVFIO(t, sys, addr, "77")
	links(t, proc, map[string]string{"4711/fd/9": "/dev/vfio/77"})
	put(t, filepath.Join(proc, "4711/comm"), "kvm\n")
	put(t, filepath.Join(proc, "4711/cmdline"), "/usr/bin/kvm\x00-id\x00100\x00-name\x00web,debug-threads=on\x00-daemonize\x00")
	got, err := k.Uses(t.Context(), addr)
	want := map[vf.PCIAddr]vf.Use{addr: {By: vf.Process{PID: 4711, Name: "kvm", Guest: "100 web"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	if text := got[addr].String(); text != "vm 100 web (kvm, process 4711)" {
		t.Errorf("people read %q", text)
	}
}
