//go:build lab

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/soak"
)

// macs returns the VFs' MAC addresses as the PFs hold them.
func macs(t *testing.T, n node.Node) map[string]string {
	t.Helper()
	out, err := n.Script(t.Context(), "list MACs", `
		for pf in enp1s0 enp2s0; do
			ip -d -j link show dev "$pf" | jq -r --arg pf "$pf" '.[0].vfinfo_list[] | "\($pf)#\(.vf) \(.address // .mac)"'
		done`)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, mac, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = mac
	}
	return all
}

// P1: culvertd makes the VFs at boot and notifies systemd when they exist. After a reboot
// they are the same VFs with the same MACs, and guests that libvirt starts with the host
// have theirs (P14).
func TestP1SameVFsAfterAReboot(t *testing.T) {
	soak.Only(t, "a node that boots; test/failure reboots the fake kernel")
	n := nodes[1]
	leavesNothing(t, n)
	before := macs(t, n)
	seen := map[string]string{}
	for name, mac := range before {
		var first byte
		if _, err := fmt.Sscanf(mac, "%x:", &first); err != nil || first&3 != 2 {
			t.Errorf("the MAC %s of %s is not locally administered unicast", mac, name)
		}
		if other, twice := seen[mac]; twice {
			t.Errorf("%s and %s have the MAC %s both", name, other, mac)
		}
		seen[mac] = name
	}
	if len(before) != 14 {
		t.Errorf("%d VFs, want 14: %v", len(before), before)
	}
	guests := beforeReboot(t, n)
	if err := n.Lab.Reboot(t.Context(), n.Name); err != nil {
		t.Fatal(err)
	}
	// The unit was enabled, so this waits for a start that is under way. It returns when
	// culvertd has reported that it is ready.
	must(t, n, "systemctl", "start", "culvertd")
	if unit := string(must(t, n, "systemctl", "show", "--property=Type,ActiveState,NRestarts", "culvertd")); unit != "Type=notify\nNRestarts=0\nActiveState=active\n" {
		t.Errorf("systemd says:\n%s", unit)
	}
	if diff := cmp.Diff(before, macs(t, n)); diff != "" {
		t.Errorf("-before +after the reboot:\n%s", diff)
	}
	// A PF may get its carrier a moment after its VFs are made.
	awaitTrue(t, "the node is ready after the reboot, without problems", func() (any, bool) {
		st := status(t, n)
		return st.Problems, st.Ready && len(st.Problems) == 0
	})
	guests()
}

// I5: culvertd does not change the number of VFs while one of them has an owner, and
// the refusal names the owner.
func TestI5CountStaysWhileAVFIsHeld(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	a := network(t, n, "held", "1.1.0", pool)
	a.Args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=precious"
	netns(t, n, a.Netns)
	add(t, n, a)
	fewer := strings.Replace(hostYAML, "vfs: 7", "vfs: 3", 1)
	if err := n.WriteFile(t.Context(), "/run/culvert-e2e/fewer.yaml", []byte(fewer)); err != nil {
		t.Fatal(err)
	}
	mentions(t, string(must(t, n, "culvert", "host", "plan", "/run/culvert-e2e/fewer.yaml")), "enp1s0", "default/precious")
	out, err := n.Run(t.Context(), "culvert", "host", "apply", "/run/culvert-e2e/fewer.yaml")
	var exit *node.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	mentions(t, exit.Stdout+exit.Stderr, "default/precious")
	if got := strings.TrimSpace(string(must(t, n, "cat", "/sys/class/net/enp1s0/device/sriov_numvfs"))); got != "7" {
		t.Errorf("sriov_numvfs is %s", got)
	}
	if got := string(must(t, n, "cat", "/etc/culvert/host.yaml")); got != hostYAML {
		t.Errorf("host.yaml is now:\n%s", got)
	}
	if _, err := n.CNI(t.Context(), "check", a); err != nil {
		t.Error(err)
	}
}

// TestCommandLine runs the commands by which a person looks at a node, on a real node.
func TestCommandLine(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	a := network(t, n, "cli", "1.1.0", pool+`, "vlan": 42, "ipam": {"type": "host-local", "subnet": "10.83.0.0/24"}`)
	a.Args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=seen"
	netns(t, n, a.Netns)
	address := add(t, n, a).IPs[0].Address.String()
	name := holder(t, n, "cli").Name
	for _, c := range []struct {
		argv  string
		words []string
	}{
		{"culvert status", []string{"worker01", "enp1s0", "igb", "1 used, 6 free", "Nothing is wrong"}},
		{"culvert status -o yaml", []string{"ready: true"}},
		{"culvert vf list", []string{name, "default/seen", address, "vlan 42"}},
		{"culvert vf show " + name, []string{"default/seen", "vlan", "42", "igbvf"}},
		{"culvert vf list -o json", []string{`"phase": "attached"`}},
		{"culvert pool list", []string{"intel.com/intel_sriov_netdevice", "culvert.dev/vms", "vfio-pci"}},
		{"culvert events", []string{"Attached", "VFsMade", "enp2s0"}},
		{"culvert host validate", nil},
		{"culvert host plan", nil},
		{"culvert version", nil},
	} {
		mentions(t, string(must(t, n, strings.Fields(c.argv)...)), c.words...)
	}
	wrong := strings.Replace(hostYAML, "selectors:", "selector:", 1)
	if err := n.WriteFile(t.Context(), "/run/culvert-e2e/wrong.yaml", []byte(wrong)); err != nil {
		t.Fatal(err)
	}
	_, err := n.Run(t.Context(), "culvert", "host", "validate", "/run/culvert-e2e/wrong.yaml")
	if err == nil {
		t.Fatal("a wrong host.yaml is right")
	}
	mentions(t, err.Error(), "wrong.yaml:9", "selectors")
}
