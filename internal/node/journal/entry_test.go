package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/culvert-net/culvert/internal/vf"
)

// I7: the ledger reports an entry that it cannot trust, keeps it, and does not hide or
// change the others. bbolt's own structure is whole here.
func TestI7DamagedEntryIsIsolated(t *testing.T) {
	one := vf.ID{PF: vf.PFID{MAC: vf.MAC{2}}, Index: 1}
	two := vf.ID{PF: vf.PFID{MAC: vf.MAC{2}}, Index: 2}
	key := []byte(one.String())
	body := func(v any) []byte {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	good := Record{ID: one, Generation: 1, Phase: vf.PhaseMaking}
	parked, of2, newer := good, good, map[string]any{"id": one, "generation": 1, "phase": "making", "colour": "blue"}
	parked.Phase, of2.ID = "parked", two
	claim := Claim{UID: "u", Namespace: "d", Name: "c"}
	unclaimed, unnamed, free := good, good, good
	unclaimed.Phase, unnamed.Phase, free.Phase = vf.PhasePrepared, vf.PhasePrepared, vf.PhaseFree
	unnamed.Claim, free.Claim = &Claim{Namespace: "d", Name: "c"}, &claim
	ofClaim := good
	ofClaim.Phase, ofClaim.Claim, ofClaim.PCI, ofClaim.Baseline.Admin.MAC = vf.PhasePrepared, &claim, vf.PCIAddr{Bus: 1}, vf.MAC{2}
	tests := map[string]struct {
		stored []byte
		want   string // part of the reason; empty: the record is right
	}{
		"right":             {sealEntry(bucketRecords, key, body(good)), ""},
		"a field more":      {sealEntry(bucketRecords, key, body(newer)), ""},
		"no seal":           {body(good), "its checksum is missing"},
		"empty":             {[]byte{}, "its checksum is missing"},
		"changed":           {[]byte(strings.Replace(string(sealEntry(bucketRecords, key, body(good))), `"generation":1`, `"generation":9`, 1)), "its checksum is wrong"},
		"no JSON":           {sealEntry(bucketRecords, key, []byte(`{"id":`)), "it cannot be read"},
		"another type":      {sealEntry(bucketRecords, key, []byte(`[1,2]`)), "it cannot be read"},
		"of another VF":     {sealEntry(bucketRecords, key, body(of2)), "it says that it is about VF " + two.String()},
		"of another entry":  {sealEntry(bucketRecords, []byte(two.String()), body(good)), "its checksum is wrong"},
		"phase of a newer":  {sealEntry(bucketRecords, key, body(parked)), `its phase is "parked"`},
		"of a claim":        {sealEntry(bucketRecords, key, body(ofClaim)), ""},
		"without its claim": {sealEntry(bucketRecords, key, body(unclaimed)), "it is prepared, and names no claim"},
		"claim without UID": {sealEntry(bucketRecords, key, body(unnamed)), `its claim is "c" in namespace "d" with the UID ""`},
		"free with a claim": {sealEntry(bucketRecords, key, body(free)), "it is free, and yet claim d/c has it"},
		"from another part": {sealEntry(bucketEvents, key, body(good)), "its checksum is wrong"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := Open(filepath.Join(t.TempDir(), "ledger.db"), Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			err = l.Update(func(tx *Tx) error {
				return errors.Join(tx.Put(Record{ID: two, Generation: 1, Phase: vf.PhaseMaking}),
					tx.tx.Bucket(bucketRecords).Put(key, test.stored))
			})
			if err != nil {
				t.Fatal(err)
			}
			err = l.View(func(tx *Tx) error {
				all := tx.Records()
				single, err2 := tx.Record(one)
				if len(all) != 2 || all[1].Phase != vf.PhaseMaking {
					t.Fatalf("records %v", all)
				}
				for _, r := range []Record{all[0], single} {
					if damaged := r.Phase == vf.PhaseDamaged; damaged != (test.want != "") || !strings.Contains(r.Reason, test.want) || r.ID != one {
						t.Errorf("read as %+v", r)
					}
				}
				if problems := tx.Verify(); (len(problems) > 0) != (test.want != "") {
					t.Errorf("problems %v", problems)
				}
				return err2
			})
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				return
			}
			if err := l.Update(func(tx *Tx) error { r, _ := tx.Record(one); return tx.Put(r) }); err == nil {
				t.Error("a damaged record was written back")
			}
		})
	}
}

// I4: an address whose entry cannot be read is given to no other owner, and stays held when a VF is
// released.
func TestI4DamagedAddressStaysHeld(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "ledger.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := Address{Network: "n", Addr: netip.MustParseAddr("10.0.0.5"), VF: vf.ID{Index: 1}, Owner: vf.Owner{UID: "u"}}
	err = l.Update(func(tx *Tx) error {
		return errors.Join(tx.HoldAddress(a), tx.tx.Bucket(bucketAddresses).Put(addressKey("n", a.Addr), []byte("?")))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Update(func(tx *Tx) error { return tx.HoldAddress(a) })
	if !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "culvert ledger check") {
		t.Errorf("got %v", err)
	}
	err = l.Update(func(tx *Tx) error {
		if err := tx.FreeAddresses(vf.ID{}); err != nil {
			return err
		}
		all := tx.AddressesOf("n")
		if len(all) != 1 || all[0].Addr != a.Addr || all[0].Damage == "" {
			t.Errorf("addresses %v", all)
		}
		if err := tx.tx.Bucket(bucketAddresses).Put([]byte("no address"), []byte("?")); err != nil {
			return err
		}
		if n := tx.UnreadAddresses(); n != 2 {
			t.Errorf("%d addresses cannot be read", n)
		}
		return tx.Clear()
	})
	if err != nil {
		t.Error(err)
	}
	_ = l.View(func(tx *Tx) error {
		if all := tx.AddressesOf(""); len(all) != 0 {
			t.Errorf("a reboot ends it: %v", all)
		}
		return nil
	})
}

// A ledger of format 1 is read as it is, and sealed when it is opened.
func TestFormat1IsSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	db, err := bolt.Open(path, 0o600, boltOptions(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	one := vf.ID{PF: vf.PFID{MAC: vf.MAC{2}}, Index: 1}
	err = db.Update(func(tx *bolt.Tx) error {
		var errs []error
		put := func(bucket []byte, key, body string) {
			b, err := tx.CreateBucketIfNotExists(bucket)
			errs = append(errs, err, b.Put([]byte(key), []byte(body)))
		}
		put(bucketMeta, "format", "1")
		put(bucketMeta, "boot", "b")
		put(bucketRecords, one.String(), fmt.Sprintf(`{"id":%q,"pci":"","generation":4,"phase":"making","baseline":{}}`, one))
		put(bucketAddresses, "n\x0010.0.0.5", `{"network":"n","addr":"10.0.0.5","vf":"02:00:00:00:00:00#1"}`)
		put(bucketLast, "n\x00", `["10.0.0.5"]`)
		put(bucketEvents, string(seqKey(7)), `{"seq":7,"reason":"R"}`)
		return errors.Join(errs...)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	read := func() Content {
		c, err := Inspect(path)
		if err != nil || len(c.Faults)+len(c.Damage) > 0 || c.Boot != "b" || len(c.Records) != 1 || c.Records[0].Generation != 4 ||
			len(c.Addresses) != 1 || len(c.Events) != 1 || len(c.Last["n"]) != 1 {
			t.Errorf("%+v %v", c, err)
		}
		return c
	}
	if f := read().Format; f != "1" {
		t.Errorf("format %q", f)
	}
	l, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if f := read().Format; f != "2" {
		t.Errorf("format %q after it was opened", f)
	}
}

// An older culvertd may have died while a VF was reserved. The record is read as Configuring, which
// Replay undoes.
func TestReservedReadsAsConfiguring(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := Open(path, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	id := vf.ID{PF: vf.PFID{MAC: vf.MAC{2}}, Index: 1}
	err = l.Update(func(tx *Tx) error {
		return tx.Put(Record{ID: id, PCI: vf.PCIAddr{Bus: 1}, Generation: 1, Phase: "reserved", Lease: Lease{Owner: vf.Owner{UID: "u"}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := ReadRecords(l)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, records := range [][]Record{all, c.Records} {
		if len(records) != 1 || records[0].Phase != vf.PhaseConfiguring || records[0].Lease.Owner.UID != "u" || !records[0].Held() {
			t.Errorf("%+v", records)
		}
	}
}
