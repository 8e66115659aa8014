//go:build lab

package failover

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab/demo/node"
)

// event is a failure that happens to a bond whose active member is on the PF sends.
type event struct {
	name   string
	bond   string
	happen func(t *testing.T, w *world, sends string)
	// loses is true if the event destroys the VF of a member, so that the bond loses that member
	// for good.
	loses bool
}

// runEvents runs each event on a bond under traffic. After each event it expects all VFs at their
// baseline.
func (w *world) runEvents(t *testing.T) {
	for _, e := range []event{
		{name: "both wires", bond: plainBond, happen: bothWires},
		{name: "PF down", bond: plainBond, happen: pfIsDown},
		{name: "wire flaps", bond: plainBond, happen: wireFlaps},
		{name: "culvertd dead", bond: arpBond, happen: culvertdIsDead},
		{name: "culvertd dead without ARP", bond: plainBond, happen: culvertdWasDead},
		{name: "PF rebound", bond: plainBond, happen: pfIsRebound, loses: true},
		{name: "member unplugged", bond: plainBond, happen: memberIsUnplugged, loses: true},
	} {
		t.Run(e.name, func(t *testing.T) { w.runEvent(t, e) })
	}
}

func (w *world) runEvent(t *testing.T, e event) {
	detach := w.attachBond(t, e.bond)
	traffic := w.traffic()
	if err := traffic.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	sends, err := w.near.FindSender(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.happen(t, w, sends)
	if err := w.near.Reach(t.Context()); err != nil {
		t.Errorf("the bond does not come back: %v", err)
	}
	o, err := traffic.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.logOutage(t, e.name, o)
	if e.loses {
		w.expectLoss(t)
	} else {
		w.expectWhole(t)
	}
	detach()
	printOutages("Event/"+strings.ReplaceAll(e.name, " ", "-"), []node.Outage{o})
}

// waitForSender waits until the active member of the bond is on the PF want.
func (w *world) waitForSender(t *testing.T, want string) {
	t.Helper()
	if err := w.near.WaitForSender(t.Context(), func(pf string) bool { return pf == want }); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a script of the first node succeeds.
func (w *world) eventually(t *testing.T, what, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		_, err := w.near.Script(ctx, what, script, args...)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// waitForCarrier waits until the carrier of a PF is as it should be.
func (w *world) waitForCarrier(t *testing.T, pf string, up bool) {
	t.Helper()
	w.eventually(t, "wait for the carrier of "+pf, `[ "$(cat "/sys/class/net/$1/carrier")" = "$2" ]`, pf, map[bool]string{false: "0", true: "1"}[up])
}

// bothWires pulls both wires, so that no member of the bond works, and then plugs both in.
func bothWires(t *testing.T, w *world, _ string) {
	for _, up := range []bool{false, true} {
		for _, pf := range wires() {
			w.setWire(t, pf, up)
		}
		for _, pf := range wires() {
			w.waitForCarrier(t, pf, up)
		}
	}
}

// pfIsDown sets the active PF down and up, as an administrator may.
func pfIsDown(t *testing.T, w *world, sends string) {
	runScript(t, w.near.Node, "set a PF down", `ip link set "$1" down`, sends)
	w.waitForSender(t, otherPF(sends))
	runScript(t, w.near.Node, "set a PF up", `ip link set "$1" up`, sends)
	w.waitForCarrier(t, sends, true)
}

// wireFlaps lets the wire of the active PF go down and up. It expects that culvertd moves the bond
// once, to the PF with the steady wire.
func wireFlaps(t *testing.T, w *world, sends string) {
	since := strings.TrimSpace(runScript(t, w.near.Node, "read the clock", "date +%s.%N"))
	for range 10 {
		w.setWire(t, sends, false)
		w.setWire(t, sends, true)
	}
	w.setWire(t, sends, false)
	w.waitForSender(t, otherPF(sends))
	w.setWire(t, sends, true)
	w.waitForCarrier(t, sends, true)
	moves := strings.TrimSpace(runScript(t, w.near.Node, "count the moves", `journalctl --no-pager --unit culvertd --since "@$1" | grep -c 'bond moved' || :`, since))
	if now, err := w.near.FindSender(t.Context()); moves != "1" || err != nil || now != otherPF(sends) {
		t.Errorf("culvertd moved the bond %s times, and it sends by %s (%v); want one move to %s", moves, now, err, otherPF(sends))
	}
}

// killCulvertd kills culvertd, and prevents systemd from starting it again.
func killCulvertd(t *testing.T, n node.Node) {
	t.Helper()
	runScript(t, n, "kill culvertd", "systemctl kill --signal=KILL culvertd; systemctl stop culvertd")
}

// culvertdIsDead pulls the wire while culvertd is dead. It expects that the kernel moves the bond
// because of its ARP requests.
func culvertdIsDead(t *testing.T, w *world, sends string) {
	killCulvertd(t, w.near.Node)
	w.setWire(t, sends, false)
	w.waitForSender(t, otherPF(sends))
	runScript(t, w.near.Node, "start culvertd", "systemctl start culvertd")
	w.setWire(t, sends, true)
	w.waitForCarrier(t, sends, true)
}

// culvertdWasDead pulls the wire while culvertd is dead, and starts culvertd. It expects that
// culvertd then moves the bond.
func culvertdWasDead(t *testing.T, w *world, sends string) {
	killCulvertd(t, w.near.Node)
	w.setWire(t, sends, false)
	w.waitForCarrier(t, sends, false)
	runScript(t, w.near.Node, "start culvertd", "systemctl start culvertd")
	w.waitForSender(t, otherPF(sends))
	w.setWire(t, sends, true)
	w.waitForCarrier(t, sends, true)
}

// waitForVFs waits until culvertd lists the given number of VFs of the first node as attached, and
// all others as free.
func (w *world) waitForVFs(t *testing.T, held int) {
	t.Helper()
	w.eventually(t, "wait for the VFs", `[ "$(culvert vf list -o json | jq -r '[.[].phase] | sort | group_by(.) | map("\(.[0]) \(length)") | join(" ")')" = "$1" ]`,
		strings.TrimPrefix(fmt.Sprintf("attached %d free %d", held, vfCount-held), "attached 0 "))
}

// pfIsRebound unbinds the driver of the active PF, which destroys its VFs, and binds it again.
func pfIsRebound(t *testing.T, w *world, sends string) {
	pci := strings.TrimSpace(runScript(t, w.near.Node, "unbind a PF", `
		pci=$(basename "$(readlink "/sys/class/net/$1/device")")
		echo "$pci" >/sys/bus/pci/drivers/igb/unbind
		echo "$pci"`, sends))
	w.waitForSender(t, otherPF(sends))
	runScript(t, w.near.Node, "bind a PF", `echo "$1" >/sys/bus/pci/drivers/igb/bind`, pci)
	w.waitForVFs(t, 1)
}

// memberIsUnplugged removes the active PF from the bus, and with it the active VF. Linux cannot
// remove a single VF (pci_dev_hp_attrs_are_visible).
func memberIsUnplugged(t *testing.T, w *world, sends string) {
	runScript(t, w.near.Node, "unplug a PF", `echo 1 >"/sys/class/net/$1/device/remove"`, sends)
	w.waitForSender(t, otherPF(sends))
	runScript(t, w.near.Node, "plug a PF in", "echo 1 >/sys/bus/pci/rescan")
	w.waitForVFs(t, 1)
}

// expectLoss expects that CHECK reports the missing member.
func (w *world) expectLoss(t *testing.T) {
	t.Helper()
	_, err := w.near.CNI(t.Context(), "check", attachmentOf(w.near))
	if err == nil || !strings.Contains(err.Error(), "it has 1 of 2 VFs") {
		t.Errorf("CHECK of a bond that has lost a member: %v", err)
	}
}
