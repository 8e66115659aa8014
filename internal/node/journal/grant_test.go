package journal

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The ledger keeps grants by network and ID, even after a reboot. Grants leaves out a damaged
// grant, which is a problem. LastAddresses does not contain the addresses of grants.
func TestGrants(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "ledger.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := netip.MustParseAddr
	open := Grant{Network: "n", ID: "1"}
	closed := Grant{Network: "n", ID: "2", Runs: []AddressRun{{addr("10.0.0.2"), addr("10.0.0.3")}, {addr("fd00::1"), addr("fd00::1")}}}
	other, gone, damaged := Grant{Network: "n/2", ID: "3"}, Grant{Network: "n", ID: "4"}, Grant{Network: "n", ID: "5"}
	update := func(f func(tx *Tx) error) {
		t.Helper()
		if err := l.Update(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []Grant{open, closed, other, gone} {
		update(func(tx *Tx) error { return tx.PutGrant(g) })
	}
	update(func(tx *Tx) error { return tx.DeleteGrant(gone) })
	update(func(tx *Tx) error { return tx.putJSON(bucketLast, grantKey("n", damaged.ID), []string{"10.0.0.9"}) })
	update(func(tx *Tx) error { return tx.HoldAddress(Address{Network: "n", Addr: addr("10.0.0.2")}) })
	update(func(tx *Tx) error { return tx.Clear() })
	for _, g := range []Grant{{Network: "", ID: "1"}, {Network: "n"}, {Network: "n", ID: "a\x00b"}} {
		if err := l.Update(func(tx *Tx) error { return tx.PutGrant(g) }); err == nil {
			t.Errorf("%+v is stored", g)
		}
	}
	err = l.View(func(tx *Tx) error {
		same := cmpopts.EquateComparable(netip.Addr{})
		if diff := cmp.Diff([]Grant{open, closed}, tx.Grants("n"), same); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		c := tx.Content()
		if diff := cmp.Diff([]Grant{open, closed, other}, c.Grants, same); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if len(c.Damage) != 1 || c.Damage[0].Object != `grant "5" of network "n"` {
			t.Errorf("problems %+v", c.Damage)
		}
		if len(tx.LastAddresses("n")) != 1 || len(c.Last) != 1 {
			t.Errorf("given out lately: %v", c.Last)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
