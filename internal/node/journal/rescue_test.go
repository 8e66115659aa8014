package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// repaired repairs a file like culvert ledger repair.
func repaired(t *testing.T, path string, made map[vf.ID]vf.PCIAddr) (journal.Rescue, string) {
	t.Helper()
	c, err := journal.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	r := journal.Mend(c, "boot-now", made)
	backup, err := r.Write(path, now)
	if err != nil {
		t.Fatal(err)
	}
	return r, backup
}

// I1, I4: a repair gives no VF another owner and frees no VF that was held. It marks each lost VF
// that the file or the kernel still shows. It frees no address of a VF whose record it keeps or
// marks. The ledger opens, and the damaged file is still there.
func TestI1RepairGivesNothingAway(t *testing.T) {
	whole := image(t, 40)
	before := readContent(whole)
	was := map[vf.ID]journal.Record{}
	made := map[vf.ID]vf.PCIAddr{}
	for _, r := range before.Records {
		was[r.ID] = r
		made[r.ID] = r.PCI
	}
	rnd := rand.New(rand.NewPCG(9, 9))
	for run := range 60 {
		spoilt := bytes.Clone(whole)
		edit := []byte{"sxpt"[rnd.IntN(4)], byte(rnd.IntN(256)), byte(rnd.IntN(8)), byte(rnd.IntN(256)), byte(rnd.IntN(256)), byte(rnd.IntN(4)), 0, byte(rnd.IntN(256))}
		spoilt = damaged(spoilt, edit)
		path := filepath.Join(t.TempDir(), "ledger.db")
		if err := os.WriteFile(path, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		rescue, backup := repaired(t, path, made)
		if kept, err := os.ReadFile(backup); err != nil || !bytes.Equal(kept, spoilt) {
			t.Errorf("the damaged file was not kept as it was: %v", err)
		}
		l, err := journal.Open(path, journal.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		err = l.View(func(tx *journal.Tx) error {
			c := tx.Content()
			marked := map[vf.ID]bool{}
			for _, r := range c.Records {
				old, there := was[r.ID]
				marked[r.ID] = r.Phase == vf.PhaseDamaged
				if there && r.Phase != vf.PhaseDamaged && !reflect.DeepEqual(r, old) {
					t.Errorf("VF %s: %s", r.ID, cmp.Diff(old, r, addrs))
				}
			}
			if refused := len(readContent(spoilt).Faults) > 0; len(c.Records) != len(was) && refused {
				t.Errorf("%d records of %d; the kernel told of all", len(c.Records), len(was))
			}
			held := map[string]bool{}
			for _, a := range c.Addresses {
				held[a.Addr.String()] = true
			}
			for _, a := range before.Addresses {
				if !held[a.Addr.String()] && !marked[a.VF] {
					t.Errorf("address %s of VF %s was given back", a.Addr, a.VF)
				}
			}
			for _, p := range c.Problems() {
				if p.Invariant != "" {
					t.Errorf("after the repair: %s", p)
				}
			}
			return nil
		})
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err != nil || t.Failed() {
			t.Fatalf("run %d, edit %q: %v\n%v", run, edit, err, rescue.Did)
		}
	}
}

// A repair of a sound ledger changes no record, address or event, and keeps the boot ID.
func TestRepairOfASoundLedgerChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, image(t, 30), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := journal.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	repaired(t, path, nil)
	after, err := journal.Inspect(path)
	if err != nil || len(after.Problems()) > 0 || after.Boot != "boot-1" {
		t.Fatal(after.Boot, after.Problems(), err)
	}
	if diff := cmp.Diff(before.Records, after.Records, addrs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Addresses, after.Addresses, addrs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Events, after.Events[:len(before.Events)]); diff != "" {
		t.Error(diff)
	}
}

// I4: two pods have one address of a network that shares it. A check finds nothing wrong with that. A
// repair keeps both holders, and all that the ledger knows of the address.
func TestI4RepairKeepsSharedAddresses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := journal.Open(path, journal.Options{NoSync: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	a := netip.MustParseAddr("10.9.0.9")
	err = l.Update(func(tx *journal.Tx) error {
		errs := []error{tx.SetBoot("boot-1")}
		for i := range 2 {
			owner := vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(i), Name: fmt.Sprintf("ns/p%d", i), Interface: "net1"}
			r := journal.Record{ID: id(i), PCI: vf.PCIAddr{Bus: 1, Function: uint8(i)}, Generation: 1, Phase: vf.PhaseAttached}
			r.Baseline = vf.Baseline{Admin: vf.Admin{MAC: vf.StableMAC(id(i).PF, i)}, Driver: "igbvf", Name: fmt.Sprint("v", i)}
			r.Lease = journal.Lease{Owner: owner, Network: "blue", Wanted: vf.Spec{Addresses: []vf.Address{{Prefix: netip.PrefixFrom(a, 24)}}}}
			errs = append(errs, tx.Put(r), tx.HoldAddress(journal.Address{
				Network: "blue", Addr: a, VF: r.ID, Owner: owner, Shared: true, Local: true, Claim: "c", Keep: time.Hour,
			}))
		}
		return errors.Join(errs...)
	})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := journal.Inspect(path)
	if err != nil || len(before.Problems()) > 0 || len(before.Addresses) != 2 {
		t.Fatalf("%v, %v, %v", before.Addresses, before.Problems(), err)
	}
	repaired(t, path, nil)
	after, err := journal.Inspect(path)
	if err != nil || len(after.Problems()) > 0 {
		t.Errorf("%v, %v", after.Problems(), err)
	}
	if d := cmp.Diff(before.Addresses, after.Addresses, addrs); d != "" {
		t.Errorf("-before +after:\n%s", d)
	}
}

// TestRepairRefusesALedgerThatHasChanged (I1): between Inspect and Write, culvertd gives a VF away
// and stops. The repair knows nothing of that lease and leaves the file as it is. It also does so
// while culvertd runs.
func TestRepairRefusesALedgerThatHasChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	spoilt := bytes.ReplaceAll(image(t, 1), []byte(`"generation":1`), []byte(`"generation":9`))
	if err := os.WriteFile(path, spoilt, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := journal.Inspect(path)
	if err != nil || !c.Mendable() || len(c.Faults) > 0 {
		t.Fatalf("this is no test: %v %v", c.Faults, err)
	}
	r := journal.Mend(c, "boot-1", nil)
	refuse := func(want error) {
		t.Helper()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Write(path, now); !errors.Is(err, want) {
			t.Errorf("Write returns %v, want %v", err, want)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
			t.Errorf("Write changed the file: %v", err)
		}
		if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
			t.Errorf("Write leaves %v", left)
		}
	}
	l := openEntry(t, path)
	lease, address := attachment(7)
	if err := l.Update(func(tx *journal.Tx) error { return errors.Join(tx.Put(lease), tx.HoldAddress(address)) }); err != nil {
		t.Fatal(err)
	}
	refuse(journal.ErrBusy)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	refuse(journal.ErrChanged)
	repaired(t, path, nil) // the command, run again
	if c, err := journal.Inspect(path); err != nil || c.Records[len(c.Records)-1].Lease.Owner != lease.Lease.Owner {
		t.Errorf("the repair lost the lease: %v %v", c.Records, err)
	}
}

// The repair of an empty file marks the VFs that the kernel shows. It writes the ID of the present
// boot, so that culvertd does not forget these records.
func TestRepairOfAnEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	repaired(t, path, map[vf.ID]vf.PCIAddr{id(3): {Bus: 1}})
	l := openEntry(t, path)
	err := l.View(func(tx *journal.Tx) error {
		r, err := tx.Record(id(3))
		if err != nil || r.Phase != vf.PhaseDamaged || !r.Held() || r.PCI != (vf.PCIAddr{Bus: 1}) || tx.Boot() != "boot-now" {
			t.Errorf("%+v %v, boot %s", r, err, tx.Boot())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// I1: if the last change of a file may be missing, a VF whose record is Free may have got an owner
// since.
func TestI1RepairTrustsNoFreeVFOfAFaultyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openEntry(t, path)
	r, _ := attachment(0)
	r.Phase, r.Lease = vf.PhaseFree, journal.Lease{}
	put := func() {
		t.Helper()
		if err := l.Update(func(tx *journal.Tx) error { return tx.Put(r) }); err != nil {
			t.Fatal(err)
		}
	}
	put()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, _ = attachment(0)
	put()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	newest := 0 // the meta that the last change wrote
	if bytes.Equal(raw[:pageSize], before[:pageSize]) {
		newest = pageSize
	}
	raw[newest+40] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := readContent(raw); len(c.Faults) == 0 || len(c.Records) != 1 || c.Records[0].Phase != vf.PhaseFree {
		t.Fatalf("this is no test: %v %v", c.Faults, c.Records)
	}
	rescue, _ := repaired(t, path, nil)
	if len(rescue.Records) != 1 || rescue.Records[0].Phase != vf.PhaseDamaged || rescue.Records[0].PCI != r.PCI {
		t.Errorf("%+v", rescue.Records)
	}
}
