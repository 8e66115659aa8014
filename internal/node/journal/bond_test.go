package journal

import (
	"errors"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// member returns the lease of a member of a bond.
func member(pf byte, addresses ...vf.Address) Record {
	return Record{
		ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, pf}}}, PCI: vf.PCIAddr{Bus: pf}, Phase: vf.PhaseAttached, Generation: 1, Baseline: vf.Baseline{Admin: vf.Admin{MAC: vf.MAC{2, 1, 0, 0, 0, pf}}},
		Lease: Lease{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}, Network: "blue", Bond: &vf.Bond{Links: 2}, Wanted: vf.Spec{Addresses: addresses}},
	}
}

// I1, I4: the VFs of a bond are one attachment. When the VF that holds the addresses is gone,
// another VF of the bond holds them, as long as there is one.
func TestI4AddressesOfABondStayHeld(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "l.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	address := vf.Address{Prefix: netip.MustParsePrefix("10.1.0.2/24")}
	first, second := member(1, address), member(2)
	err = l.Update(func(tx *Tx) error {
		for _, r := range []Record{first, second} {
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return tx.HoldAddress(Address{Network: "blue", Addr: address.Prefix.Addr(), VF: first.ID, Owner: first.Lease.Owner})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		forget Record
		want   int // addresses held
	}{{first, 1}, {second, 0}} {
		err := l.Update(func(tx *Tx) error { return tx.Forget(step.forget.ID, "gone") })
		if err != nil {
			t.Fatal(err)
		}
		_ = l.View(func(tx *Tx) error {
			if held := tx.AddressesOf("blue"); len(held) != step.want || len(held) > 0 && held[0].VF != second.ID {
				t.Errorf("I4: after %s is gone: %v", step.forget.PCI, held)
			}
			for _, p := range tx.Verify() {
				t.Errorf("after %s is gone: %s", step.forget.PCI, p)
			}
			return nil
		})
	}
}

// I4: two VFs of a bond go in one transaction, as when the VFs of a PF are made anew. The second VF
// has no addresses before the first one hands them over. Afterwards the third one has them all.
func TestI4AddressesOfABondOutliveTwoVFs(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "l.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	address := vf.Address{Prefix: netip.MustParsePrefix("10.1.0.2/24")}
	first, second, third := member(1, address), member(2), member(3)
	first.Lease.Wanted.Routes = []vf.Route{{Dst: netip.MustParsePrefix("10.20.0.0/16")}}
	first.Lease.Delegation = &Delegation{Plugin: "host-local", ContainerID: "c1", Interface: "net1"}
	err = l.Update(func(tx *Tx) error {
		return errors.Join(tx.Put(first), tx.Put(second), tx.Put(third),
			tx.HoldAddress(Address{Network: "blue", Addr: address.Prefix.Addr(), VF: first.ID, Owner: first.Lease.Owner}))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Update(func(tx *Tx) error { return errors.Join(tx.Forget(first.ID, "gone"), tx.Forget(second.ID, "gone")) })
	if err != nil {
		t.Fatal(err)
	}
	_ = l.View(func(tx *Tx) error {
		left, err := tx.Record(third.ID)
		want := first.Lease
		got := left.Lease
		got.Owner, got.Bond = want.Owner, want.Bond
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || err != nil {
			t.Errorf("the lease of the last VF (-want +got): %s%v", diff, err)
		}
		if held := tx.AddressesOf("blue"); len(held) != 1 || held[0].VF != third.ID {
			t.Errorf("I4: held addresses: %v", held)
		}
		if all := tx.Records(); len(all) != 1 {
			t.Errorf("records: %v", all)
		}
		return nil
	})
}

func TestVerifyBond(t *testing.T) {
	if p := Verify([]Record{member(1), member(2)}, nil); len(p) > 0 {
		t.Errorf("two VFs of one bond: %v", p)
	}
	single := member(2)
	single.Lease.Bond = nil
	if p := Verify([]Record{member(1), single}, nil); len(p) != 1 || p[0].Invariant != "I1" {
		t.Errorf("a VF of a bond and one of its own for one interface: %v", p)
	}
}
