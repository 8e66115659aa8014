package journal_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// makeAttached returns a record as an attach of a pod leaves it.
func makeAttached(i int) journal.Record {
	return journal.Record{
		ID: id(i), PCI: vf.PCIAddr{Bus: 1, Device: 0x10}, Generation: 7, Phase: vf.PhaseAttached,
		Baseline: vf.Baseline{Admin: vf.Admin{MAC: vf.MAC{2, 0, 0, 0, 0, 9}}},
		Lease: journal.Lease{
			Owner:   vf.Owner{Kind: vf.OwnerPod, UID: strings.Repeat("3f2a9c41", 8), Name: "default/a-7d9c6b5f8-x2x7k", Interface: "net1"},
			PodUID:  "6b1f0d5e-1a52-4b0c-9f5e-7c7a5a1b2c3d",
			Network: "default/blue",
			Wanted: vf.Spec{Interface: "net1", Addresses: []vf.Address{
				{Prefix: netip.MustParsePrefix("10.56.0.9/16")}, {Prefix: netip.MustParsePrefix("fd00::9/64")},
			}},
			Effective: vf.Admin{MAC: vf.MAC{2, 0, 0, 0, 0, 9}, VLAN: vf.VLAN{ID: 100}, MaxTxRate: 500},
			LinkMAC:   vf.MAC{2, 0, 0, 0, 0, 9},
		},
	}
}

func openKeeping(t testing.TB, path string, keep int) *journal.Ledger {
	t.Helper()
	l, err := journal.Open(path, journal.Options{NoSync: true, KeepEvents: keep})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func eventsOf(t testing.TB, l *journal.Ledger) (all []journal.Event) {
	t.Helper()
	if err := l.View(func(tx *journal.Tx) error { all = tx.Events(0); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// An event about a VF names the VF, its owner and pod, and what the owner got, through a restart.
func TestEventsHaveTheirSubject(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openKeeping(t, path, 0)
	rec := makeAttached(3)
	err := l.Update(func(tx *journal.Tx) error {
		e := rec.MakeEvent(journal.Normal, "Attached", "vf 3")
		e.Settings = rec.DescribeSettings()
		return errors.Join(tx.Put(rec), tx.Event(e), tx.Forget(rec.ID, "it is gone"))
	})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	l = openKeeping(t, path, 0)
	defer l.Close()
	all := eventsOf(t, l)
	if len(all) != 2 {
		t.Fatalf("events %+v", all)
	}
	want := journal.Event{
		Seq: 1, Time: all[0].Time, Type: journal.Normal, Reason: "Attached", Object: "VF 0000:01:10.0", Text: "vf 3",
		VF: id(3), Phase: vf.PhaseAttached, Owner: rec.Lease.Owner, PodUID: rec.Lease.PodUID, Network: "default/blue", MAC: rec.Lease.LinkMAC,
		Addresses: []netip.Addr{netip.MustParseAddr("10.56.0.9"), netip.MustParseAddr("fd00::9")},
		Settings:  "vlan 100, max_tx_rate 500",
	}
	if diff := cmp.Diff(want, all[0], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if e := all[1]; e.Reason != "LeaseEnded" || e.VF != id(3) || e.Phase != "" || e.Owner != rec.Lease.Owner {
		t.Errorf("the end of the lease: %+v", e)
	}
}

// Each event drops a bounded number of old ones: also after the number of kept events was lowered, a
// transaction stays short, and the ledger soon has as many as it keeps.
func TestFewerEventsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	write := func(l *journal.Ledger, n int) {
		t.Helper()
		err := l.Update(func(tx *journal.Tx) error {
			for i := range n {
				if err := tx.Event(journal.Event{Text: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	l := openKeeping(t, path, 0)
	write(l, 3000)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openKeeping(t, path, journal.LeastEvents)
	defer l.Close()
	write(l, 1)
	if n := len(eventsOf(t, l)); n != 3000+1-64 {
		t.Errorf("one event dropped others until %d were left", n)
	}
	write(l, 40)
	if n := len(eventsOf(t, l)); n != journal.LeastEvents {
		t.Errorf("%d events are kept", n)
	}
}

// A ledger with events of an older culvertd, which have no subject, opens, and keeps them beside new
// ones. The older culvertd reads the new ones: the fields that it knows are as before.
func TestHistoryAcrossVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openKeeping(t, path, 0)
	old := journal.Event{Type: journal.Normal, Reason: "Attached", Object: "VF 0000:01:10.0", Text: "vf 0 of enp1s0f0 to pod default/a"}
	err := l.Update(func(tx *journal.Tx) error { return tx.Event(old) })
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	raw := storedEvents(t, path)
	const before = `"type":"Normal","reason":"Attached","object":"VF 0000:01:10.0","text":"vf 0 of enp1s0f0 to pod default/a"}`
	if len(raw) != 1 || !strings.Contains(raw[0], before) {
		t.Fatalf("an event without a subject is stored as %q", raw)
	}
	l = openKeeping(t, path, 0)
	rec := makeAttached(0)
	if err := l.Update(func(tx *journal.Tx) error { return tx.Event(rec.MakeEvent(journal.Warning, "DriftMended", "x")) }); err != nil {
		t.Fatal(err)
	}
	all := eventsOf(t, l)
	if len(all) != 2 || all[0].Text != old.Text || all[0].VF != (vf.ID{}) || all[1].VF != rec.ID {
		t.Errorf("%+v", all)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if raw := storedEvents(t, path); !strings.Contains(raw[1], `"reason":"DriftMended","object":"VF 0000:01:10.0","text":"x","vf":`) {
		t.Errorf("stored: %s", raw[1])
	}
}

func storedEvents(t *testing.T, path string) (out []string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("events")).ForEach(func(_, v []byte) error {
			out = append(out, string(v))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A lease and its events cost a bounded number of bytes.
func TestBytesOfHistory(t *testing.T) {
	rec := makeAttached(3)
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openKeeping(t, path, 0)
	free := rec
	free.Phase = vf.PhaseFree
	err := l.Update(func(tx *journal.Tx) error {
		e := rec.MakeEvent(journal.Normal, "Attached", "vf 3 of enp1s0f0 to pod default/a-7d9c6b5f8-x2x7k on network default/blue")
		e.Settings = rec.DescribeSettings()
		return errors.Join(tx.Event(e), tx.Event(free.MakeEvent(journal.Normal, "Detached", "vf 3 of enp1s0f0 from pod default/a-7d9c6b5f8-x2x7k, clean")))
	})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	raw := storedEvents(t, path)
	t.Logf("history: %d bytes for an attach, %d for a detach", len(raw[0]), len(raw[1]))
	if len(raw[0]) > 640 || len(raw[1]) > 640 {
		t.Errorf("too many: %q", raw)
	}
}

// The memory of a ledger does not grow with its events: opening it, its content and a page of events
// keep few of them.
func TestEventsStayOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openKeeping(t, path, 0)
	rec := makeAttached(3)
	for range 20 {
		err := l.Update(func(tx *journal.Tx) error {
			for range journal.DefaultEvents / 20 {
				if err := tx.Event(rec.MakeEvent(journal.Normal, "Attached", "vf 3 of enp1s0f0 to pod default/a-7d9c6b5f8-x2x7k")); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before := readHeap()
	l = openKeeping(t, path, 0)
	defer l.Close()
	var c journal.Content
	var page []journal.Event
	err := l.View(func(tx *journal.Tx) error {
		c, page = tx.CheckContent(), tx.EventPage(0, 256)
		return nil
	})
	grown := readHeap() - before
	info, statErr := os.Stat(path)
	if err := errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events: the file has %d KiB, the heap grew by %d KiB", journal.DefaultEvents, info.Size()>>10, grown>>10)
	if len(page) != 256 || len(c.Events) != 0 || len(c.Problems()) != 0 || grown > 1<<20 || info.Size() > 8<<20 {
		t.Errorf("a page of %d, content with %d events and problems %v, heap %d KiB, file %d KiB", len(page), len(c.Events), c.Problems(), grown>>10, info.Size()>>10)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(page)
}

func readHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
