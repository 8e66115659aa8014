package attach_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// isStepOf reports whether a step changes the VF of a record, which is of the given PF.
func isStepOf(s step.Step, pf vf.PCIAddr, rec journal.Record) bool {
	return step.TargetOf(s).IsVF(rec.PCI, pf, rec.ID.Index)
}

// I1: a call that hangs while a VF is mended may take effect after the next owner has the VF. So
// culvertd stops there, mends nothing more of the VF for some time, and the DEL quarantines the VF.
func TestI1HangWhileMending(t *testing.T) {
	for _, kind := range []string{"SetVFMAC", "SetVFVLAN", "SetMTU", "AddAddress"} {
		t.Run(kind, func(t *testing.T) {
			w := watchPod(t, fake.IGB, everything(t))
			var after []string
			hung := 0
			w.k.faults.Fail(func(m faulty.Moment, s step.Step) error {
				switch {
				case m != faulty.Before || !isStepOf(s, w.pf, w.rec):
				case faulty.Kind(s) == kind:
					hung++
					return fmt.Errorf("%w: it may yet take effect", vf.ErrTimeout)
				case hung > 0:
					after = append(after, faulty.Kind(s))
				}
				return nil
			})
			w.do(w.k.ResetPF(w.pf))
			w.now = w.now.Add(time.Second)
			_ = w.n.Reconciler.Pass(t.Context())
			w.now = w.now.Add(time.Second)
			_ = w.n.Reconciler.Pass(t.Context())
			if hung != 1 || len(after) > 0 {
				t.Errorf("%d calls hung, and after the first came %q", hung, after)
			}
			w.k.faults.Fail(nil)
			w.do(w.n.Resets.Detach(t.Context(), w.rec.Lease.Owner))
			if got := recordOf(t, w.n, w.rec); got.Phase != vf.PhaseQuarantined || !strings.Contains(got.Reason, "may yet take effect") {
				t.Errorf("the VF is %s: %s", got.Phase, got.Reason)
			}
			w.passAfter(time.Minute)
			clean(t, w.n, 14)
		})
	}
}

// I1: a VF gets no owner while a call that changes it hangs, however long that takes. The call takes
// effect in the end, and culvertd then resets the VF once more. Meanwhile no retry makes further
// calls for it.
func TestI1NoOwnerWhileACallHangs(t *testing.T) {
	for _, kind := range []string{"SetVFVLAN", "SetVFSwitch:trust", "SetVFRate", "SetVFMAC", "Unbind", "Bind"} {
		t.Run(kind, func(t *testing.T) {
			w := watchPod(t, fake.IGB, everything(t))
			calls, hangs := 0, 0
			w.k.faults.Fail(func(m faulty.Moment, s step.Step) error {
				if m != faulty.Before || !isStepOf(s, w.pf, w.rec) {
					return nil
				}
				calls++
				if faulty.Kind(s) == kind && hangs == 0 {
					hangs++
					return faulty.ErrHangs
				}
				return nil
			})
			w.do(w.n.Resets.Detach(t.Context(), w.rec.Lease.Owner))
			if hangs != 1 {
				t.Fatalf("the release has no step of kind %s", kind)
			}
			before := calls
			for range 10 {
				w.passAfter(time.Hour)
				if got := recordOf(t, w.n, w.rec); got.Phase != vf.PhaseQuarantined || !strings.Contains(got.Reason, "stuck in the kernel") {
					t.Fatalf("the VF is %s: %s", got.Phase, got.Reason)
				}
			}
			if calls != before {
				t.Errorf("retries made %d further calls", calls-before)
			}
			if _, err := w.n.Upkeep.Rebase(t.Context(), w.rec.PCI, nil); !errors.Is(err, vf.ErrTimeout) {
				t.Errorf("a new baseline meanwhile: %v", err)
			}
			w.do(w.k.faults.EndHangs(t.Context()))
			w.passAfter(time.Hour)
			clean(t, w.n, 14)
		})
	}
}

// I1: the removal of a bond that hangs could yet remove a bond of the VF's next owner. So its VF gets no
// owner meanwhile.
func TestI1NoOwnerWhileTheRemovalOfABondHangs(t *testing.T) {
	w := &watchedPod{t: t, now: time.Now()}
	w.k, w.n = nodeOf(t, fake.IGB)
	w.n.VFs.Now = func() time.Time { return w.now }
	got := bonded(t, w.n, plainBond(t))
	w.n.VFs.Wait() // for the announcement
	var hung *step.DelBond
	w.k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if del, is := s.(step.DelBond); is && m == faulty.Before && hung == nil {
			hung = &del
			return faulty.ErrHangs
		}
		return nil
	})
	w.do(w.n.Resets.Detach(t.Context(), got.Members[0].Lease.Owner))
	if hung == nil {
		t.Fatal("the release removes no bond")
	}
	i := slices.IndexFunc(got.Members, func(r journal.Record) bool { return r.PCI == hung.VF })
	if i < 0 {
		t.Fatalf("%s names no VF of the bond", hung)
	}
	for range 10 {
		w.passAfter(time.Hour)
		if now := recordOf(t, w.n, got.Members[i]); now.Phase != vf.PhaseQuarantined || !strings.Contains(now.Reason, "stuck in the kernel") {
			t.Fatalf("the VF is %s: %s", now.Phase, now.Reason)
		}
	}
	w.do(w.k.faults.EndHangs(t.Context()))
	w.passAfter(time.Hour)
	clean(t, w.n, 14)
}

// I1: an attach passes over a free VF if a call that changes it hangs, as after a change of the PF's
// MTU, and quarantines it.
func TestI1AttachPassesOverAVFWithACallThatHangs(t *testing.T) {
	k := fake.New(fake.IGB, 1)
	k.AddNetns(podNetns)
	m := machine{k, faulty.New(k)}
	n := start(t, m)
	var all []journal.Record
	if err := n.Ledger.View(func(tx *journal.Tx) error { all = tx.Records(); return nil }); err != nil {
		t.Fatal(err)
	}
	first := all[0]
	m.faults.Fail(func(faulty.Moment, step.Step) error { return faulty.ErrHangs })
	if err := m.faults.Do(t.Context(), step.SetMTU{VF: first.PCI, MTU: 9000}); !errors.Is(err, vf.ErrTimeout) {
		t.Fatal(err)
	}
	m.faults.Fail(nil)
	for i := range all[1:] {
		name := fmt.Sprint("net", i)
		got, err := n.Engine.Attach(t.Context(), attach.Request{
			Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: name}, Network: "blue", Netns: podNetns, Spec: vf.Spec{Interface: name},
		})
		if err != nil || got.PCI == first.PCI {
			t.Fatalf("VF %s: %v", got.PCI, err)
		}
	}
	if got := recordOf(t, n, first); got.Phase != vf.PhaseQuarantined || !strings.Contains(got.Reason, "stuck in the kernel") {
		t.Errorf("the VF is %s: %s", got.Phase, got.Reason)
	}
}

// culvertd repeats a call that hung once after some time, and so mends the pod's VF.
func TestMendingGoesOnAfterAHang(t *testing.T) {
	w := watchPod(t, fake.IGB, everything(t))
	w.k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if m == faulty.Before && isStepOf(s, w.pf, w.rec) && faulty.Kind(s) == "SetVFVLAN" {
			return vf.ErrTimeout
		}
		return nil
	})
	w.do(w.k.ResetPF(w.pf))
	w.now = w.now.Add(time.Second)
	_ = w.n.Reconciler.Pass(t.Context())
	w.k.faults.Fail(nil)
	w.passAfter(time.Second)
	vlan := func() uint16 {
		st, err := w.k.VF(t.Context(), w.rec.PCI, podNetns)
		w.do(err)
		return st.Admin.VLAN.ID
	}
	if vlan() != 0 {
		t.Error("it is mended at once after a hang")
	}
	w.passAfter(6 * time.Minute)
	if vlan() != 100 {
		t.Errorf("VLAN %d", vlan())
	}
}
