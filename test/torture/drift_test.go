package torture

import (
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// I6: a program outside Culvert changes the settings that the PF holds for a pod's VF. culvertd
// sees the change at once, sets the old value again, and emits an event.
func settingsChange(t *testing.T, h *held) {
	var worst time.Duration
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"vlan", "77"}, "vlan is 77, not 9"},
		{[]string{"trust", "off"}, "trust is no, not yes"},
		{[]string{"spoofchk", "off"}, "spoofchk is no, not yes"},
		{[]string{"max_tx_rate", "100"}, "max_tx_rate is 100, not 0"},
	} {
		h.now(t)
		run(t, append([]string{"ip", "link", "set", "eth0", "vf", "0"}, c.args...)...)
		worst = max(worst, h.event(t, h.begin, h.seq, "DriftMended", "VF "+h.vfs[0].String(), c.says, "first"))
		h.mustCNI(t, "CHECK", h.pods[0])
	}
	t.Logf("%8s  from the change to its mending, at worst", worst.Round(time.Millisecond))
}

// I6: if the PF gets another MAC for the VF, culvertd sets the right one again, since the
// interface still has its own. culvertd cannot mend an interface that was moved or renamed
// without taking it from the pod. It reports such an interface, and CHECK fails.
func placeChanges(t *testing.T, h *held) {
	run(t, "ip", "link", "set", "eth0", "vf", "0", "mac", "02:00:00:00:99:99")
	h.event(t, h.begin, h.seq, "DriftMended", "VF "+h.vfs[0].String(), "mac is 02:00:00:00:99:99", "first")
	h.mustCNI(t, "CHECK", h.pods[0])

	run(t, "ip", "-n", "second", "link", "set", iface, "name", "stray")
	_, err := h.cni(t.Context(), "CHECK", h.pods[1])
	mentions(t, err, "stray")
	h.now(t)
	run(t, "ip", "-n", "second", "link", "set", "stray", "netns", "1")
	h.event(t, h.begin, h.seq, "Drifted", "VF "+h.vfs[1].String(), "second")
	_, err = h.cni(t.Context(), "CHECK", h.pods[1])
	mentions(t, err, "netns")

}

// I1: a netns is deleted with the VF in it, and the runtime sends DEL only later. Until then no
// other pod gets the VF.
func netnsDies(t *testing.T, h *held) {
	if err := netns.Delete(h.pods[0].netns); err != nil {
		t.Fatal(err)
	}
	h.event(t, h.begin, h.seq, "Drifted", "VF "+h.vfs[0].String(), "first")
	other := newPod(t, "other", h.vfs[0], "")
	_, err := h.cni(t.Context(), "ADD", other)
	mentions(t, err, "held by", "first")
	for _, p := range h.pods {
		h.mustCNI(t, "DEL", p)
	}
	h.mustCNI(t, "DEL", h.pods[0])
	h.mustCNI(t, "ADD", other)
	h.mustCNI(t, "DEL", h.pods[0]) // late, and of an earlier owner
	h.mustCNI(t, "CHECK", other)
	h.mustCNI(t, "DEL", other)
}
