package journal_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// BenchmarkRecords reads the records of 256 VFs, all with an owner, as each
// request does.
func BenchmarkRecords(b *testing.B) {
	l, err := journal.Open(filepath.Join(b.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	err = l.Update(func(tx *journal.Tx) error {
		for i := range 256 {
			owner := vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(i), Name: fmt.Sprintf("default/pod-%d", i), Interface: "net1"}
			wanted := vf.Spec{Interface: "net1", Addresses: []vf.Address{{Prefix: netip.MustParsePrefix("10.56.0.9/16")}}}
			rec := journal.Record{ID: id(i), Phase: vf.PhaseAttached, Lease: journal.Lease{Owner: owner, Network: "net", Wanted: wanted}}
			if err := tx.Put(rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		err := l.View(func(tx *journal.Tx) error {
			all := tx.Records()
			if len(all) != 256 {
				b.Fatalf("%d records", len(all))
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
