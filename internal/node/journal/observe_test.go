package journal_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/node/journal"
)

// Each durable transaction is observed with its events and the time that it took after the caller's
// part; one that fails is not.
func TestCommitsAreObserved(t *testing.T) {
	now := time.Unix(0, 0)
	var seen []journal.Commit
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{
		NoSync: true, Now: func() time.Time { now = now.Add(time.Second); return now }, Observe: func(c journal.Commit) { seen = append(seen, c) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write := func(fail error) {
		err := l.Update(func(tx *journal.Tx) error {
			return errors.Join(tx.Event(journal.Event{Type: journal.Warning, Reason: "Quarantined"}), tx.Event(journal.Event{Type: journal.Normal, Reason: "Recovered"}), fail)
		})
		if !errors.Is(err, fail) {
			t.Fatal(err)
		}
	}
	write(nil)
	write(errors.New("no VF is free"))
	if err := l.Update(func(*journal.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	want := []journal.Commit{
		{Took: time.Second, Events: []journal.EventKind{{Type: "Warning", Reason: "Quarantined"}, {Type: "Normal", Reason: "Recovered"}}}, {Took: time.Second},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
