package alloc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// P10: Room describes how full the pool of a held VF is, for the refusal of a request that names
// the VF.
func TestP10Room(t *testing.T) {
	h := host(1)
	hold(h, 0, "default/a")
	given := func(a vf.PCIAddr) string { return map[vf.PCIAddr]string{h.Records[1].PCI: "default/b"}[a] }
	for name, tc := range map[string]struct {
		vf    vf.PCIAddr
		given func(vf.PCIAddr) string
		want  string
	}{
		"one is free":        {h.Records[0].PCI, nil, "pool x/a: 1 of 2 VFs on enp1s0, enp2s0 are held (pod default/a)"},
		"the kubelet has it": {h.Records[0].PCI, given, "pool x/a: 1 of 2 VFs on enp1s0, enp2s0 are held (pod default/a), 1 given by the kubelet (pod default/b)"},
		"unknown":            {vf.PCIAddr{Bus: 9}, nil, ""},
	} {
		if got := h.Room(tc.vf, tc.given); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	h.Spec.Pools = nil
	if got := h.Room(h.Records[0].PCI, nil); got != "" {
		t.Errorf("in no pool: %q", got)
	}
}

// A PF that could not be read has VFs that culvertd does not see. The refusal of a
// request that needs one of them names that PF, and no PF that the request does not
// need.
func TestI7UnreadablePFIsNamed(t *testing.T) {
	const hangs = "timed out: reading it has hung for more than 5s"
	unread := func(h alloc.Host, i int) {
		h.PFs[i].Err, h.PFs[i].VFs = hangs, nil
	}
	for name, tc := range map[string]struct {
		change func(*alloc.Host)
		want   alloc.Want
		is     error
		says   string
	}{
		"all of them": {func(h *alloc.Host) { unread(*h, 0); unread(*h, 1) }, alloc.Want{}, vf.ErrNothingFree,
			"pool x/a: no VF of this host is in it, PF enp1s0 could not be read (" + hangs + "), PF enp2s0 could not be read (" + hangs + "): nothing free for pod default/c"},
		"one, and the other is used up": {func(h *alloc.Host) { unread(*h, 1); hold(*h, 0, "default/a") }, alloc.Want{}, vf.ErrNothingFree,
			"pool x/a: 1 of 1 VFs on enp1s0 are held (pod default/a), PF enp2s0 could not be read (" + hangs + "): nothing free"},
		"by name": {func(h *alloc.Host) { unread(*h, 0) }, alloc.Want{VF: vf.PCIAddr{Bus: 1, Device: 0x10}}, vf.ErrNotReady,
			"VF 0000:01:10.0: PF enp1s0 could not be read (" + hangs + "), so pod default/c cannot have it now: not ready"},
		"since culvertd started, and host.yaml wants it": {func(h *alloc.Host) {
			h.Records, h.PFs = nil, []vf.PF{{PCI: vf.PCIAddr{Bus: 1}, Err: hangs}}
			h.Spec.PFs = []desired.PFRule{{Name: "enp1s0"}}
		}, alloc.Want{}, vf.ErrNothingFree, "no VF of this host is in it, PF 0000:01:00.0 could not be read"},
		"one that nobody speaks of": {func(h *alloc.Host) { h.Records, h.PFs = nil, []vf.PF{{PCI: vf.PCIAddr{Bus: 1}, Err: "no netdevice"}} },
			alloc.Want{}, vf.ErrNothingFree, "no VF of this host is in it: nothing free"},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(1)
			tc.change(&h)
			tc.want.For = me
			_, err := alloc.Choose(h, tc.want)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got  %v\nwant %s", err, tc.says)
			}
		})
	}
}

// P17: a VF was held while its pool's type changed from vfio to netdevice. Until culvertd has bound
// its netdevice driver, only a guest can get the VF.
func TestP17SwitchedFirst(t *testing.T) {
	h := host(1)
	h.Records[0].Baseline.Driver = vf.DriverVFIO
	h.PFs[0].VFs[0].IOMMUGroup = 7
	if got, err := alloc.Choose(h, alloc.Want{For: me}); err != nil || got.Record.ID != h.Records[1].ID {
		t.Errorf("the other is free: %s, %v", got.Record.ID, err)
	}
	for name, w := range map[string]alloc.Want{"any": {For: me}, "by name": {For: me, VF: h.Records[0].PCI}} {
		hold(h, 1, "default/a")
		_, err := alloc.Choose(h, w)
		if err == nil || !strings.Contains(err.Error(), "being switched") || w.VF != (vf.PCIAddr{}) && !errors.Is(err, vf.ErrNotReady) {
			t.Errorf("%s: %v", name, err)
		}
		w.For = vf.Owner{Kind: vf.OwnerGuest, Name: "db1"}
		if got, err := alloc.Choose(h, w); err != nil || got.Record.ID != h.Records[0].ID {
			t.Errorf("%s, for a guest: %s, %v", name, got.Record.ID, err)
		}
	}
}

// A VF that is being made has no owner. The refusal counts it by itself, so no owner without a
// name is listed, and a VF that is released without a lease is of no owner.
func TestRoomCountsVFsBeingMade(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*alloc.Host)
		says   string
	}{
		"both are being made": {func(h *alloc.Host) { h.Records[0].Phase, h.Records[1].Phase = vf.PhaseMaking, vf.PhaseMaking },
			"0 of 2 VFs on enp1s0, enp2s0 are held, 2 being made: nothing free"},
		"the other is held": {func(h *alloc.Host) { h.Records[0].Phase = vf.PhaseMaking; hold(*h, 1, "default/a") },
			"1 of 2 VFs on enp1s0, enp2s0 are held (pod default/a), 1 being made: nothing free"},
		"released without a lease": {func(h *alloc.Host) { h.Records[0].Phase = vf.PhaseReleasing; hold(*h, 1, "default/a") },
			"2 of 2 VFs on enp1s0, enp2s0 are held (no owner; pod default/a): nothing free"},
	} {
		h := host(1)
		tc.change(&h)
		if _, err := alloc.Choose(h, alloc.Want{For: me}); !errors.Is(err, vf.ErrNothingFree) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v, want %s", name, err, tc.says)
		}
	}
	h := host(1)
	h.Records[0].Phase, h.Records[1].Phase = vf.PhaseMaking, vf.PhaseMaking
	if err := alloc.CheckFree(h, alloc.Want{}); err == nil || !strings.HasSuffix(err.Error(), "0000:01:10.0 is being made, 0000:02:10.0 is being made") {
		t.Errorf("CheckFree: %v", err)
	}
}
