package mend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/api"
)

// P20: Apply turns swap off now and at every boot, installs packages and opens ports. What it
// prints undoes each of them.
func TestApplyToNode(t *testing.T) {
	root := t.TempDir()
	swaps, fstab := filepath.Join(root, "proc/swaps"), filepath.Join(root, "etc/fstab")
	write(t, swaps, "Filename Type\n/dev/sda2 partition\n")
	write(t, filepath.Join(root, "usr/bin/apt-get"), "")
	const before = "/dev/sda1 / ext4 defaults 0 1\n/dev/sda2 none swap sw 0 0\n# swap\n"
	write(t, fstab, before)
	var ran []string
	h := Host{Root: root, Run: func(_ context.Context, argv ...string) error {
		ran = append(ran, strings.Join(argv, " "))
		if argv[0] == "swapoff" {
			write(t, swaps, "Filename Type\n")
		}
		return nil
	}}
	got := h.Apply(t.Context(), []doctor.Change{{Swap: true}, {Packages: "conntrack socat"}, {Ports: "10250/tcp 8472/udp"}})
	if diff := cmp.Diff([]api.Repair{
		{What: "turn swap off", Done: true, Found: "swap is off, and its lines in /etc/fstab are comments", Undo: "sed -i 's/^#culvert-doctor: //' /etc/fstab && swapon -a"},
		{What: "install conntrack socat", Done: true, Found: "apt-get has installed conntrack socat", Undo: "apt-get remove conntrack socat"},
		{
			What: "open 10250/tcp 8472/udp in firewalld", Done: true, Found: "firewalld's default zone opens 10250/tcp, 8472/udp",
			Undo: "firewall-cmd --permanent --remove-port=10250/tcp && firewall-cmd --permanent --remove-port=8472/udp && firewall-cmd --reload",
		},
	}, got); diff != "" {
		t.Errorf("repairs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"swapoff -a", "apt-get update", "apt-get install -y conntrack socat",
		"firewall-cmd --permanent --add-port=10250/tcp", "firewall-cmd --permanent --add-port=8472/udp", "firewall-cmd --reload",
	}, ran); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}
	after, err := os.ReadFile(fstab)
	if err != nil || string(after) != strings.Replace(before, "/dev/sda2", "#culvert-doctor: /dev/sda2", 1) {
		t.Errorf("/etc/fstab: %v\n%s", err, after)
	}
}

// A repair that has no effect, or whose program fails, is reported as not done.
func TestApplyToNodeFails(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "proc/swaps"), "Filename Type\n/dev/sda2 partition\n")
	h := Host{Root: root, Run: func(_ context.Context, argv ...string) error {
		if argv[0] == "swapoff" {
			return nil
		}
		return errors.New(argv[0] + " failed")
	}}
	got := h.Apply(t.Context(), []doctor.Change{{Swap: true}, {Packages: "socat"}, {Ports: "8472/udp"}})
	if diff := cmp.Diff([]api.Repair{
		{What: "turn swap off", Error: "swapoff -a succeeded, and swap is on: /dev/sda2"},
		{What: "install socat", Error: "there is no apt-get, dnf or zypper to install them"},
		{What: "open 8472/udp in firewalld", Error: "firewall-cmd failed"},
	}, got); diff != "" {
		t.Errorf("repairs (-want +got):\n%s", diff)
	}
}
