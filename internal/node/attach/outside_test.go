package attach_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// vfioNode returns a node whose pool is for user space, and a request for one of its VFs.
func vfioNode(t *testing.T) (machine, *node.Node, attach.Request) {
	t.Helper()
	m, n := newNode(t)
	spec := n.Spec()
	spec.Pools = []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.VFIO}}
	n.SetSpec(spec)
	if err := n.Reconciler.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m, n, attach.Request{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}, Network: "blue"}
}

func countPhase(t *testing.T, n *node.Node, phase vf.Phase) (count int) {
	t.Helper()
	records, err := journal.ReadRecords(n.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Phase == phase {
			count++
		}
	}
	return count
}

// I3: "could not look" is never "dirty". While the kernel does not say who uses VFs, an attach answers "try
// again", and all VFs stay free. It succeeds as soon as culvertd can look.
func TestI3CouldNotLookIsNotDirty(t *testing.T) {
	m, n, req := vfioNode(t)
	m.faults.FailReads(func(_ context.Context, r faulty.Reading) error {
		if r.Kind == faulty.ReadUses || r.Kind == faulty.ReadUsers {
			return fmt.Errorf("%w: a process has very many files", vf.ErrTimeout)
		}
		return nil
	})
	_, err := n.Engine.Attach(t.Context(), req)
	if !errors.Is(err, vf.ErrNotReady) || !strings.Contains(err.Error(), "try again") || !strings.Contains(err.Error(), "very many files") {
		t.Errorf("the answer: %v", err)
	}
	if free := countPhase(t, n, vf.PhaseFree); free != 14 {
		t.Errorf("%d VFs are free, want all 14", free)
	}
	m.faults.FailReads(nil)
	if _, err := n.Engine.Attach(t.Context(), req); err != nil {
		t.Error(err)
	}
}

// I3: an attach passes over a VF that cannot be read, which stays free, and takes another.
func TestI3AttachPassesOverAnUnreadVF(t *testing.T) {
	m, n, req := vfioNode(t)
	var unread vf.PCIAddr
	m.faults.FailReads(func(_ context.Context, r faulty.Reading) error {
		if r.Kind != faulty.ReadVF {
			return nil
		}
		if unread.IsZero() {
			unread = r.VFs[0]
		}
		if r.VFs[0] == unread {
			return vf.ErrTimeout
		}
		return nil
	})
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil || rec.PCI == unread || unread.IsZero() {
		t.Errorf("VF %s (%s is unread), %v", rec.PCI, unread, err)
	}
	if free := countPhase(t, n, vf.PhaseFree); free != 13 {
		t.Errorf("%d VFs are free, want 13", free)
	}
	req.Owner.UID, req.VF = "c2", unread
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("the unread one by name: %v", err)
	}
}

// I2: upkeep leaves a free VF that changed as it is while the engine cannot look who uses it.
func TestI2UpkeepThatCannotLookLeavesTheVF(t *testing.T) {
	m, n := newNode(t)
	pf := n.Inventory.PFs()[0]
	if err := m.Do(t.Context(), step.SetVFRate{PF: pf.PCI, Index: 0, Max: 33}); err != nil {
		t.Fatal(err)
	}
	rate := func() uint32 {
		st, err := m.VF(t.Context(), pf.VFs[0].PCI, "")
		if err != nil {
			t.Fatal(err)
		}
		return st.Admin.MaxTxRate
	}
	m.faults.FailReads(func(_ context.Context, r faulty.Reading) error {
		if r.Kind == faulty.ReadUses {
			return vf.ErrTimeout
		}
		return nil
	})
	if err := n.Reconciler.Pass(t.Context()); err != nil || rate() != 33 {
		t.Errorf("rate %d, %v", rate(), err)
	}
	m.faults.FailReads(nil)
	if err := n.Reconciler.Pass(t.Context()); err != nil || rate() != 0 {
		t.Errorf("then: rate %d, %v", rate(), err)
	}
}

// usesReported lists the reasons of the events about uses of VFs outside Culvert, oldest first.
func usesReported(t *testing.T, n *node.Node) (out []string) {
	t.Helper()
	err := n.Ledger.View(func(tx *journal.Tx) error {
		for _, ev := range tx.Events(0) {
			if ev.Reason == "UsedOutside" || ev.Reason == "UseEnded" {
				out = append(out, ev.Reason)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A VF that a program has open is as Culvert left it, so upkeep does not ask about it. The first
// attach that meets it reports it, and the device plugin hears of it until that use has ended.
func TestUseThatAnAttachFinds(t *testing.T) {
	m, n, req := vfioNode(t)
	open := n.Inventory.PFs()[0].VFs[0]
	req.VF = open.PCI
	if err := m.Open(open.PCI, vf.Process{PID: 4711, Name: "testpmd"}); err != nil {
		t.Fatal(err)
	}
	hostUse := func() string {
		t.Helper()
		return n.VFs.HostUse(record(t, n, open.ID))
	}
	for range 2 {
		if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrHeld) || hostUse() != "open by testpmd (process 4711)" {
			t.Errorf("use %q, %v", hostUse(), err)
		}
	}
	pass := func() {
		t.Helper()
		if err := n.Reconciler.Pass(t.Context()); err != nil {
			t.Error(err)
		}
	}
	pass()
	if got := usesReported(t, n); !slices.Equal(got, []string{"UsedOutside"}) {
		t.Errorf("events %q", got)
	}
	if err := m.Open(open.PCI); err != nil {
		t.Fatal(err)
	}
	pass()
	if got := usesReported(t, n); !slices.Equal(got, []string{"UsedOutside", "UseEnded"}) || hostUse() != "" {
		t.Errorf("use %q, events %q", hostUse(), got)
	}
}

// A pass asks the kubelet once if that does not answer, and about twice if it does, however many VFs
// have changed. It asks again in a later pass.
func TestPassAsksTheKubeletOnce(t *testing.T) {
	m, n := newNode(t)
	var asked atomic.Int32
	later, answer := time.Duration(0), vf.ErrNotReady
	n.VFs.Now = func() time.Time { return time.Now().Add(later) }
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		asked.Add(1)
		time.Sleep(20 * time.Millisecond)
		return func(vf.PCIAddr) string { return "" }, answer
	}
	pf := n.Inventory.PFs()[0]
	pass := func(most int32) {
		t.Helper()
		for i := range pf.VFs {
			if err := m.Do(t.Context(), step.SetVFRate{PF: pf.PCI, Index: i, Max: 33}); err != nil {
				t.Fatal(err)
			}
		}
		asked.Store(0)
		if err := n.Reconciler.Pass(t.Context()); err != nil {
			t.Error(err)
		}
		if got := asked.Load(); got < 1 || got > most {
			t.Errorf("a pass over %d VFs that changed asked the kubelet %d times", len(pf.VFs), got)
		}
	}
	pass(1)
	answer, later = nil, time.Minute
	pass(3)
	if st, err := m.VF(t.Context(), pf.VFs[0].PCI, ""); err != nil || st.Admin.MaxTxRate != 0 {
		t.Errorf("VF 0 was not mended: %+v, %v", st.Admin, err)
	}
}

// While the kubelet does not say which pod has a VF, no event calls the user a stranger. A VF that
// its pod uses is no VF that the host uses.
func TestUseOfAPodIsReportedOnce(t *testing.T) {
	m, n := newNode(t)
	used := n.Inventory.PFs()[0].VFs[0]
	m.AddNetns("/run/netns/theirs")
	if err := m.Meddle(used.PCI, func(st *vf.State) { st.Link.Netns = "/run/netns/theirs" }); err != nil {
		t.Fatal(err)
	}
	answer := vf.ErrNotReady
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(vf.PCIAddr) string { return "default/a" }, answer
	}
	later := time.Duration(0)
	n.VFs.Now = func() time.Time { return time.Now().Add(later) }
	for range 2 {
		if err := n.Reconciler.Pass(t.Context()); err != nil {
			t.Error(err)
		}
		answer, later = nil, time.Minute
	}
	use := n.VFs.HostUse(record(t, n, used.ID))
	if got := usesReported(t, n); !slices.Equal(got, []string{"UsedOutside"}) || use != "" {
		t.Errorf("events %q, host use %q", got, use)
	}
}

// I2: nothing is written about a VF that is used outside Culvert, nor about the other VFs of its bond. A
// lease that is undone resets its VF: after a crash, on a full disk, or when the caller leaves.
func TestI2NoLeaseOfAUsedVF(t *testing.T) {
	for name, links := range map[string]int{"one VF": 1, "a bond": 2} {
		t.Run(name, func(t *testing.T) {
			m, n := newNode(t)
			var vfs []vf.PCIAddr
			for _, pf := range n.Inventory.PFs()[:links] {
				vfs = append(vfs, pf.VFs[0].PCI)
			}
			used := vfs[links-1]
			if err := m.Meddle(used, func(st *vf.State) { st.Link.Up, st.Link.MTU = true, 1300 }); err != nil {
				t.Fatal(err)
			}
			if err := m.Occupy(used, "a VLAN of the host is on top of it"); err != nil {
				t.Fatal(err)
			}
			kernel, before := m.String(), records(t, n)
			req := everything(t)
			req.Pool, req.VF, req.VFs = "", vfs[0], vfs
			attachIt := func() (err error) { _, err = n.Engine.Attach(t.Context(), req); return err }
			if links > 1 {
				req.Bond, req.Spec = &vf.Bond{Mode: "active-backup", Links: links}, vf.Spec{Interface: "net1"}
				attachIt = func() (err error) { _, err = n.Engine.AttachBond(t.Context(), req); return err }
			}
			if err := attachIt(); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "used outside Culvert") {
				t.Errorf("attach: %v", err)
			}
			if diff := cmp.Diff(before, records(t, n)); diff != "" {
				t.Errorf("the ledger (-before +after):\n%s", diff)
			}
			if after := m.String(); after != kernel {
				t.Errorf("after it:\n%s\nbefore:\n%s", after, kernel)
			}
		})
	}
}

// I1: a VF that gets an owner after another attach has chosen it, and before that has locked it, is
// that owner's. It is not taken for a VF that was left dirty.
func TestI1VFThatGetsAnOwnerWhileItIsChosen(t *testing.T) {
	m, n, req := vfioNode(t)
	pf := n.Inventory.PFs()[0]
	req.VF, req.Owner.Kind = pf.VFs[0].PCI, vf.OwnerContainer
	taken := record(t, n, pf.VFs[0].ID)
	taken.Phase, taken.Generation = vf.PhaseAttached, taken.Generation+1
	taken.Lease = journal.Lease{Owner: vf.Owner{Kind: vf.OwnerContainer, UID: "first", Interface: "net1"}, Wanted: vf.Spec{VLAN: &vf.VLAN{ID: 7}}}
	err := n.Engine.ReserveAfter(t.Context(), req, func() { // the VF is chosen
		err := n.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(taken) })
		if err := errors.Join(err, m.Do(t.Context(), step.SetVFVLAN{PF: pf.PCI, VLAN: vf.VLAN{ID: 7}})); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, attach.ErrAgain) {
		t.Errorf("the second attach: %v", err)
	}
	if now := record(t, n, taken.ID); now.Phase != vf.PhaseAttached || now.Lease.Owner.UID != "first" {
		t.Errorf("VF %s is %s for %s: %s", now.PCI, now.Phase, now.Lease.Owner, now.Reason)
	}
}

func records(t *testing.T, n *node.Node) []journal.Record {
	t.Helper()
	all, err := journal.ReadRecords(n.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
