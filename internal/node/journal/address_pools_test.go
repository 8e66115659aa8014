package journal

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// countLast returns how many entries of the bucket of last addresses belong to pools, and how many
// to grants.
func countLast(t *testing.T, l *Ledger) (pools, grants int) {
	t.Helper()
	err := l.View(func(tx *Tx) error {
		all := tx.Content()
		pools, grants = len(all.Last), len(all.Grants)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pools, grants
}

// TestPoolsAreBounded: tenants use one pool after the other, each under a new name. The ledger and
// its memos keep the last addresses of few of them. They keep those of pools in use, and all grants.
func TestPoolsAreBounded(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "l.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	const inUse = 5
	addr := netip.MustParseAddr("10.0.0.9")
	user := func(pool string, i int) Address {
		return Address{Network: pool, Addr: addr, VF: vf.ID{Index: i}, Owner: vf.Owner{Kind: vf.OwnerPod, UID: pool}}
	}
	err = l.Update(func(tx *Tx) error {
		errs := []error{tx.PutGrant(Grant{Network: "tenant/granted", ID: "a"})}
		for i := range inUse {
			errs = append(errs, tx.HoldAddress(user(fmt.Sprint("tenant/used-", i), 1+i)))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, outcome := range []error{nil, errors.New("no VF is free")} {
		for i := range 2000 {
			pool := fmt.Sprintf("tenant/%v-%d", outcome, i)
			err := l.Update(func(tx *Tx) error {
				held := tx.HoldAddress(user(pool, 0))
				tx.AddressesOf(pool) // which the memo of addresses caches
				return errors.Join(held, outcome)
			})
			if !errors.Is(err, outcome) {
				t.Fatal(err)
			}
			if err := l.Update(func(tx *Tx) error { return tx.FreeAddresses(vf.ID{}) }); err != nil {
				t.Fatal(err)
			}
		}
		pools, grants := countLast(t, l)
		if bound := keepPools + inUse; pools > bound || l.memos.last.count() > bound+1 || l.memos.addresses.count() > inUse || grants != 1 {
			t.Errorf("%v: %d pools and %d grants are in the ledger, %d entries and %d addresses in the memos",
				outcome, pools, grants, l.memos.last.count(), l.memos.addresses.count())
		}
	}
	err = l.View(func(tx *Tx) error {
		for i := range inUse {
			if last := tx.LastAddresses(fmt.Sprint("tenant/used-", i)); len(last) != 1 {
				t.Errorf("pool %d is in use, and its last addresses are %v", i, last)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFailedTransactionIsForgotten: the memos keep no entry of a pool that only failed transactions
// named, so that retries under many names do not fill them.
func TestFailedTransactionIsForgotten(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "l.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	failed := errors.New("no VF is free")
	for i := range 2000 {
		err := l.Update(func(tx *Tx) error {
			held := tx.HoldAddress(Address{Network: fmt.Sprint("tenant/", i), Addr: netip.MustParseAddr("10.0.0.9")})
			if n := len(tx.AddressesOf("")); n != 1 {
				t.Errorf("%d addresses are held", n)
			}
			return errors.Join(held, failed)
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
	}
	if last, held := l.memos.last.count(), l.memos.addresses.count(); last+held > 0 {
		t.Errorf("the memos have the last addresses of %d pools, and %d addresses", last, held)
	}
}
