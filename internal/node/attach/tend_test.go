package attach_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// I4, I7: the leases on the VFs of a PF that lost its driver end, although the PF can
// no longer be identified by its MAC. The lease of a VF that is present, behind a PF
// that cannot be read, does not end.
func TestI4LeasesEndBehindAPFWithoutDriver(t *testing.T) {
	k, n := newNode(t)
	seen := n.Inventory.PFs()
	var recs [2]journal.Record
	for i := range recs {
		req := everything(t)
		req.Owner.UID += string(rune('a' + i))
		req.VF, req.IPAM.Routes = seen[i].VFs[0].PCI, nil
		req.Spec.Interface += string(rune('a' + i))
		req.Spec.MAC = &vf.MAC{2, 0xaa, 0, 0, 0, byte(i)}
		var err error
		if recs[i], err = n.Engine.Attach(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.RemovePF(seen[0].PCI); err != nil {
		t.Fatal(err)
	}
	mute := []vf.PF{{PCI: seen[0].PCI, Err: "no netdevice"}, {PCI: seen[1].PCI, Err: "no netdevice"}}
	if err := n.Upkeep.Tend(t.Context(), mute); err != nil {
		t.Error(err)
	}
	err := n.Ledger.View(func(tx *journal.Tx) error {
		if rec, err := tx.Record(recs[0].ID); err == nil {
			t.Errorf("VF %s is gone, and the ledger has it: %s", rec.PCI, rec.Phase)
		}
		if rec, err := tx.Record(recs[1].ID); err != nil || rec.Phase != vf.PhaseAttached {
			t.Errorf("VF %s is there, and the ledger says %s, %v", recs[1].PCI, rec.Phase, err)
		}
		held := tx.AddressesOf("")
		for _, a := range held {
			if a.VF != recs[1].ID {
				t.Errorf("%s is still held by %s", a.Addr, a.Owner)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// I7: free VFs that cannot be read for a while are not put into quarantine, where they would stay for
// minutes after they can be read again.
func TestI7FreeVFsThatCannotBeReadStayFree(t *testing.T) {
	k, n := newNode(t)
	pf := n.Inventory.PFs()[0]
	pf.Err, pf.VFs = "no netdevice", slices.Clone(pf.VFs)
	for i := range pf.VFs {
		pf.VFs[i].Admin, pf.VFs[i].Link = vf.Admin{}, nil
	}
	n.VFs.Kernel = &mute{k.faults}
	_ = n.Upkeep.Tend(t.Context(), []vf.PF{pf}) // an error is expected
	err := n.Ledger.View(func(tx *journal.Tx) error {
		for _, r := range tx.Records() {
			if r.Phase != vf.PhaseFree {
				t.Errorf("VF %s is %s: %s", r.PCI, r.Phase, r.Reason)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// mute is a kernel that reads no VF.
type mute struct{ *faulty.Kernel }

func (*mute) VF(context.Context, vf.PCIAddr, string) (vf.State, error) {
	return vf.State{}, errors.New("PF 0000:01:00.0 has no netdevice in the host's netns")
}

// unreadable is a ledger that fails after some reads.
type unreadable struct {
	node.Ledger
	reads int // reads that still succeed
}

func (u *unreadable) View(f func(*journal.Tx) error) error {
	if u.reads == 0 {
		return journal.ErrDamaged
	}
	u.reads--
	return u.Ledger.View(f)
}

// Tend and WithIdle return the error of a ledger that cannot be read, and do not take the VF for a
// forgotten one.
func TestLedgerErrorsAreReturned(t *testing.T) {
	_, n := newNode(t)
	seen := n.Inventory.PFs()
	rec, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	stuck := rec
	stuck.Phase = vf.PhaseConfiguring
	mute := []vf.PF{{PCI: seen[0].PCI, Err: "no netdevice"}}
	for name, test := range map[string]struct {
		rec  journal.Record
		do   func() error
		read int
	}{
		"a VF that a listing lacks": {rec, func() error { return n.Upkeep.Tend(t.Context(), mute) }, 1},
		"work that stopped":         {stuck, func() error { return n.Upkeep.Tend(t.Context(), seen) }, 1},
		"a rate to give back":       {rec, func() error { return n.Loans.GiveBack(t.Context(), rec) }, 0},
		"a VF to work on": {rec, func() error {
			ran, err := n.VFs.WithIdle(t.Context(), rec.ID, func(journal.Record) error { return nil })
			if ran {
				t.Error("it ran")
			}
			return err
		}, 0},
	} {
		if err := n.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(test.rec) }); err != nil {
			t.Fatal(err)
		}
		n.VFs.Ledger = &unreadable{n.Ledger, test.read}
		if err := test.do(); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		n.VFs.Ledger = n.Ledger
	}
}
