// Package journal is the ledger of a node: one durable file with a record of every VF that
// Culvert manages. A record has the VF's owner and its baseline, the state that the VF must have
// when it is given back. The ledger also has the held addresses, and the networks of the pods'
// sandboxes. Callers write the intent before they touch the kernel, and the outcome after. At
// start culvertd compares the ledger with the kernel, and finishes or undoes the work that was
// under way.
//
// attach, ipam and reconcile write; status reads. The file is a bbolt database
// (fsync on every commit, so an Update that returned nil is durable).
package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/vf"
)

// DefaultPath is where culvertd keeps its ledger.
const DefaultPath = "/var/lib/culvert/ledger.db"

var (
	bucketMeta      = []byte("meta")      // format, boot, total -> text
	bucketRecords   = []byte("records")   // vf.ID -> Record
	bucketAddresses = []byte("addresses") // network NUL addr -> Address
	bucketLast      = []byte("last")      // network NUL -> addresses given out lately; Grant; PFLease
	bucketEvents    = []byte("events")    // big-endian seq -> Event
	bucketSandboxes = []byte("sandboxes") // CNI container ID -> Sandbox; an older culvertd of this format leaves them alone

	buckets = [][]byte{bucketMeta, bucketRecords, bucketAddresses, bucketLast, bucketEvents, bucketSandboxes}

	keyFormat = []byte("format")
	keyBoot   = []byte("boot")
	keyTotal  = []byte("total") // not counted in it
)

// Ledger is the open file. Its methods may be called concurrently.
type Ledger struct {
	db   *bolt.DB
	path string // db.Path may still be the name of a compacted file before its rename
	now  func() time.Time

	keepEvents int
	observe    func(Commit) // nil: none

	changed change.Signal
	memos   *memos
	broken  atomic.Pointer[error] // why the file cannot be used any more
}

// Close closes the ledger's file.
func (l *Ledger) Close() error {
	if l.broken.Load() != nil {
		return nil // db.Close would wait for locks that are never released
	}
	return l.db.Close()
}

// Update runs f in one transaction. When Update returns nil, the changes of f are durable. When
// it returns an error, they did not happen at all: the error is f's own, or that of a file
// system that is full, read-only or broken.
func (l *Ledger) Update(f func(*Tx) error) error {
	var failed error
	var touched []touchedEntry
	var commit Commit
	var began time.Time
	err := l.guardMemory(func() error {
		return l.db.Update(func(btx *bolt.Tx) error {
			tx := &Tx{tx: btx, now: l.now(), memos: l.memos, keepEvents: l.keepEvents}
			failed = f(tx)
			touched, commit.Events = tx.touched, tx.events
			err := errors.Join(failed, tx.writeTotal())
			if l.observe != nil {
				began = l.now()
			}
			return err
		})
	})
	l.memos.forgetTouched(touched, err != nil)
	if err != nil && failed == nil && l.broken.Load() == nil {
		return fmt.Errorf("write ledger: %w: nothing was changed in it; make room on its file system, or mend that", err)
	}
	if err != nil {
		return cmp.Or(failed, err)
	}
	if l.observe != nil {
		commit.Took = l.now().Sub(began)
		l.observe(commit)
	}
	l.changed.Notify()
	return nil
}

// Changed returns a channel that is closed at the next commit. Call it before reading, or the
// caller misses a commit in between.
func (l *Ledger) Changed() <-chan struct{} { return l.changed.Next() }

// View runs f on a consistent state of the ledger.
func (l *Ledger) View(f func(*Tx) error) error {
	return l.guardMemory(func() error {
		return l.db.View(func(btx *bolt.Tx) error { return f(&Tx{tx: btx, now: l.now(), memos: l.memos}) })
	})
}

// ViewLatest runs f on the state after all updates that have begun. It waits for these, and later
// updates wait for f.
func (l *Ledger) ViewLatest(f func(*Tx) error) error {
	return l.guardMemory(func() error {
		btx, err := l.db.Begin(true)
		if err != nil {
			return fmt.Errorf("read ledger after its updates: %w", err)
		}
		defer func() { _ = btx.Rollback() }() // f writes nothing
		return f(&Tx{tx: btx, now: l.now(), memos: l.memos})
	})
}

// guardMemory turns bbolt's reaction to a file that was cut short or overwritten under it, a
// memory fault or a panic, into an error. The ledger is unusable then: bbolt may hold its locks
// for ever. Only a restart, which reads the whole file, shows which entries are left.
func (l *Ledger) guardMemory(f func() error) (err error) {
	if broken := l.broken.Load(); broken != nil {
		return *broken
	}
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		what := recover()
		switch what.(type) {
		case nil:
			return
		case interface{ Addr() uintptr }, string: // a memory fault; a panic of bbolt
			err = fmt.Errorf("ledger %s: %w under culvertd (%v): restart culvertd, which says what is wrong with it", l.path, ErrDamaged, what)
			l.broken.Store(&err)
		default:
			panic(what) //nolint:forbidigo // any other panic is a bug of Culvert
		}
	}()
	return f()
}

// Tx reads and, inside Update, writes the ledger.
type Tx struct {
	tx    *bolt.Tx
	now   time.Time
	memos *memos

	keepEvents int

	changed bool
	delta   total // of what changed
	touched []touchedEntry
	events  []EventKind
}

// Now returns the time of the transaction.
func (t *Tx) Now() time.Time { return t.now }

// Record returns the record of a VF; vf.ErrNotFound when Culvert did not make that VF. A damaged
// record is returned as Damaged.
func (t *Tx) Record(id vf.ID) (Record, error) {
	key := []byte(id.String())
	stored := t.tx.Bucket(bucketRecords).Get(key)
	if stored == nil {
		return Record{}, fmt.Errorf("ledger: VF %s: %w", id, vf.ErrNotFound)
	}
	rec, err := t.memos.records.decodeEntry(key, stored)
	if err != nil {
		return damagedRecord(id, rec, err), nil
	}
	return rec, nil
}

// Records returns every record, ordered by PF and index. Records that cannot be read are among
// them, as Damaged. The caller must not change the values that a record points to.
func (t *Tx) Records() []Record {
	all, _ := decodeRecords(t.entriesFrom(bucketRecords, nil), t.memos.records.count(), t.memos.records.decodeEntry)
	return all
}

// ReadRecords returns the records of a ledger as they are now.
func ReadRecords(l interface {
	View(f func(*Tx) error) error
}) (all []Record, err error) {
	err = l.View(func(tx *Tx) error {
		all = tx.Records()
		return nil
	})
	return all, err
}

// Put writes a record. A change of phase sets Since.
func (t *Tx) Put(r Record) error {
	if r.Phase == vf.PhaseDamaged {
		return fmt.Errorf("ledger: VF %s: its record is damaged (%s): culvert ledger check says more", r.ID, r.Reason)
	}
	if old, err := t.Record(r.ID); err != nil || old.Phase != r.Phase {
		r.Since = t.now
	}
	return t.putJSON(bucketRecords, []byte(r.ID.String()), r)
}

// Delete forgets a VF that is no longer there.
func (t *Tx) Delete(id vf.ID) error { return t.deleteEntry(bucketRecords, []byte(id.String())) }

// Clear deletes the records of all VFs and addresses, including those that cannot be read, and the
// leases of PFs: after a reboot none of the VFs exists, and no guest runs.
func (t *Tx) Clear() error {
	return errors.Join(t.deleteUnder(bucketRecords, nil), t.deleteUnder(bucketAddresses, nil), t.deleteUnder(bucketLast, []byte(pfLeasePrefix)))
}

// Boot returns the boot ID under which the ledger was last used.
func (t *Tx) Boot() string {
	boot, _ := unsealEntry(bucketMeta, keyBoot, t.tx.Bucket(bucketMeta).Get(keyBoot)) // checked by Open
	return string(boot)
}

// SetBoot records the ID of the present boot.
func (t *Tx) SetBoot(id string) error { return t.storeEntry(bucketMeta, keyBoot, []byte(id)) }

// entriesFrom iterates over a bucket from a key on.
func (t *Tx) entriesFrom(bucket, first []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		c := t.tx.Bucket(bucket).Cursor()
		for k, stored := c.Seek(first); k != nil; k, stored = c.Next() {
			if !yield(k, stored) {
				return
			}
		}
	}
}

// entriesUnder iterates over the entries of a bucket whose keys have a prefix.
func (t *Tx) entriesUnder(bucket, prefix []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for k, stored := range t.entriesFrom(bucket, prefix) {
			if !strings.HasPrefix(string(k), string(prefix)) || !yield(k, stored) {
				return
			}
		}
	}
}

func (t *Tx) putJSON(bucket, key []byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("ledger: encode %s: %w", key, err)
	}
	return t.storeEntry(bucket, key, body)
}

// storeEntry seals body, writes it, and updates the total.
func (t *Tx) storeEntry(bucket, key, body []byte) error {
	b := t.tx.Bucket(bucket)
	if old := b.Get(key); old != nil {
		t.delta.subtractEntry(bucket, key, old)
	}
	stored := sealEntry(bucket, key, body)
	t.changed = true
	t.touched = append(t.touched, touchedEntry{bucket: bucket, key: bytes.Clone(key)})
	t.delta.addEntry(bucket, key, stored)
	if err := b.Put(key, stored); err != nil {
		return fmt.Errorf("ledger: write %s: %w", key, err)
	}
	return nil
}

func (t *Tx) deleteEntry(bucket, key []byte) error {
	t.touched = append(t.touched, touchedEntry{bucket: bucket, key: bytes.Clone(key), isDeleted: true})
	b := t.tx.Bucket(bucket)
	if old := b.Get(key); old != nil {
		t.changed = true
		t.delta.subtractEntry(bucket, key, old)
	}
	return b.Delete(key)
}

// writeTotal writes the total of the entries at the end of the transaction.
func (t *Tx) writeTotal() error {
	if !t.changed {
		return nil
	}
	meta := t.tx.Bucket(bucketMeta)
	body, err := unsealEntry(bucketMeta, keyTotal, meta.Get(keyTotal))
	if err != nil {
		return fmt.Errorf("ledger: its total: %w", err)
	}
	sum, err := parseTotal(string(body))
	if err != nil {
		return fmt.Errorf("ledger: its total: %w", err)
	}
	sum.Entries += t.delta.Entries
	sum.Sum += t.delta.Sum
	return meta.Put(keyTotal, sealEntry(bucketMeta, keyTotal, []byte(sum.String())))
}
