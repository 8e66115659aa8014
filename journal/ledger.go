// Package journal is the ledger of a node: one durable file that says, for
// every VF that Culvert made, who holds it and what it must look like when it
// is given back, and which addresses are held. Intent is written before the
// kernel is touched and the outcome after; at start culvertd compares the
// ledger with the kernel and finishes, undoes or quarantines what it finds.
//
// attach, ipam and reconcile write; status reads. The file is a bbolt database
// (fsync on every commit, so an Update that returned nil is durable).
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/culvert-net/culvert/vf"
)

// DefaultPath is where culvertd keeps its ledger.
const DefaultPath = "/var/lib/culvert/ledger.db"

const format = "1"

var (
	bucketMeta      = []byte("meta")      // format, boot -> text
	bucketRecords   = []byte("records")   // vf.ID -> Record
	bucketAddresses = []byte("addresses") // network NUL addr -> Address
	bucketLast      = []byte("last")      // network -> addresses given out lately
	bucketEvents    = []byte("events")    // big-endian seq -> Event
)

// Options says how Open behaves. The zero value is for production.
type Options struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// NoSync leaves out fsync, for tests that simulate crashes of the process
	// and not of the machine.
	NoSync bool
}

// Ledger is the open file. Its methods may be called concurrently.
type Ledger struct {
	db  *bolt.DB
	now func() time.Time

	mu      sync.Mutex // guards changed
	changed chan struct{}
}

// Open opens the ledger at path and makes it if it is not there. A file that
// is not a ledger, or of another format, is an error and stays as it is.
func Open(path string, opts Options) (*Ledger, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, NoSync: opts.NoSync, FreelistType: bolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open ledger %s: another culvertd has it open", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w (culvertd does not guess: move the file away only if no pod or VM holds a VF)", path, err)
	}
	l := &Ledger{db: db, now: opts.Now, changed: make(chan struct{})}
	if err := db.Update(prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", path, err), db.Close())
	}
	return l, nil
}

func prepare(tx *bolt.Tx) error {
	for _, b := range [][]byte{bucketMeta, bucketRecords, bucketAddresses, bucketLast, bucketEvents} {
		if _, err := tx.CreateBucketIfNotExists(b); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	switch have := string(meta.Get([]byte("format"))); have {
	case format:
		return nil
	case "":
		return meta.Put([]byte("format"), []byte(format))
	default:
		return fmt.Errorf("its format is %q, this culvertd reads %q", have, format)
	}
}

// Close closes the file.
func (l *Ledger) Close() error { return l.db.Close() }

// Update runs f in one transaction. What f did is durable when Update returns
// nil, and did not happen at all when it returns an error.
func (l *Ledger) Update(f func(*Tx) error) error {
	if err := l.db.Update(func(btx *bolt.Tx) error { return f(&Tx{tx: btx, now: l.now()}) }); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// Changed returns a channel that is closed at the next commit. Ask for it
// before reading, or a commit in between is missed.
func (l *Ledger) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// View runs f on a consistent state of the ledger.
func (l *Ledger) View(f func(*Tx) error) error {
	return l.db.View(func(btx *bolt.Tx) error { return f(&Tx{tx: btx, now: l.now()}) })
}

// Tx reads and, inside Update, writes the ledger.
type Tx struct {
	tx  *bolt.Tx
	now time.Time
}

// Now is the time of the transaction.
func (t *Tx) Now() time.Time { return t.now }

// Record returns the record of a VF; vf.ErrNotFound when Culvert did not make
// that VF.
func (t *Tx) Record(id vf.ID) (Record, error) {
	raw := t.tx.Bucket(bucketRecords).Get([]byte(id.String()))
	if raw == nil {
		return Record{}, fmt.Errorf("ledger: VF %s: %w", id, vf.ErrNotFound)
	}
	return decode[Record](raw)
}

// Records returns every record, ordered by PF and index.
func (t *Tx) Records() ([]Record, error) {
	all, err := decodeAll[Record](t.tx.Bucket(bucketRecords), nil)
	slices.SortFunc(all, func(a, b Record) int { return a.ID.Compare(b.ID) })
	return all, err
}

// Put writes a record. A change of phase sets Since.
func (t *Tx) Put(r Record) error {
	if old, err := t.Record(r.ID); err != nil || old.Phase != r.Phase {
		r.Since = t.now
	}
	return t.put(bucketRecords, []byte(r.ID.String()), r)
}

// Delete forgets a VF that is no longer there.
func (t *Tx) Delete(id vf.ID) error {
	return t.tx.Bucket(bucketRecords).Delete([]byte(id.String()))
}

// Boot returns the boot ID under which the ledger was last used.
func (t *Tx) Boot() string { return string(t.tx.Bucket(bucketMeta).Get([]byte("boot"))) }

// SetBoot remembers the boot ID of now.
func (t *Tx) SetBoot(id string) error { return t.tx.Bucket(bucketMeta).Put([]byte("boot"), []byte(id)) }

func (t *Tx) put(bucket, key []byte, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("ledger: encode %s: %w", key, err)
	}
	if err := t.tx.Bucket(bucket).Put(key, raw); err != nil {
		return fmt.Errorf("ledger: write %s: %w", key, err)
	}
	return nil
}

func decode[T any](raw []byte) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("ledger: damaged entry: %w", err)
	}
	return v, nil
}

// decodeAll decodes the values whose keys start with prefix. A damaged entry
// is reported and does not hide the others.
func decodeAll[T any](b *bolt.Bucket, prefix []byte) ([]T, error) {
	var (
		out  []T
		errs []error
	)
	c := b.Cursor()
	for k, raw := c.Seek(prefix); k != nil && len(k) >= len(prefix) && string(k[:len(prefix)]) == string(prefix); k, raw = c.Next() {
		v, err := decode[T](raw)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", k, err))
			continue
		}
		out = append(out, v)
	}
	return out, errors.Join(errs...)
}
