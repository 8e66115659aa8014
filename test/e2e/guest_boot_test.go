//go:build lab

package e2e

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// everySetting returns flags for all settings that the second wire's PF can hold for a
// guest's VF.
func everySetting(vlan string) []string {
	return []string{"--pool", vms, "--vlan", vlan, "--mac", "02:aa:bb:cc:dd:93", "--max-tx-rate", "300", "--spoofchk", "off", "--trust", "on"}
}

// everyEnd ends a guest in each way that needs no boot. Each time culvertd takes its VF back
// by itself, with every attribute at its baseline. At its next start the guest has the VF
// again. make test has the first end alone.
func everyEnd(t *testing.T) {
	n := nodes[1]
	g := defined(t, n, "ends", "10.90.0.6/24")
	v := give(t, g, everySetting("93")...)
	ends := []struct{ how, script string }{
		{"libvirt is down", `
			units=$(systemctl list-units --plain --no-legend --state=active 'libvirtd*' | cut -d ' ' -f 1)
			systemctl stop $units
			kill -KILL "$(cat "/run/libvirt/qemu/$1.pid")"
			systemctl start libvirtd.socket
			virsh --quiet list >/dev/null`},
		{"destroyed", `virsh --quiet destroy "$1"`},
		{"QEMU aborts", `kill -ABRT "$(cat "/run/libvirt/qemu/$1.pid")"`},
		{"libvirt is upgraded while it runs, and it is undefined", `
			systemctl restart libvirtd
			virsh domstate "$1" | grep -e running -e paused >/dev/null # it takes a while to look at it
			culvert vm list -o json | grep "\"name\": *\"$1\"" >/dev/null
			virsh --quiet dumpxml --inactive "$1" >/run/undefined.xml
			virsh --quiet undefine "$1"
			virsh --quiet destroy "$1"
			virsh --quiet define /run/undefined.xml`},
	}
	if testing.Short() {
		ends = ends[:1]
	}
	for _, end := range ends {
		t.Run(end.how, func(t *testing.T) {
			startAnew(t, g)
			asPromised(t, g, v, 93)
			if _, err := n.Script(t.Context(), end.how, end.script, g.Name); err != nil {
				t.Error(err)
			}
			cameBack(t, g, v)
		})
	}
}

// startAnew starts a guest. It first waits until libvirt has noticed that the guest has
// ended.
func startAnew(t *testing.T, g node.Guest) {
	t.Helper()
	if _, err := g.Node.Script(t.Context(), "start "+g.Name, `
		while [ "$SECONDS" -lt 600 ]; do
			if [ "$(virsh domstate "$1")" = "shut off" ]; then exec virsh --quiet start "$1"; fi
			sleep 0.2
		done
		virsh domstate "$1" >&2
		exit 1`, g.Name); err != nil {
		t.Fatal(err)
	}
}

// cameBack waits until a guest that has ended has no VF and the VF was reset, and checks that
// the VF is clean. The reset takes a while if no hook waits for it.
func cameBack(t *testing.T, g node.Guest, v api.VF) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	if err := errors.Join(g.Ended(ctx), awaitReset(ctx, g.Node)); err != nil {
		t.Error(err)
	}
	is := now(t, g.Node, v)
	if is.Phase != "free" || len(is.Differences) > 0 {
		t.Errorf("VF %s is %s %s, differences %v", is.Name, is.Phase, is.Reason, is.Differences)
	}
}

// hooksTwice: besides Culvert's hook there is a copy of another name, and a script that calls
// the hook. The repeated reports do no harm, and culvert doctor reports the copies.
func hooksTwice(t *testing.T) {
	n := nodes[1]
	const hooks = "/etc/libvirt/hooks"
	t.Cleanup(func() {
		if _, err := n.Run(context.Background(), "rm", "-f", hooks+"/qemu", hooks+"/qemu.d/older"); err != nil {
			t.Error(err)
		}
	})
	if _, err := n.Script(t.Context(), "add hooks", `
		cp "$1/qemu.d/culvert" "$1/qemu.d/older"
		printf '#!/bin/sh\nexec %s/qemu.d/culvert "$@"\n' "$1" >"$1/qemu"
		chmod 0755 "$1/qemu"`, hooks); err != nil {
		t.Fatal(err)
	}
	g := defined(t, n, "twice", "10.90.0.7/24")
	v := give(t, g, everySetting("94")...)
	startAnew(t, g)
	asPromised(t, g, v, 94)
	out, err := n.Script(t.Context(), "ask the doctor", `culvert doctor -o json || true`)
	if err != nil {
		t.Error(err)
	}
	mentions(t, string(out), "Culvert's hook is there more than once", hooks+"/qemu.d/older", hooks+"/qemu,")
	must(t, n, "virsh", "destroy", g.Name)
	cameBack(t, g, v)
}

// appArmor: the lab's kernel has no AppArmor, so this reads the profile of libvirt's package.
// By that profile libvirtd may run the programs in its folder of hooks, confined as it is
// itself. It may open every file, culvertd's socket too.
func appArmor(t *testing.T) {
	profile := string(must(t, nodes[1], "cat", "/etc/apparmor.d/usr.sbin.libvirtd"))
	mentions(t, profile, "\n  /etc/libvirt/hooks/** rmix,\n", "\n  /** rwmkl,\n")
}

// beforeReboot prepares two guests for a reboot of their host: one that libvirt starts with
// the host, and one that runs but does not start with the host. The returned function checks
// both afterwards.
func beforeReboot(t *testing.T, n node.Node) (afterReboot func()) {
	t.Helper()
	if err := n.StartLibvirt(t.Context()); err != nil {
		t.Fatal(err)
	}
	stays := defined(t, n, "stays", "10.90.0.8/24")
	first := give(t, stays, everySetting("95")...)
	ends := defined(t, n, "ends", "10.90.0.9/24")
	second := give(t, ends, "--pool", vms, "--vlan", "96")
	startAnew(t, ends)
	t.Cleanup(func() {
		if _, err := n.Run(context.Background(), "systemctl", "--quiet", "disable", "libvirtd.service"); err != nil {
			t.Error(err)
		}
	})
	if _, err := n.Script(t.Context(), "have libvirt start a guest with the host", `
		virsh --quiet autostart "$1"
		systemctl --quiet enable libvirtd.service # on most hosts it is`, stays.Name); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		must(t, n, "systemctl", "start", "libvirtd") // waits for a start that is under way
		ordered(t, n)
		if is := now(t, n, second); is.Phase != "free" || len(is.Differences) > 0 {
			t.Errorf("P12: the VF of a guest that ran when the host was rebooted is %s %s, differences %v", is.Phase, is.Reason, is.Differences)
		}
		cameUp(t, stays, first)
	}
}

// cameUp waits until libvirt has started a guest by itself, and checks that it has its VF.
// Then it shuts the guest down from within.
func cameUp(t *testing.T, g node.Guest, v api.VF) {
	t.Helper()
	if _, err := g.Node.Script(t.Context(), "await that libvirt starts "+g.Name, `
		while [ "$SECONDS" -lt 600 ]; do
			if [ "$(virsh domstate "$1")" = running ]; then exit; fi
			sleep 0.2
		done
		journalctl --boot --unit libvirtd --unit culvertd --no-pager | tail -n 40 >&2
		exit 1`, g.Name); err != nil {
		t.Fatal(err)
	}
	asPromised(t, g, v, 95)
	seconds, err := g.Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the guest was up after %s s of its own", seconds)
	out, err := g.Exec(t.Context(), "cat /sys/class/net/eth0/address")
	if err != nil {
		t.Error(err)
	}
	mentions(t, string(out), "02:aa:bb:cc:dd:93")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	_, _ = g.Exec(ctx, "poweroff -f") // it gives no answer: its console is closed
	cameBack(t, g, v)
}

// ordered checks that libvirtd started after culvertd was ready (P14).
func ordered(t *testing.T, n node.Node) {
	t.Helper()
	moment := func(unit, property string) int {
		text := strings.TrimSpace(string(must(t, n, "systemctl", "show", "--value", "--property="+property, unit)))
		at, err := strconv.Atoi(text)
		if err != nil || at == 0 {
			t.Fatalf("%s of %s is %q", property, unit, text)
		}
		return at
	}
	ready, begun := moment("culvertd", "ActiveEnterTimestampMonotonic"), moment("libvirtd", "ExecMainStartTimestampMonotonic")
	if begun < ready {
		t.Errorf("libvirtd was started %d us before culvertd was ready", ready-begun)
	}
}
