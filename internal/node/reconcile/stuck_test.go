package reconcile_test

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// I1: a call that an earlier VF left stuck in the kernel may move the VF that was made anew at its
// address. That VF is not given out before the call has returned, and then it is on the host.
func TestI1VFMadeAnewWaitsForAStuckCall(t *testing.T) {
	h := boot(t, "pfs: [{name: enp1s0, vfs: 2}]")
	h.pass(t)
	pf, pod := vf.PCIAddr{Bus: 1}, "/run/netns/pod"
	stuck := h.all(t)[0]
	h.k.AddNetns(pod)
	h.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, isMove := s.(step.Move); isMove && m == faulty.Before {
			return faulty.ErrHangs
		}
		return nil
	})
	_ = h.faults.Do(t.Context(), step.Move{VF: stuck.PCI, To: pod, Name: "net1"})
	h.faults.Fail(nil)
	if err := h.k.WriteNumVFs(pf, 0); err != nil {
		t.Fatal(err)
	}
	if err := h.Reconciler.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "is stuck in the kernel") {
		t.Errorf("the pass: %v", err)
	}
	for _, r := range h.all(t) {
		if want := map[bool]vf.Phase{true: vf.PhaseMaking, false: vf.PhaseFree}[r.ID == stuck.ID]; r.Phase != want {
			t.Errorf("%s is %s, want %s", r.ID, r.Phase, want)
		}
	}
	_ = h.faults.EndHangs(t.Context()) // fails: the VF has no interface yet
	h.pass(t)
	for _, r := range h.all(t) {
		v, err := h.k.VF(t.Context(), r.PCI, "")
		if err != nil || r.Phase != vf.PhaseFree || v.Link == nil {
			t.Errorf("%s is %s, interface %v, %v", r.ID, r.Phase, v.Link, err)
		}
	}
}
