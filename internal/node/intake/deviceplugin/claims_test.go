package deviceplugin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// claimsHost returns a host with a PF of nine VFs in the pool x/a, and the records of the first eight.
func claimsHost(way desired.Offer) host {
	pf := onPF(1, 0)
	pf.Up, pf.Carrier = true, true
	h := host{
		spec:  desired.Spec{Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice, Offer: way}}},
		newer: func(journal.Record, time.Time) bool { return true },
	}
	claim := &journal.Claim{UID: "c", Namespace: "default", Name: "c", Pool: "x/a"}
	for i, r := range []journal.Record{
		{Phase: vf.PhaseFree},
		{Phase: vf.PhasePrepared, Claim: claim},
		{Phase: vf.PhaseAttached, Claim: claim, Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, Name: "default/p"}}, Baseline: vf.Baseline{Driver: "igbvf"}},
		{Phase: vf.PhaseQuarantined, Claim: claim},
		{Phase: vf.PhaseQuarantined},
		{Phase: vf.PhaseAttached, Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerGuest, Name: "g"}}},
		{Phase: vf.PhaseAttached, Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, Name: "default/q"}}},
		{Phase: vf.PhaseFree}, // the kubelet gave it to a pod
	} {
		r.ID, r.PCI = vf.ID{PF: pf.ID, Index: i}, vf.PCIAddr{Bus: 1, Device: 0x10, Function: uint8(i)}
		h.records = append(h.records, r)
	}
	for i := range 9 {
		pf.VFs = append(pf.VFs, vf.State{ID: vf.ID{PF: pf.ID, Index: i}, PCI: vf.PCIAddr{Bus: 1, Device: 0x10, Function: uint8(i)}, NUMA: -1, Driver: "igbvf", Link: &vf.Link{}})
	}
	pf.VFs[2].Driver, pf.VFs[2].Link = "", nil // in its pod
	h.pfs = []vf.PF{pf}
	return h
}

// describeView returns the VFs of a host for claims: free, claimed or used.
func describeView(h host, given int) (out map[int]string, waits bool) {
	view, waits := h.viewClaims(h.devicesByPool(func(journal.Record) bool { return true }), func(a vf.PCIAddr) bool { return int(a.Function) == given })
	out = map[int]string{}
	for _, v := range view.VFs {
		out[v.State.ID.Index] = map[[2]bool]string{{true, false}: "free", {false, true}: "claimed", {false, false}: "used"}[[2]bool{v.IsFree, v.IsClaimed}]
	}
	return out, waits
}

// A VF is free for claims if it is free and no pod has it from the kubelet. A claim's VF is there
// whatever its health, also when its pool is offered to the kubelet.
func TestVFsForClaims(t *testing.T) {
	const free, claimed, used = "free", "claimed", "used"
	got, waits := describeView(claimsHost(desired.OfferClaims), 7)
	want := map[int]string{0: free, 1: claimed, 2: claimed, 3: claimed, 4: used, 5: used, 6: used, 7: used, 8: used}
	if diff := cmp.Diff(want, got); diff != "" || !waits {
		t.Errorf("waits %t (-want +got):\n%s", waits, diff)
	}
	want[7] = free
	if got, waits := describeView(claimsHost(desired.OfferClaims), -1); cmp.Diff(want, got) != "" || waits {
		t.Errorf("without a pod of the kubelet: %v, waits %t", got, waits)
	}
	lost := claimsHost(desired.OfferClaims)
	lost.pfs[0].Name, lost.pfs[0].Up, lost.pfs[0].Carrier = "enp1s0", true, false
	for _, d := range lost.devicesByPool(func(journal.Record) bool { return true })["x/a"] {
		if d.free || d.unfit == "" {
			t.Errorf("a PF without a link: the kubelet gets %+v", d)
		}
	}
	if got, _ := describeView(lost, -1); cmp.Diff(want, got) != "" {
		t.Errorf("a PF without a link: %v", got) // with a taint
	}
	got, _ = describeView(claimsHost(desired.OfferResource), 7)
	if diff := cmp.Diff(map[int]string{1: claimed, 2: claimed, 3: claimed}, got); diff != "" {
		t.Errorf("offered to the kubelet (-want +got):\n%s", diff)
	}
	view, _ := claimsHost(desired.OfferResource).viewClaims(nil, func(vf.PCIAddr) bool { return false })
	if d := view.VFs[1].State.Driver; d != "igbvf" {
		t.Errorf("the VF of a pod has the driver %q, want that of its baseline", d)
	}
}

// The VF of a claim stays although its PF cannot be read, or has not been read since culvertd started.
func TestClaimedVFsOfAnUnreadPF(t *testing.T) {
	h := claimsHost(desired.OfferClaims)
	h.unread, h.pfs = h.pfs, nil
	got, _ := describeView(h, -1)
	for index, want := range map[int]string{0: "used", 1: "claimed", 2: "claimed", 3: "claimed"} {
		if got[index] != want {
			t.Errorf("VF %d of a PF that cannot be read is %q, want %s", index, got[index], want)
		}
	}
	h.unread = nil
	got, _ = describeView(h, -1)
	if diff := cmp.Diff(map[int]string{1: "claimed", 2: "claimed", 3: "claimed"}, got); diff != "" {
		t.Errorf("without a reading (-want +got):\n%s", diff)
	}
}

// The kubelet gets no VF that a claim holds, whether a pod has it or not.
func TestClaimedVFsAreUnhealthyForTheKubelet(t *testing.T) {
	for _, d := range claimsHost(desired.OfferResource).devicesByPool(func(journal.Record) bool { return true })["x/a"] {
		if i := d.pci.Function; (i == 1 || i == 2) && (d.unfit != "held by claim default/c" || d.free) {
			t.Errorf("VF %d: free %t, %q", i, d.free, d.unfit)
		}
	}
}
