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

// A repair that fails half-way is reported with the half that holds.
func TestApplyToNodeHalfWay(t *testing.T) {
	for _, tc := range []struct {
		name, fails, want string
		change            doctor.Change
		blocked           string // a folder in place of this file, which can be neither read nor written
	}{
		{name: "swapoff", fails: "swapoff -a", change: doctor.Change{Swap: true}, want: "swapoff -a failed"},
		{name: "no fstab", change: doctor.Change{Swap: true}},
		{name: "fstab", change: doctor.Change{Swap: true}, blocked: "etc/fstab", want: "it is off until the next boot: "},
		{name: "lists of packages", fails: "apt-get update", change: doctor.Change{Packages: "socat"}, want: "apt-get update failed"},
		{name: "a package", fails: "apt-get install -y socat", change: doctor.Change{Packages: "socat"}, want: "apt-get install -y socat failed"},
		{name: "firewalld", fails: "firewall-cmd --reload", change: doctor.Change{Ports: "8472/udp"}, want: "firewall-cmd --reload failed"},
		{name: "a module at boot", change: doctor.Change{Module: "overlay"}, blocked: "etc/modules-load.d/90-culvert-overlay.conf", want: "it is loaded until the next boot: "},
		{name: "a setting at boot", change: doctor.Change{Key: "net.ipv4.ip_forward", Value: "1"}, blocked: "etc/sysctl.d/90-culvert-net.ipv4.ip_forward.conf", want: "it is set until the next boot: "},
		{name: "no folder", change: doctor.Change{Module: "overlay"}, blocked: "etc/modules-load.d/", want: "it is loaded until the next boot: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "proc/swaps"), "Filename Type\n")
			write(t, filepath.Join(root, "usr/bin/apt-get"), "")
			write(t, filepath.Join(root, "proc/sys/net/ipv4/ip_forward"), "0\n")
			if folder, ok := strings.CutSuffix(tc.blocked, "/"); ok {
				write(t, filepath.Join(root, folder), "a file")
			} else if tc.blocked != "" {
				write(t, filepath.Join(root, tc.blocked, "inside"), "")
			}
			h := Host{
				Root: root,
				Run: func(_ context.Context, argv ...string) error {
					if line := strings.Join(argv, " "); line == tc.fails {
						return errors.New(line + " failed")
					}
					return nil
				},
				Load: func(context.Context, string) error {
					write(t, filepath.Join(root, "sys/module/overlay/refcnt"), "0\n")
					return nil
				},
			}
			got := h.Apply(t.Context(), []doctor.Change{tc.change})[0]
			if got.Done != (tc.want == "") || !strings.HasPrefix(got.Error, tc.want) {
				t.Errorf("done: %t, error: %s; want %s", got.Done, got.Error, tc.want)
			}
		})
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
