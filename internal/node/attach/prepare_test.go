package attach_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

// claimNode returns a node whose pool is offered to claims.
func claimNode(t *testing.T, kind string) (machine, *node.Node) {
	t.Helper()
	m, n := newNode(t)
	spec := n.Spec()
	spec.Pools = []desired.Pool{{Name: "a", Prefix: "x", DeviceType: kind, Offer: desired.OfferClaims}}
	n.SetSpec(spec)
	if err := n.Reconciler.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m, n
}

// wish returns a wish of claim default/UID, for pod default/a with the UID pod-a, for a VF of the first PF.
func wish(n *node.Node, uid string, index int) attach.Wish {
	return attach.Wish{VF: n.Inventory.PFs()[0].VFs[index].ID, Claim: journal.Claim{
		UID: uid, Namespace: "default", Name: uid, Request: fmt.Sprint("vf", index), Pods: []journal.ClaimPod{{Name: "a", UID: "pod-a"}}, Config: []byte(`{"x":1}`),
	}}
}

// prepared prepares VFs of the first PF for a claim.
func prepared(t *testing.T, n *node.Node, uid string, indexes ...int) []journal.Record {
	t.Helper()
	var wishes []attach.Wish
	for _, i := range indexes {
		wishes = append(wishes, wish(n, uid, i))
	}
	records, err := n.Claims.Prepare(t.Context(), wishes)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// requestOf returns the request of pod default/a for a VF of its claim.
func requestOf(t *testing.T, rec journal.Record) attach.Request {
	req := everything(t)
	req.VF, req.Owner.Name, req.PodUID = rec.PCI, "default/a", "pod-a"
	return req
}

// soundRecord returns the record of a VF.
func soundRecord(t *testing.T, n *node.Node, id vf.ID) (rec journal.Record) {
	t.Helper()
	err := n.Ledger.View(func(tx *journal.Tx) (err error) {
		if wrong := tx.Verify(); len(wrong) > 0 {
			t.Errorf("the ledger cannot be true: %v", wrong)
		}
		rec, err = tx.Record(id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// I1, I2, I8: the life of a VF of a claim. It is prepared without a change of the kernel. Its pod has it,
// and gives it back to the claim, as often as it has a new sandbox. Only Unprepare frees it.
func TestI8LifeOfAClaim(t *testing.T) {
	k, n := claimNode(t, desired.NetDevice)
	before := k.String()
	rec := prepared(t, n, "c", 3)[0]
	if rec.Phase != vf.PhasePrepared || rec.Claim.Pool != "x/a" || rec.Claim.VFs != 1 || string(rec.Claim.Config) != `{"x":1}` || !rec.Held() || k.String() != before {
		t.Fatalf("prepared: %+v, %+v", rec, rec.Claim)
	}
	again := prepared(t, n, "c", 3)[0]
	if d := cmp.Diff(soundRecord(t, n, rec.ID), again); d != "" {
		t.Errorf("prepared again, -ledger +answer:\n%s", d)
	}
	for range 2 {
		got, err := n.Engine.Attach(t.Context(), requestOf(t, rec))
		if err != nil || got.PCI != rec.PCI || got.Claim == nil || got.Claim.UID != "c" {
			t.Fatalf("the claim's pod: %+v, %v", got, err)
		}
		if err := n.Resets.Detach(t.Context(), got.Lease.Owner); err != nil {
			t.Fatal(err)
		}
		if now := soundRecord(t, n, rec.ID); now.Phase != vf.PhasePrepared || now.Claim.UID != "c" || !now.Lease.Owner.IsZero() || k.String() != before {
			t.Fatalf("after the DEL: %+v", now)
		}
	}
	for range 2 {
		if err := n.Claims.Unprepare(t.Context(), "c", nil); err != nil {
			t.Fatal(err)
		}
	}
	clean(t, n, 14)
	if d := cmp.Diff(before, k.String()); d != "" {
		t.Error(d)
	}
}

// I1, I5: a prepared VF goes to no other owner, whichever way it asks, and the number of VFs stays.
func TestI1PreparedVFIsTheClaimsAlone(t *testing.T) {
	_, n := claimNode(t, desired.NetDevice)
	rec := prepared(t, n, "c", 3)[0]
	other := requestOf(t, rec)
	other.PodUID = "pod-b"
	unknown := requestOf(t, rec)
	unknown.PodUID = ""
	guest := attach.Request{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "g", Name: "db1", Interface: "net1"}, VF: rec.PCI, PodUID: "pod-a"}
	for name, req := range map[string]attach.Request{"another pod": other, "a pod without a UID": unknown, "a guest": guest} {
		if got, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "claim default/c") {
			t.Errorf("%s: %s, %v", name, got.PCI, err)
		}
	}
	for i := range 13 { // any other VF
		req := attach.Request{Owner: vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(i), Name: "default/a", Interface: "net1"}, PodUID: "pod-a", Netns: podNetns,
			Spec: vf.Spec{Interface: fmt.Sprint("n", i)}}
		if got, err := n.Engine.Attach(t.Context(), req); err != nil || got.PCI == rec.PCI {
			t.Fatalf("pod %d: %s, %v", i, got.PCI, err)
		}
	}
	req := everything(t)
	req.Owner.UID = "last"
	if got, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrNothingFree) || !strings.Contains(err.Error(), "claim default/c") {
		t.Errorf("when all others are held: %s, %v", got.PCI, err)
	}
	if _, err := n.Upkeep.Rebase(t.Context(), rec.PCI, nil); !errors.Is(err, vf.ErrHeld) {
		t.Errorf("a new baseline: %v", err)
	}
	spec := n.Spec()
	spec.PFs[0].Want.VFs = 1
	plan := reconcile.Plan(spec, n.Inventory.PFs(), []journal.Record{soundRecord(t, n, rec.ID)}, nil)[0]
	if err := plan.Refused(); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "claim default/c") {
		t.Errorf("another number of VFs: %v", err)
	}
}

// I1: a claim gets all of its VFs or none. It gets none that an owner or another claim has, that the
// kubelet gave to a pod, or that is not offered to claims of its namespace.
func TestI1PrepareRefuses(t *testing.T) {
	_, n := claimNode(t, desired.NetDevice)
	got, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	prepared(t, n, "other", 5)
	given := n.Inventory.PFs()[0].VFs[6].PCI
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(a vf.PCIAddr) string { return map[vf.PCIAddr]string{given: "default/b"}[a] }, nil
	}
	held, gone, strange := wish(n, "c", 0), wish(n, "c", 0), wish(n, "c", 0)
	held.VF, gone.VF.Index, strange.VF.PF.MAC[5] = got.ID, 30, 99
	for want, w := range map[string]attach.Wish{
		"held by pod default/a": held, "held by claim default/other": wish(n, "c", 5), "pod default/b": wish(n, "c", 6),
		"has 7 VFs": gone, "not on this node": strange,
	} {
		_, err := n.Claims.Prepare(t.Context(), []attach.Wish{wish(n, "c", 4), w})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, change := range map[string]func(*desired.Pool){
		"offered as a resource": func(p *desired.Pool) { p.Offer = desired.OfferResource },
		"namespace default":     func(p *desired.Pool) { p.Allow = &desired.Allow{Namespaces: []string{"gold"}} },
		"is in no pool":         func(p *desired.Pool) { p.Selectors = []desired.Selector{{Drivers: []string{"none"}}} },
	} {
		spec := n.Spec()
		was := spec.Pools
		spec.Pools = slices.Clone(was)
		change(&spec.Pools[0])
		n.SetSpec(spec)
		if _, err := n.Claims.Prepare(t.Context(), []attach.Wish{wish(n, "c", 4)}); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		spec.Pools = was
		n.SetSpec(spec)
	}
	if records, err := n.Claims.Claimed("c"); err != nil || len(records) != 0 {
		t.Errorf("the claim has %d VFs, %v", len(records), err)
	}
	spec := n.Spec()
	spec.Pools = slices.Clone(spec.Pools)
	spec.Pools[0].Allow = &desired.Allow{Namespaces: []string{"default"}, MaxTxRate: 100}
	n.SetSpec(spec)
	prepared(t, n, "c", 4) // allow has more to say at the ADD
}

// I2, I3: a VF that is dirty when it is to be prepared goes to quarantine, and the claim gets it when it
// was reset. One that is in use stays as it is.
func TestI3PrepareTakesNoDirtyVF(t *testing.T) {
	k, n := claimNode(t, desired.NetDevice)
	w := wish(n, "c", 2)
	pci := n.Inventory.PFs()[0].VFs[2].PCI
	if err := k.Meddle(pci, func(st *vf.State) { st.Admin.Trust = vf.Yes }); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Claims.Prepare(t.Context(), []attach.Wish{w}); !errors.Is(err, vf.ErrNotReady) || !strings.Contains(err.Error(), "trust") {
		t.Errorf("a dirty VF: %v", err)
	}
	if _, err := n.Claims.Prepare(t.Context(), []attach.Wish{w}); !errors.Is(err, vf.ErrNotReady) || !strings.Contains(err.Error(), "quarantine") {
		t.Errorf("in quarantine: %v", err)
	}
	n.VFs.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if err := n.Upkeep.Tend(t.Context(), n.Inventory.PFs()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Claims.Prepare(t.Context(), []attach.Wish{w}); err != nil {
		t.Errorf("when it was reset: %v", err)
	}
}

// I2, I3: upkeep takes a prepared VF back to its baseline, and the claim keeps it. A VF that the claim's
// pod uses without a lease is left alone, and that is no use outside Culvert.
func TestI2PreparedVFIsMended(t *testing.T) {
	k, n := claimNode(t, desired.VFIO)
	rec := prepared(t, n, "c", 2)[0]
	tend := func() {
		t.Helper()
		if _, err := n.Inventory.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := n.Upkeep.Tend(t.Context(), n.Inventory.PFs()); err != nil {
			t.Fatal(err)
		}
	}
	before := k.String()
	if err := k.Meddle(rec.PCI, func(st *vf.State) { st.Admin.Trust = vf.Yes }); err != nil {
		t.Fatal(err)
	}
	if err := k.Open(rec.PCI, vf.Process{PID: 7, Name: "dpdk"}); err != nil {
		t.Fatal(err)
	}
	tend()
	if st, err := k.VF(t.Context(), rec.PCI, ""); err != nil || st.Admin.Trust != vf.Yes || n.VFs.LastUse(rec) != (vf.Use{}) {
		t.Errorf("while a program uses it: %+v, %v, use %v", st.Admin, err, n.VFs.LastUse(rec))
	}
	if err := k.Open(rec.PCI); err != nil {
		t.Fatal(err)
	}
	tend()
	now := soundRecord(t, n, rec.ID)
	if d := cmp.Diff(before, k.String()); d != "" || now.Phase != vf.PhasePrepared || now.Claim.UID != "c" {
		t.Errorf("after upkeep: %+v\n%s", now, d)
	}
}

// I3, I8: Unprepare ends a lease whose DEL was lost. A VF that cannot be reset stays in quarantine, without
// the claim; a later Unprepare has nothing to do. A dirty VF is reset.
func TestI8UnprepareEndsALease(t *testing.T) {
	k, n := claimNode(t, desired.NetDevice)
	before := k.String()
	records := prepared(t, n, "c", 1, 2)
	if _, err := n.Engine.Attach(t.Context(), requestOf(t, records[0])); err != nil {
		t.Fatal(err)
	}
	if err := k.Meddle(records[1].PCI, func(st *vf.State) { st.Admin.Trust = vf.Yes }); err != nil {
		t.Fatal(err)
	}
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, ok := s.(step.SetVFVLAN); ok && m == faulty.Before {
			return errInjected
		}
		return nil
	})
	if err := n.Claims.Unprepare(t.Context(), "c", nil); err != nil {
		t.Fatal(err)
	}
	if now := soundRecord(t, n, records[0].ID); now.Phase != vf.PhaseQuarantined || now.Claim != nil {
		t.Errorf("the VF that cannot be reset: %+v", now)
	}
	if now := soundRecord(t, n, records[1].ID); now.Phase != vf.PhaseFree || now.Claim != nil {
		t.Errorf("the dirty VF: %+v", now)
	}
	if _, err := n.Claims.Prepare(t.Context(), []attach.Wish{wish(n, "d", 1)}); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("another claim gets the VF in quarantine: %v", err)
	}
	k.faults.Fail(nil)
	n.VFs.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if err := n.Upkeep.Tend(t.Context(), n.Inventory.PFs()); err != nil {
		t.Fatal(err)
	}
	clean(t, n, 14)
	if d := cmp.Diff(before, k.String()); d != "" {
		t.Error(d)
	}
}

// I3: a VF of a claim that went to quarantine comes back to the claim.
func TestI3QuarantineKeepsTheClaim(t *testing.T) {
	k, n := claimNode(t, desired.VFIO)
	rec := prepared(t, n, "c", 1)[0]
	got, err := n.Engine.Attach(t.Context(), attach.Request{
		Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}, VF: rec.PCI, PodUID: "pod-a", Spec: vf.Spec{VLAN: &vf.VLAN{ID: 5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, ok := s.(step.SetVFVLAN); ok && m == faulty.Before {
			return errInjected
		}
		return nil
	})
	if err := n.Resets.Detach(t.Context(), got.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	now := soundRecord(t, n, rec.ID)
	if now.Phase != vf.PhaseQuarantined || now.Claim == nil {
		t.Fatalf("after a reset that failed: %+v", now)
	}
	if err := k.Open(rec.PCI, vf.Process{PID: 7, Name: "qemu"}); err != nil {
		t.Fatal(err)
	}
	guest := attach.Request{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "g", Name: "db1", Interface: "net1"}, VF: rec.PCI}
	if err := n.Upkeep.Adopt(t.Context(), guest); err != nil || soundRecord(t, n, rec.ID).Phase != vf.PhaseQuarantined {
		t.Errorf("a guest adopts it: %v", err)
	}
	if err := k.Open(rec.PCI); err != nil {
		t.Fatal(err)
	}
	k.faults.Fail(nil)
	n.VFs.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if err := n.Upkeep.Tend(t.Context(), n.Inventory.PFs()); err != nil {
		t.Fatal(err)
	}
	if now := soundRecord(t, n, rec.ID); now.Phase != vf.PhasePrepared || now.Claim == nil || now.Claim.UID != "c" {
		t.Errorf("when it was reset: %+v", now)
	}
}

// I3: a VF of user space is reset by Unprepare also if it had no lease: its pod had the device nodes.
func TestI3UnprepareResetsUserSpace(t *testing.T) {
	k, n := claimNode(t, desired.VFIO)
	rec := prepared(t, n, "c", 1)[0]
	resets := 0
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if r, ok := s.(step.Reset); ok && m == faulty.Before && r.VF == rec.PCI {
			resets++
		}
		return nil
	})
	if err := n.Claims.Unprepare(t.Context(), "c", nil); err != nil || resets != 1 {
		t.Errorf("%d resets, %v", resets, err)
	}
	clean(t, n, 14)
}

// I7: a VF that is gone from the bus keeps no claim from its end.
func TestI7ClaimWhoseVFIsGone(t *testing.T) {
	k, n := claimNode(t, desired.NetDevice)
	records := prepared(t, n, "c", 1, 2)
	if err := k.RemoveVF(records[0].PCI); err != nil {
		t.Fatal(err)
	}
	if err := n.Claims.Unprepare(t.Context(), "c", nil); err != nil {
		t.Fatal(err)
	}
	clean(t, n, 13)
}

// I1: claims and pods that want one VF at once: one claim has it, or one pod.
func TestI1PrepareIsConcurrent(t *testing.T) {
	_, n := claimNode(t, desired.NetDevice)
	var wg errgroup.Group
	for round := range 4 {
		for i := range 4 {
			uid := fmt.Sprint("c", i)
			wg.Go(func() error {
				_, err := n.Claims.Prepare(t.Context(), []attach.Wish{wish(n, uid, (i+round)%2), wish(n, uid, 2)})
				if err != nil && !errors.Is(err, vf.ErrHeld) && !errors.Is(err, vf.ErrNotReady) {
					t.Errorf("%s: %v", uid, err)
				}
				if err := n.Claims.Unprepare(t.Context(), uid, nil); err != nil {
					t.Errorf("%s ends: %v", uid, err)
				}
				return nil
			})
			wg.Go(func() error {
				req := attach.Request{Owner: vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(round, i), Name: "default/b", Interface: "net1"}, Netns: podNetns, Spec: vf.Spec{Interface: fmt.Sprint("n", round, i)}}
				if _, err := n.Engine.Attach(t.Context(), req); err != nil {
					t.Errorf("a pod: %v", err)
				}
				return n.Resets.Detach(t.Context(), req.Owner)
			})
		}
	}
	if err := wg.Wait(); err != nil {
		t.Error(err)
	}
	clean(t, n, 14)
}
