package torture

import (
	"testing"
	"time"

	"github.com/culvert-net/culvert/kernel/netns"
)

// I6: what the PF holds for a pod's VF is changed by somebody else. It is seen at
// once, set again, and told.
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

// I6: another MAC of the PF for the VF is set again, since the interface still has its own. An
// interface that is not where it was put cannot be mended without taking it from the pod: that is
// reported, and CHECK says it.
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

// I1: a netns dies with the VF in it, and nobody says DEL for a while. The VF
// is nobody else's meanwhile.
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
