package reconcile_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// I7: a PF whose VFs take for ever to be made delays no owner on another PF. culvertd
// leaves it alone until it is done.
func TestI7SlowPFDelaysNobody(t *testing.T) {
	h := boot(t, isWanted)
	slow := vf.PCIAddr{Bus: 1}
	begun, release := make(chan struct{}, 8), make(chan struct{})
	h.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if n, ok := s.(step.SetNumVFs); ok && n.PF == slow && m == faulty.Before {
			begun <- struct{}{}
			<-release
		}
		return nil
	})
	first := make(chan error, 1)
	go func() { first <- h.Reconciler.Pass(t.Context()) }()
	<-begun
	for h.free(t) == 0 { // the first pass is at the other PF, too
		if err := h.Reconciler.Pass(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(begun) > 0 {
		t.Error("the slow PF was written to again while it was busy")
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	h.faults.Fail(nil)
	h.pass(t)
	for _, r := range h.all(t) {
		if r.Phase != vf.PhaseFree {
			t.Errorf("VF %s is %s in the end", r.ID, r.Phase)
		}
	}
}

// free counts the PFs that have free VFs.
func (h *host) free(t *testing.T) int {
	t.Helper()
	pfs := map[vf.PFID]int{}
	for _, r := range h.all(t) {
		if r.Phase == vf.PhaseFree {
			pfs[r.ID.PF]++
		}
	}
	return len(pfs)
}

func (h *host) all(t *testing.T) []journal.Record {
	t.Helper()
	all, err := journal.ReadRecords(h.ledger)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantWaiting fails the test if an Apply ends at once.
func wantWaiting(t *testing.T, ended chan error) {
	t.Helper()
	select {
	case err := <-ended:
		t.Errorf("Apply did not wait: %v", err)
		ended <- err
	case <-time.After(50 * time.Millisecond):
	}
}

// TestApplyWaits: Apply returns when the host is as the Spec wants, even if another pass works on
// the PF by an older Spec at first. Pass leaves such a PF alone.
func TestApplyWaits(t *testing.T) {
	h := boot(t, "pfs: [{name: enp1s0, vfs: 4}]\npools: [{name: a}]\n")
	begun, release := make(chan struct{}, 1), make(chan struct{})
	var once sync.Once
	h.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, ok := s.(step.SetNumVFs); ok && m == faulty.Before {
			once.Do(func() {
				close(begun)
				<-release
			})
		}
		return nil
	})
	first, applied := make(chan error, 1), make(chan error, 1)
	go func() { first <- h.Reconciler.Pass(t.Context()) }()
	<-begun
	h.want(t, "pfs: [{name: enp1s0, vfs: 2}]\npools: [{name: a}]\n")
	if err := h.Reconciler.Pass(t.Context()); err != nil {
		t.Errorf("a pass beside the first one: %v", err)
	}
	go func() { applied <- h.Reconciler.Apply(t.Context(), false) }()
	wantWaiting(t, applied)
	close(release)
	if err := errors.Join(<-first, <-applied); err != nil {
		t.Error(err)
	}
	if pfs, err := h.k.PFs(t.Context()); err != nil || pfs[0].NumVFs != 2 || h.phases(t) != "map[free:2]" {
		t.Errorf("%d VFs, %s, %v; want 2 that are free", pfs[0].NumVFs, h.phases(t), err)
	}
}

// TestForcedApplyIsNotDropped: a forced Apply that comes while another pass works on a PF waits for
// that pass, and then changes the number of VFs by force.
func TestForcedApplyIsNotDropped(t *testing.T) {
	const four, two = "pfs: [{name: enp1s0, vfs: 4}]\npools: [{name: a}]\n", "pfs: [{name: enp1s0, vfs: 2}]\npools: [{name: a}]\n"
	h := boot(t, four)
	h.pass(t)
	h.k.AddNetns("/run/netns/a")
	rec, err := h.Engine.Attach(t.Context(), attach.Request{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c", Interface: "net1"}, Netns: "/run/netns/a", Spec: vf.Spec{Interface: "net1"}})
	if err != nil {
		t.Fatal(err)
	}
	h.VFs.Wait()
	begun, release := make(chan struct{}, 1), make(chan struct{})
	h.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, ok := s.(step.SetPFMTU); ok && m == faulty.Before {
			begun <- struct{}{}
			<-release
		}
		return nil
	})
	h.want(t, "pfs: [{name: enp1s0, vfs: 4, mtu: 9000}]\npools: [{name: a}]\n")
	first, forced := make(chan error, 1), make(chan error, 1)
	go func() { first <- h.Reconciler.Pass(t.Context()) }()
	<-begun
	h.want(t, two)
	if err := h.Reconciler.Pass(t.Context()); err != nil {
		t.Errorf("without force: %v", err)
	}
	go func() { forced <- h.Reconciler.Apply(t.Context(), true) }()
	wantWaiting(t, forced)
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the first pass: %v", err)
	}
	if err := <-forced; err != nil {
		t.Errorf("the forced pass: %v", err)
	}
	pfs, err := h.k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if pfs[0].NumVFs != 2 {
		t.Errorf("%d VFs, want 2: what was forced was dropped (VF %s is held)", pfs[0].NumVFs, rec.PCI)
	}
}
