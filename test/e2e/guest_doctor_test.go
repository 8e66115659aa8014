//go:build lab

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// examined has the doctor look into a guest by its virtio channel. The guest is a small one: it has one
// processor, the VF's driver, and neither irqbalance nor numad.
func examined(t *testing.T, g node.Guest, v api.VF) {
	out, err := g.Node.Script(t.Context(), "examine "+g.Name, `
		virsh dumpxml "$1" >"/run/$1.live"
		culvert doctor --guest "/run/$1.live" --by "socat - UNIX-CONNECT:/run/libvirt/qemu/$1.shell" -o json || [ $? = 1 ]`, g.Name)
	if err != nil {
		t.Fatal(err)
	}
	var r api.DoctorReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var said []string
	for _, f := range r.Findings {
		if f.Check == "inside" || f.Check == "slots" {
			said = append(said, fmt.Sprintf("%s %s: %s", f.Severity, f.Object, f.What))
		}
	}
	mentions(t, strings.Join(said, "\n"),
		"ok guest "+g.Name+": Linux 6.", "1 processor online of 1",
		fmt.Sprintf("ok guest %s, VF %s: it is eth0, driver igbvf, MTU 1500", g.Name, v.PCI),
		"ok guest "+g.Name+", eth0: 1 receive queue for 1 processor",
		"ok guest "+g.Name+", interrupts: the guest has one processor",
		"ok guest "+g.Name+": it passes 1, and machine pc-q35", "root ports free for plugging")
}

// wholePF gives a guest a PF as a whole, of which there are no VFs. The guest is the PF's owner, and
// Culvert makes no VFs of it, whatever host.yaml says, until the guest has ended.
func wholePF(t *testing.T) {
	n := nodes[1]
	g := defined(t, n, "whole", "10.90.0.9/24")
	script := func(what, text string) string {
		t.Helper()
		out, err := n.Script(context.WithoutCancel(t.Context()), what, text, g.Name)
		if err != nil {
			t.Error(err)
		}
		return string(out)
	}
	pf := func() api.PF {
		t.Helper()
		for _, p := range status(t, n).PFs {
			if p.Name == "enp2s0" {
				return p
			}
		}
		t.Fatal("enp2s0 is gone")
		return api.PF{}
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(bound); !is(); time.Sleep(2 * time.Second) {
			if time.Now().After(end) {
				t.Fatalf("waiting until %s: %+v", what, status(t, n).Problems)
			}
		}
	}
	address := pf().PCI
	script("make no VFs of the PF", `sed '/name: enp2s0/{n;s/7/0/}' /etc/culvert/host.yaml >/run/none.yaml; cp /etc/culvert/host.yaml /run/seven.yaml; culvert host apply --force /run/none.yaml`)
	t.Cleanup(func() { // the test's context has ended
		script("make the VFs anew", `virsh --quiet destroy "$1" 2>/dev/null || true; culvert host apply /run/seven.yaml || true
			for try in $(seq 60); do
				[ "$(culvert vf list --pf enp2s0 --phase free | grep -c '^enp2s0#')" = 7 ] && exit 0
				sleep 2
			done; exit 1`)
	})
	script("put the PF into the definition", fmt.Sprintf(`
		echo "<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x%04x' bus='0x%02x' slot='0x%02x' function='0x%x'/></source></hostdev>" >/run/whole.xml
		virsh --quiet attach-device "$1" /run/whole.xml --config`, address.Domain, address.Bus, address.Device, address.Function))
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if owner := pf().Owner; owner == nil || owner.Name != g.Name {
		t.Errorf("the owner of the PF is %v", owner)
	}
	var exit *node.ExitError
	if _, err := n.Run(t.Context(), "culvert", "host", "apply", "/run/seven.yaml"); !errors.As(err, &exit) {
		t.Errorf("host apply of VFs of the PF ends with %v", err)
	} else {
		mentions(t, exit.Stdout+exit.Stderr, "guest "+g.Name+" has it as a whole")
	}
	if p := pf(); p.VFs.Total > 0 || p.Owner == nil {
		t.Errorf("%+v", p)
	}
	script("end the guest", `virsh --quiet destroy "$1"`)
	await("the PF makes its VFs", func() bool { return pf().Owner == nil && pf().VFs.Free == 7 })
}
