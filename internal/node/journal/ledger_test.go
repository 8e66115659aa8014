package journal_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func openEntry(t *testing.T, path string) *journal.Ledger {
	t.Helper()
	l, err := journal.Open(path, journal.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func id(i int) vf.ID { return vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}, Port: "p1"}, Index: i} }

// A ledger in a folder that is not there is an error: a mistyped name must not begin an empty ledger.
func TestMissingFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mistyped")
	if _, err := journal.Open(filepath.Join(dir, "ledger.db"), journal.Options{}); err == nil || !strings.Contains(err.Error(), "folder "+dir+" is not there: make it") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
}

// If Update returned nil, all its changes are there after the file was opened again.
func TestRecordsSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openEntry(t, path)
	mtu := 9000
	rec := journal.Record{
		ID: id(3), PCI: vf.PCIAddr{Bus: 1}, Generation: 7, Phase: vf.PhaseAttached,
		Baseline: vf.Baseline{Admin: vf.Admin{MAC: vf.MAC{2}, SpoofChk: vf.Yes, VLAN: vf.VLAN{ID: 5, QoS: 1, Proto: vf.Dot1AD}}, Driver: "igbvf", Name: "v3"},
		Lease: journal.Lease{
			Owner: vf.Owner{Kind: vf.OwnerPod, UID: "u", Name: "ns/p", Interface: "net1"}, Netns: "/run/netns/x",
			Wanted: vf.Spec{MTU: &mtu, Addresses: []vf.Address{{Prefix: netip.MustParsePrefix("10.0.0.1/24")}},
				Routes: []vf.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.0.0.254")}}},
			Request: []byte(`{"a":1}`),
		},
	}
	if err := l.Update(func(tx *journal.Tx) error { return tx.Put(rec) }); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	rec.Since = now
	err := openEntry(t, path).View(func(tx *journal.Tx) error {
		got, err := tx.Record(id(3))
		if diff := cmp.Diff(rec, got, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
			t.Error(diff)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// I6: an Update that fails did nothing at all.
func TestUpdateIsAllOrNothing(t *testing.T) {
	l := openEntry(t, filepath.Join(t.TempDir(), "ledger.db"))
	broken := errors.New("broken")
	err := l.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.Put(journal.Record{ID: id(1)}), tx.Event(journal.Event{Reason: "X"}), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	err = l.View(func(tx *journal.Tx) error {
		records := tx.Records()
		events := tx.Events(0)
		if len(records)+len(events) != 0 {
			t.Errorf("left behind: %v %v", records, events)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// I4: an address has one holder, which the refusal names. After the VF's attachment has ended, the
// address is free, and remembered as given out lately.
func TestI4AnAddressHasOneHolder(t *testing.T) {
	l := openEntry(t, filepath.Join(t.TempDir(), "ledger.db"))
	a := journal.Address{Network: "n", Addr: netip.MustParseAddr("10.0.0.5"), VF: id(1), Owner: vf.Owner{Kind: "pod", UID: "1", Name: "ns/a"}}
	b := a
	b.VF, b.Owner = id(2), vf.Owner{Kind: "pod", UID: "2", Name: "ns/b"}
	elsewhere := b
	elsewhere.Network = "n2" // another network may use the same range
	hold := func(a journal.Address) error {
		return l.Update(func(tx *journal.Tx) error { return tx.HoldAddress(a) })
	}
	if err := errors.Join(hold(a), hold(a), hold(elsewhere)); err != nil {
		t.Fatal(err)
	}
	if err := hold(b); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "pod ns/a") {
		t.Errorf("got %v", err)
	}
	if err := l.Update(func(tx *journal.Tx) error { return tx.FreeAddresses(id(1)) }); err != nil {
		t.Fatal(err)
	}
	if err := hold(b); err != nil {
		t.Error(err)
	}
	err := l.View(func(tx *journal.Tx) error {
		last := tx.LastAddresses("n")
		if fmt.Sprint(last) != "[10.0.0.5]" {
			t.Errorf("last %v", last)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The ledger keeps the events in order, and at most KeepEvents of them.
func TestEventsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := journal.Open(path, journal.Options{NoSync: true, KeepEvents: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	err = l.Update(func(tx *journal.Tx) error {
		for i := range 1100 {
			if err := tx.Event(journal.Event{Text: fmt.Sprint(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = l.View(func(tx *journal.Tx) error {
		all := tx.Events(0)
		some := tx.Events(1098)
		if len(all) != 1000 || all[0].Text != "100" || len(some) != 2 || some[1].Text != "1099" {
			t.Errorf("%d events from %q, then %v", len(all), all[0].Text, some)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Open refuses a file that is no ledger, and does not change it.
func TestForeignFileIsRefusedUntouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	garbage := []byte(strings.Repeat("not a ledger ", 1000))
	if err := os.WriteFile(path, garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(path, journal.Options{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(garbage) {
		t.Error("it was changed", err)
	}
}

// Two culvertd never share a ledger.
func TestOneOpenerAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	openEntry(t, path)
	if _, err := journal.Open(path, journal.Options{}); err == nil || !strings.Contains(err.Error(), "another culvertd") {
		t.Errorf("got %v", err)
	}
}

// Clear forgets every record and every address, not every second one.
func TestClearForgetsAll(t *testing.T) {
	l := openEntry(t, filepath.Join(t.TempDir(), "ledger.db"))
	err := l.Update(func(tx *journal.Tx) error {
		var errs []error
		for i := range 7 {
			rec := journal.Record{ID: id(i), Generation: 1, Phase: vf.PhaseFree}
			a := journal.Address{Network: "n", Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), VF: id(i), Owner: vf.Owner{UID: "u"}}
			errs = append(errs, tx.Put(rec), tx.HoldAddress(a))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Update(func(tx *journal.Tx) error {
		// As after a reboot: bbolt keeps the earlier changes of the transaction in memory, where a
		// deletion moves the entries behind it.
		return errors.Join(tx.Delete(id(0)), tx.FreeAddresses(id(0)), tx.Clear())
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.View(func(tx *journal.Tx) error {
		if records, addresses := tx.Records(), tx.AddressesOf(""); len(records)+len(addresses) > 0 {
			t.Errorf("left: %d records, %d addresses", len(records), len(addresses))
		}
		return nil
	})
}
