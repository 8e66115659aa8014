package journal

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
)

// The memo decodes an entry once, and again after its stored bytes have changed. It never caches an
// entry that cannot be read.
func TestMemo(t *testing.T) {
	decodes := 0
	m := newMemo(func(_, stored []byte) (string, error) {
		decodes++
		if string(stored) == "damaged" {
			return "", errors.New("it is damaged")
		}
		return "<" + string(stored) + ">", nil
	})
	for i, step := range []struct {
		key, stored string
		decodes     int
	}{
		{"a", "1", 1}, {"a", "1", 1}, {"b", "1", 2}, {"a", "2", 3}, {"a", "1", 4}, {"b", "1", 4},
		{"a", "damaged", 5}, {"a", "damaged", 6}, {"a", "1", 6},
	} {
		stored := []byte(step.stored)
		got, err := m.decodeEntry([]byte(step.key), stored)
		if want := "<" + step.stored + ">"; step.stored == "damaged" && err == nil || step.stored != "damaged" && (err != nil || got != want) {
			t.Errorf("%d: %q, %v", i, got, err)
		}
		if decodes != step.decodes {
			t.Errorf("%d: decoded %d times, want %d", i, decodes, step.decodes)
		}
		stored[0] = 'x' // bbolt's memory is reused
	}
	m.forgetEntry([]byte("a"))
	m.forgetEntry([]byte("c"))
	if len(m.seen) != 1 {
		t.Errorf("it remembers %v", m.seen)
	}
}

// TestFailedAllocationIsForgotten: the memo caches the addresses that a transaction wrote before it
// failed. The next transaction still sees the addresses in the ledger.
func TestFailedAllocationIsForgotten(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "ledger.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	last := func() (out []netip.Addr) {
		err := l.View(func(tx *Tx) error {
			out = tx.LastAddresses("n")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	hold := func(addr string, outcome error) {
		err := l.Update(func(tx *Tx) error {
			return errors.Join(tx.HoldAddress(Address{Network: "n", Addr: netip.MustParseAddr(addr)}), outcome)
		})
		if !errors.Is(err, outcome) {
			t.Fatal(err)
		}
	}
	hold("10.0.0.5", nil)
	hold("10.0.0.6", errors.New("no VF is free"))
	if got := fmt.Sprint(last()); got != "[10.0.0.5]" {
		t.Errorf("after an allocation that failed the last addresses are %s", got)
	}
	hold("10.0.0.7", nil)
	if got := fmt.Sprint(last()); got != "[10.0.0.5 10.0.0.7]" {
		t.Errorf("the last addresses are %s", got)
	}
}

// TestDeletedGrantIsForgotten: the memo drops the entry of a deleted grant, and decodes the entry
// of a grant that was written again.
func TestDeletedGrantIsForgotten(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "ledger.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	run := AddressRun{First: netip.MustParseAddr("10.0.0.1"), Last: netip.MustParseAddr("10.0.0.9")}
	open, closed := Grant{Network: "n", ID: "a"}, Grant{Network: "n", ID: "a", Runs: []AddressRun{run}}
	for _, g := range []Grant{open, closed} {
		var got []Grant
		err := errors.Join(
			l.Update(func(tx *Tx) error { return tx.PutGrant(g) }),
			l.View(func(tx *Tx) error {
				got = tx.Grants("n")
				return nil
			}))
		if err != nil || len(got) != 1 || !slices.Equal(got[0].Runs, g.Runs) {
			t.Errorf("grants are %v, want %v: %v", got, g, err)
		}
	}
	if err := l.Update(func(tx *Tx) error { return tx.DeleteGrant(open) }); err != nil {
		t.Fatal(err)
	}
	if n := l.memos.last.count(); n != 0 {
		t.Errorf("the memo still has %d entries", n)
	}
}
