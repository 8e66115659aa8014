package reconcile_test

import (
	"testing"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/faulty"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// I7: a PF whose VFs take for ever to be made keeps nobody from those of
// another PF, and is left alone until it is done.
func TestI7SlowPFDelaysNobody(t *testing.T) {
	h := boot(t, wanted)
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
	go func() { first <- h.Reconciler.Pass(t.Context(), false) }()
	<-begun
	for h.free(t) == 0 { // the first pass is at the other PF, too
		if err := h.Reconciler.Pass(t.Context(), false); err != nil {
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
		if r.Phase != journal.Free {
			t.Errorf("VF %s is %s in the end", r.ID, r.Phase)
		}
	}
}

// free counts the PFs that have free VFs.
func (h *host) free(t *testing.T) int {
	t.Helper()
	pfs := map[vf.PFID]int{}
	for _, r := range h.all(t) {
		if r.Phase == journal.Free {
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
