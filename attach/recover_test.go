package attach_test

import (
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/fake"
	"github.com/culvert-net/culvert/kernel/faulty"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/node"
	"github.com/culvert-net/culvert/vf"
)

// I4: while the bond of a quarantined VF cannot be removed, a new baseline does not free the VF. The
// pod still answers for the bond's addresses.
func TestI4RebaseKeepsTheAddressesOfABond(t *testing.T) {
	k, n := newNode(t)
	req := plainBond(t)
	got := bonded(t, n, req)
	k.faults.Fail(func(at faulty.Moment, s step.Step) error {
		if _, is := s.(step.DelBond); is && at == faulty.Before {
			return errInjected
		}
		return nil
	})
	if err := n.Engine.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	held := heldAddresses(t, n)
	if len(held) == 0 {
		t.Fatal("the bond holds no address")
	}
	for _, m := range got.Members {
		if _, err := n.Engine.Rebase(t.Context(), m.PCI, nil); err == nil || !strings.Contains(err.Error(), "remove bond net1") {
			t.Errorf("VF %s: %v", m.PCI, err)
		}
		if rec := record(t, n, m.ID); rec.Phase != journal.Quarantined {
			t.Errorf("VF %s is %s", m.PCI, rec.Phase)
		}
	}
	if now := heldAddresses(t, n); len(now) != len(held) {
		t.Errorf("the ledger holds %v, and %v before", now, held)
	}
	k.faults.Fail(nil)
	for _, m := range got.Members {
		if _, err := n.Engine.Rebase(t.Context(), m.PCI, nil); err != nil {
			t.Errorf("VF %s: %v", m.PCI, err)
		}
	}
	if now := heldAddresses(t, n); len(now) > 0 {
		t.Errorf("the ledger still holds %v", now)
	}
}

func heldAddresses(t *testing.T, n *node.Node) (all []journal.Address) {
	t.Helper()
	err := n.Ledger.View(func(tx *journal.Tx) error {
		all = tx.AddressesOf("")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// culvertd is killed after it has withdrawn the guard of a VF. The pod then ends and its DEL is lost:
// the lease ends all the same.
func TestWithdrawnGuardOfALostPod(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	req := everything(t)
	req.Spec.Guard = vf.GuardIP
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	withdrawing(t, n, rec)
	next := node.New(node.Config{Kernel: k.faults, Ledger: n.Ledger, BootID: "boot 1"})
	next.SetSpec(n.Engine.Spec())
	if err := next.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.DelNetns(podNetns)
	a := &answers{}
	a.serve(next)
	a.watchFor(t, next, 6*time.Minute)
	if now := recordOf(t, next, rec); now.Phase != journal.Free {
		t.Errorf("the VF is %s: %+v", now.Phase, now.Lease.Withdrawn)
	}
}

// An IPAM plugin that is owed a DEL keeps it when a guest turns out to run with the VF.
func TestAdoptionKeepsWhatIsOwed(t *testing.T) {
	k, n := newNode(t)
	forGuests(t, n)
	req := guestWants(vf.Spec{})
	req.VF = n.Inventory.PFs()[1].VFs[2].PCI
	rec := recordAt(t, n, req.VF)
	owed := journal.Delegation{ContainerID: "c1", Interface: "net1", Network: "blue", Config: []byte(`{"ipam":{"type":"x"}}`)}
	err := n.Ledger.Update(func(tx *journal.Tx) error {
		now, err := tx.Record(rec.ID)
		if err != nil {
			return err
		}
		now.Owed = []journal.Delegation{owed}
		return tx.Put(now)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Open(req.VF, vf.Process{PID: 4711, Name: "qemu"}); err != nil {
		t.Fatal(err)
	}
	if err := n.Engine.Adopt(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if now := recordOf(t, n, rec); now.Phase != journal.Attached || len(now.Owed) != 1 {
		t.Errorf("the VF is %s and owes %v", now.Phase, now.Owed)
	}
}
