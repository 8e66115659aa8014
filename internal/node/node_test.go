package node_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A PF whose driver refuses VFs is a problem with its reason and the next step. The other PF has
// its VFs. The problem is over once the driver makes the VFs.
func TestProblemsNameThePFThatFails(t *testing.T) {
	k := fake.New(fake.IGB, 2)
	faults := faulty.New(k)
	l := openLedger(t)
	n := node.New(node.Config{Kernel: faults, Ledger: l, BootID: "boot 1"})
	n.SetSpec(desired.Spec{PFs: []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: 4, Autoprobe: true}}}})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.VFs.Wait)
	refusal := errors.New("no room on the bus")
	for _, tt := range []struct {
		name     string
		hook     faulty.Hook
		vfs      []int
		problems []string
	}{
		{"the driver of the second PF refuses", func(_ faulty.Moment, s step.Step) error {
			if set, ok := s.(step.SetNumVFs); ok && set.PF.Bus == 2 {
				return refusal
			}
			return nil
		}, []int{4, 0}, []string{"PF enp2s0: no room on the bus; culvertd tries again on its own"}},
		{"the driver takes them", nil, []int{4, 4}, nil},
	} {
		faults.Fail(tt.hook)
		if err := n.Reconciler.Pass(t.Context()); (err != nil) != (tt.problems != nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		var vfs []int
		for _, pf := range n.Inventory.PFs() {
			vfs = append(vfs, pf.NumVFs)
		}
		var problems []string
		for _, p := range n.Problems() {
			reason := p.Reason
			if strings.Contains(reason, refusal.Error()) { // the step that failed comes before it
				reason = refusal.Error()
			}
			problems = append(problems, p.Object+": "+reason+"; "+p.Next)
		}
		if diff := cmp.Diff(tt.vfs, vfs) + cmp.Diff(tt.problems, problems); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// openLedger opens a new ledger, and closes it at the end of the test.
func openLedger(t *testing.T) *journal.Ledger {
	t.Helper()
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A node that cannot list its NICs does not start, and the error says what failed. It leaves the
// records of this boot in the ledger.
func TestStartWithoutNICs(t *testing.T) {
	l := openLedger(t)
	kept := journal.Record{ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}}, PCI: vf.PCIAddr{Bus: 1, Device: 16}, Phase: vf.PhaseFree}
	if err := l.Update(func(tx *journal.Tx) error { return errors.Join(tx.SetBoot("boot 1"), tx.Put(kept)) }); err != nil {
		t.Fatal(err)
	}
	n := node.New(node.Config{Kernel: fake.New(fake.IGB, 1), Ledger: l, BootID: "boot 1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Start(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "start: list the NICs: ") {
		t.Errorf("got %v", err)
	}
	if got, err := n.Records(); err != nil || len(got) != 1 || got[0].ID != kept.ID {
		t.Errorf("records %v, %v", got, err)
	}
}

// Records has each VF of the node, and the lease of each pod that holds one. Without a ledger that
// can be read, it returns the error.
func TestRecordsHaveTheLeases(t *testing.T) {
	m := &machine{Kernel: fake.New(fake.IGB, 1), path: filepath.Join(t.TempDir(), "ledger.db")}
	m.start(t, 3)
	rec, err := m.attach(t, "a")
	if err != nil {
		t.Fatal(err)
	}
	all, err := m.node.Records()
	if err != nil || len(all) != 3 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	for _, r := range all {
		if isHeld := r.ID == rec.ID; r.Held() != isHeld || isHeld && r.Lease.Owner != rec.Lease.Owner {
			t.Errorf("VF %s is %s of %q, held should be %t", r.ID, r.Phase, r.Lease.Owner, isHeld)
		}
	}
	m.stop(t)
	if all, err := m.node.Records(); err == nil || len(all) > 0 {
		t.Errorf("a closed ledger has %d records, %v", len(all), err)
	}
}
