package attach_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/attach/upkeep"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// answers has the cluster's answer to the engine's questions about pods, and a clock.
type answers struct {
	knows bool
	err   error
	asked int
	now   time.Time
}

func (a *answers) knowsPod(context.Context, journal.Lease) (bool, error) {
	a.asked++
	return a.knows, a.err
}

// serve makes the engine of a node use these answers and their clock.
func (a *answers) serve(n *node.Node) {
	a.now = time.Now()
	n.Upkeep.KnowsPod = a.knowsPod
	n.VFs.Now = func() time.Time { return a.now }
}

// watchFor makes a pass each half minute.
func (a *answers) watchFor(t *testing.T, n *node.Node, d time.Duration) {
	t.Helper()
	for range int(d / (30 * time.Second)) {
		pass(t, n)
		a.now = a.now.Add(30 * time.Second)
	}
	pass(t, n)
}

func pass(t *testing.T, n *node.Node) {
	t.Helper()
	if err := n.Reconciler.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// isHeld reports whether a lease is still there.
func isHeld(t *testing.T, n *node.Node, of journal.Record) bool {
	t.Helper()
	now := recordOf(t, n, of)
	return now.Phase == vf.PhaseAttached && now.Generation == of.Generation
}

// lostDEL attaches a VF to a pod whose netns then goes away without a DEL.
func lostDEL(t *testing.T) (machine, *node.Node, *answers, journal.Record) {
	t.Helper()
	k, n := newNode(t)
	a := &answers{}
	a.serve(n)
	rec, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	k.DelNetns(podNetns)
	return k, n, a, rec
}

// I2, I4: a lease whose DEL was lost ends when the VF is back on the host and the pod
// is gone. It is gone when API server and kubelet have both not known it for five
// minutes. The VF is clean, its addresses are free, and an event names the pod.
func TestI2LostDELEndsTheLease(t *testing.T) {
	_, n, a, rec := lostDEL(t)
	a.watchFor(t, n, 4*time.Minute+30*time.Second)
	if !isHeld(t, n, rec) {
		t.Fatal("the lease ended before its time")
	}
	a.watchFor(t, n, time.Minute)
	if isHeld(t, n, rec) {
		t.Fatal("the VF of a pod that is gone is held for ever")
	}
	clean(t, n, 14)
	var events []journal.Event
	if err := n.Ledger.View(func(tx *journal.Tx) error {
		events = tx.Events(0)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1]
	if last.Reason != "PodGone" || last.Type != journal.Warning || !strings.Contains(last.Text, "pod default/a") {
		t.Errorf("event %+v", last)
	}
}

// I8: a DEL that comes after all leaves the VF to its next owner.
func TestI8LateDELAfterALostOne(t *testing.T) {
	k, n, a, rec := lostDEL(t)
	a.watchFor(t, n, 6*time.Minute)
	k.AddNetns(podNetns)
	next := everything(t)
	next.VF, next.Owner.UID, next.Owner.Name = rec.PCI, "c2", "default/b"
	got, err := n.Engine.Attach(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Errorf("late DEL: %v", err)
	}
	if err := n.Resets.End(t.Context(), rec); err != nil {
		t.Errorf("late end of the lease: %v", err)
	}
	if !isHeld(t, n, got) {
		t.Error("a late DEL took the VF of the next owner")
	}
}

// A lease stays while the API server or the kubelet knows the pod or does not answer,
// and while the VF is with the pod. An answer that was not "unknown" makes the wait
// start again.
func TestLeaseStaysUnlessItsPodIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*answers)
		asks   bool
	}{
		"known":        {func(a *answers) { a.knows = true }, true},
		"not answered": {func(a *answers) { a.err = vf.ErrNotReady }, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, n, a, rec := lostDEL(t)
			a.watchFor(t, n, 4*time.Minute)
			test.change(a)
			a.watchFor(t, n, 10*time.Minute)
			*a = answers{now: a.now}
			a.watchFor(t, n, 4*time.Minute)
			if !isHeld(t, n, rec) {
				t.Error("the lease ended")
			}
			a.watchFor(t, n, 2*time.Minute)
			if isHeld(t, n, rec) {
				t.Error("the lease did not end after the wait started again")
			}
		})
	}
	t.Run("culvertd starts again", func(t *testing.T) {
		_, n, a, rec := lostDEL(t)
		a.watchFor(t, n, 4*time.Minute)
		again := upkeep.New(n.VFs, n.Resets, n.Loans, n.Engine, n.Upkeep.Config)
		a.now = a.now.Add(4 * time.Minute)
		if err := again.Tend(t.Context(), n.Inventory.PFs()); err != nil || !isHeld(t, n, rec) {
			t.Errorf("held %t: %v", isHeld(t, n, rec), err)
		}
	})
	t.Run("the clock is set back", func(t *testing.T) {
		_, n, a, rec := lostDEL(t)
		a.watchFor(t, n, 2*time.Minute)
		a.now = a.now.Add(-time.Hour)
		a.watchFor(t, n, 6*time.Minute)
		if isHeld(t, n, rec) {
			t.Error("the lease stays until the clock is where it was")
		}
	})
	t.Run("in its netns", func(t *testing.T) {
		_, n := newNode(t)
		a := &answers{}
		a.serve(n)
		rec, err := n.Engine.Attach(t.Context(), everything(t))
		if err != nil {
			t.Fatal(err)
		}
		a.watchFor(t, n, 10*time.Minute)
		if !isHeld(t, n, rec) || a.asked > 0 {
			t.Errorf("held %t, asked %d times", isHeld(t, n, rec), a.asked)
		}
	})
}

// A container outside Kubernetes has no kubelet to ask about it, and a host without a
// cluster knows no pods: their leases wait for DEL or GC.
func TestLeaseOutsideKubernetesWaitsForGC(t *testing.T) {
	k, n := newNode(t)
	a := &answers{}
	a.serve(n)
	req := everything(t)
	req.Owner = vf.Owner{Kind: vf.OwnerContainer, UID: "c1", Interface: "net1"}
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	k.DelNetns(podNetns)
	a.watchFor(t, n, 10*time.Minute)
	if !isHeld(t, n, rec) {
		t.Error("the lease of a container ended")
	}
	if err := n.Resets.Collect(t.Context(), "blue", nil); err != nil || isHeld(t, n, rec) {
		t.Errorf("GC left it: %v", err)
	}
	_, n, a, rec = lostDEL(t)
	n.Upkeep.KnowsPod = nil
	a.watchFor(t, n, 10*time.Minute)
	if !isHeld(t, n, rec) {
		t.Error("a lease ended on a host without a cluster")
	}
}

// A VF of vfio has no netns: it is back when no process has it open.
func TestLostDELOfAVFIODevice(t *testing.T) {
	k, n := newNode(t)
	forGuests(t, n)
	a := &answers{}
	a.serve(n)
	rec, err := n.Engine.Attach(t.Context(), attach.Request{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Open(rec.PCI, vf.Process{PID: 4711, Name: "testpmd"}); err != nil {
		t.Fatal(err)
	}
	a.watchFor(t, n, 10*time.Minute)
	if !isHeld(t, n, rec) {
		t.Fatal("the lease ended while a process had the VF open")
	}
	if err := k.Open(rec.PCI); err != nil {
		t.Fatal(err)
	}
	a.watchFor(t, n, 6*time.Minute)
	if isHeld(t, n, rec) {
		t.Error("the VF of a pod that is gone is held for ever")
	}
}

// I2: a VF without a driver is back from its pod, since no interface of it can be there. So its lease
// ends when the DEL was lost.
func TestLostDELOfAVFWithoutADriver(t *testing.T) {
	k, n, a, rec := lostDEL(t)
	if err := k.Meddle(rec.PCI, func(st *vf.State) { st.Driver, st.Link = "", nil }); err != nil {
		t.Fatal(err)
	}
	a.watchFor(t, n, 6*time.Minute)
	if isHeld(t, n, rec) {
		t.Error("the lease stays for ever")
	}
}

// I7: times that were written before the clock was set back hold nothing up. Such times are the retry
// of a quarantined VF, the end of a loan, and the end of a duplicate address's rest.
func TestI7ClockThatWasSetBack(t *testing.T) {
	k, n := newNode(t)
	a := &answers{now: time.Now()}
	n.VFs.Now = func() time.Time { return a.now }
	k.SetElsewhere(netip.MustParseAddr("fd00::2"), true)
	kept, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil || len(n.Engine.Duplicates()) != 1 {
		t.Fatalf("%v; duplicates %v", err, n.Engine.Duplicates())
	}
	if _, err := n.Loans.Lend(t.Context(), kept.PCI, 50, time.Minute); err != nil {
		t.Fatal(err)
	}
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if vlan, is := s.(step.SetVFVLAN); is && vlan.VLAN.ID == 9 && m == faulty.Before {
			return nil // and all after it fails
		}
		return errInjected
	})
	other := limited(vf.Spec{VLAN: &vf.VLAN{ID: 9}})
	other.Owner.UID = "c2"
	dirty, err := n.Engine.Attach(t.Context(), other)
	if err == nil {
		t.Fatalf("attached %s", dirty.PCI)
	}
	k.faults.Fail(nil)
	quarantined := func() (count int) {
		records, err := journal.ReadRecords(n.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Phase == vf.PhaseQuarantined {
				count++
			}
		}
		return count
	}
	if quarantined() == 0 {
		t.Fatal("no VF is in quarantine")
	}
	a.now = a.now.Add(-24 * time.Hour)
	pass(t, n)
	if q := quarantined(); q != 0 {
		t.Errorf("%d VFs wait in quarantine for a time that is a day away", q)
	}
	if now := recordOf(t, n, kept); now.Lease.Lent != nil {
		t.Errorf("the loan stays: %+v", now.Lease.Lent)
	}
	if d := n.Engine.Duplicates(); len(d) > 0 {
		t.Errorf("set aside for a day: %v", d)
	}
}
