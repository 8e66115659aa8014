package fake

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// readGuard reads the guard of a VF in a netns as text.
func readGuard(t *testing.T, k *Kernel, a vf.PCIAddr, netns string) string {
	t.Helper()
	g, err := k.Guard(t.Context(), a, netns)
	must(t, err)
	return g.String()
}

// TestGuard: a guard is a table of nf_tables in the netns of the pod. It replaces an earlier one,
// stays there when the netdevice goes (nf_tables since Linux 6.16), and ends with the netns.
// DelGuard succeeds if there is no guard.
func TestGuard(t *testing.T) {
	k, v, other, host := inPod(t)
	guard := vf.Guard{Mode: vf.GuardIP, MAC: vf.MAC{2, 0, 0, 0, 0, 1}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	arp := vf.Guard{Mode: vf.GuardARP, MAC: vf.MAC{2, 0, 0, 0, 0, 1}}
	const asText, arpText = "ip of 02:00:00:00:00:01, 10.0.0.1", "arp of 02:00:00:00:00:01"
	for _, c := range []struct {
		what   string
		change func()
		want   string
	}{
		{"at first", func() {}, "none"},
		{"set", func() { doSteps(t, k, step.SetGuard{VF: v, Netns: podNetns, Guard: arp}) }, arpText},
		{"set again", func() { doSteps(t, k, step.SetGuard{VF: v, Netns: podNetns, Guard: guard}) }, asText},
		{"another VF's", func() { doSteps(t, k, step.SetGuard{VF: other, Netns: podNetns, Guard: arp}) }, asText},
		{"another VF's is removed", func() { doSteps(t, k, step.DelGuard{VF: other, Netns: podNetns}) }, asText},
		{"the netdevice goes", func() { doSteps(t, k, step.Move{VF: v, From: podNetns, Name: "enp1s0v0"}) }, asText},
		{"changed by an outsider", func() { k.MeddleGuard(v, podNetns, func(g *vf.Guard) { g.Altered = true }) }, "altered"},
		{"removed by an outsider", func() { k.MeddleGuard(v, podNetns, nil) }, "none"},
		{"an outsider finds none", func() { k.MeddleGuard(v, podNetns, nil) }, "none"},
		{"back, and set", func() {
			doSteps(t, k, step.Move{VF: v, To: podNetns, Name: "net1"}, step.SetGuard{VF: v, Netns: podNetns, Guard: guard})
		}, asText},
		{"removed", func() { doSteps(t, k, step.DelGuard{VF: v, Netns: podNetns}, step.DelGuard{VF: v, Netns: podNetns}) }, "none"},
		{"the netns ends", func() { doSteps(t, k, step.SetGuard{VF: v, Netns: podNetns, Guard: guard}); k.DelNetns(podNetns) }, "none"},
		{"removed from a netns that is gone", func() { doSteps(t, k, step.DelGuard{VF: v, Netns: podNetns}) }, "none"},
	} {
		c.change()
		if got := readGuard(t, k, v, podNetns); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if got := readGuard(t, k, host, podNetns); got != "none" {
			t.Errorf("%s: a VF without a guard has %s", c.what, got)
		}
	}
}

// TestGuardIsRefused: no guard is set at a netdevice that is elsewhere, nor where the kernel has no
// egress hook (NF_NETDEV_EGRESS of uapi linux/netfilter.h, Linux 5.16). An earlier guard then
// stays.
func TestGuardIsRefused(t *testing.T) {
	k, v, _, host := inPod(t)
	guard := vf.Guard{Mode: vf.GuardARP, MAC: vf.MAC{2, 0, 0, 0, 0, 1}}
	doSteps(t, k, step.SetGuard{VF: v, Netns: podNetns, Guard: guard})
	before := k.String()
	if !strings.Contains(before, "guard of 0000:01:10.0 in /run/netns/c1 at net1: arp of 02:00:00:00:00:01\n") {
		t.Errorf("no guard in %s", before)
	}
	if err := k.Do(t.Context(), step.SetGuard{VF: host, Netns: podNetns, Guard: guard}); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("of a netdevice that is elsewhere: %v", err)
	}
	k.RefuseGuards()
	if err := k.Do(t.Context(), step.SetGuard{VF: v, Netns: podNetns, Guard: vf.Guard{Mode: vf.GuardIP}}); !errors.Is(err, vf.ErrUnable) {
		t.Errorf("without the hook: %v", err)
	}
	if diff := cmp.Diff(before, k.String()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}
