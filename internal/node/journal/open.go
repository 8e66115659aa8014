package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/node/journal/pages"
)

// format is the format that this culvertd reads and writes.
const format = "2"

// Options changes how Open behaves. The zero value is for production.
type Options struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// NoSync leaves out fsync, for tests that simulate crashes of the process
	// and not of the machine.
	NoSync bool
	// KeepEvents is how many events the ledger keeps; 0 stands for DefaultEvents.
	KeepEvents int
	// Observe takes each commit, also that of a note that Open writes; nil: none. It does not block.
	Observe func(Commit)
}

// Commit is an Update that is durable.
type Commit struct {
	Took   time.Duration // to write and sync the file
	Events []EventKind   // that it wrote
}

// lockBound is how long Open waits for another culvertd to close the file.
const lockBound = time.Second

// ErrBusy says that another process has the ledger open.
var ErrBusy = errors.New("another culvertd has it open")

// ErrDamaged says that the file exists, but cannot be trusted as a ledger.
var ErrDamaged = errors.New("damaged")

// Open opens the ledger at path, and makes it if there is none. It does not guess: for a file
// that is damaged it returns ErrDamaged, and for one of a newer culvertd ErrNewer, with the problem
// and the next step. It leaves the file as it is. Single records that cannot be read are no obstacle: they
// are returned as Damaged, and their VFs are not given out.
func Open(path string, opts Options) (*Ledger, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	l, err := openOrMake(path, opts)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	return l, nil
}

// ensureFolder makes the folder of DefaultPath, and returns an error if another folder is missing: that
// is more often a mistyped name.
func ensureFolder(dir string) error {
	if dir == filepath.Dir(DefaultPath) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w: culvertd must be able to make that folder", err)
		}
		return nil
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder %s is not there: make it with mkdir -p %[1]s, or name a ledger in a folder that is there", dir)
	}
	return nil
}

func openOrMake(path string, opts Options) (*Ledger, error) {
	if err := ensureFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	var c Content
	err := readFile(path, func(source pages.Source) (err error) {
		c, err = readSound(path, source)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		if err := createLedger(path, opts); err != nil {
			return nil, fmt.Errorf("make it: %w", err)
		}
	} else if err != nil {
		return nil, err
	}
	db, err := openDB(path, opts)
	if err != nil {
		return nil, err
	}
	db, note, err := compactBloated(db, path, c, opts)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	l := &Ledger{db: db, path: path, now: opts.Now, memos: newMemos(), keepEvents: cmp.Or(opts.KeepEvents, DefaultEvents), observe: opts.Observe}
	if err := db.Update(prepareBuckets); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: make room on its file system, or mend that", err), db.Close())
	}
	if note.Reason != "" {
		err = l.Update(func(tx *Tx) error { return tx.Event(note) })
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

// openDB opens the database at path, and locks it.
func openDB(path string, opts Options) (*bolt.DB, error) {
	db, err := lockDB(path, boltOptions(opts))
	if err != nil && !errors.Is(err, ErrBusy) {
		return nil, fmt.Errorf("%w: culvertd must be able to write it", err)
	}
	return db, err
}

// lockDB opens the database at path with bbolt's lock. It returns ErrBusy if another process has
// the file locked. It also does so if another process replaced the file meanwhile, since its lock
// is then on a file that is not at path any more.
func lockDB(path string, options *bolt.Options) (*bolt.DB, error) {
	var opened *os.File
	options.OpenFile = func(name string, flag int, perm fs.FileMode) (f *os.File, err error) {
		opened, err = os.OpenFile(name, flag, perm)
		return opened, err
	}
	db, err := bolt.Open(path, 0o600, options)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	if there, err := isAt(path, opened); err != nil || !there {
		return nil, errors.Join(cmp.Or(err, ErrBusy), db.Close())
	}
	return db, nil
}

// makeDB makes a database at path, where nothing must be, not even a link: another user may have put
// it there.
func makeDB(path string, opts Options) (*bolt.DB, error) {
	options := boltOptions(opts)
	options.OpenFile = func(name string, flag int, perm fs.FileMode) (*os.File, error) {
		return os.OpenFile(name, flag|os.O_CREATE|os.O_EXCL, perm)
	}
	return bolt.Open(path, 0o600, options)
}

// isAt reports whether an open file is the file at path.
func isAt(path string, f *os.File) (bool, error) {
	have, err := f.Stat()
	if err != nil {
		return false, err
	}
	want, err := os.Stat(path)
	return err == nil && os.SameFile(have, want), err
}

func boltOptions(opts Options) *bolt.Options {
	return &bolt.Options{Timeout: lockBound, NoSync: opts.NoSync, FreelistType: bolt.FreelistMapType}
}

// readFile calls read with the file while no process writes to it. The error is fs.ErrNotExist if
// nothing is at path, not even a link.
func readFile(path string, read func(pages.Source) error) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if target, linkErr := os.Readlink(path); linkErr == nil {
			return fmt.Errorf("it is a link to %s, which is not there: mount what is missing, or remove the link if no pod and no VM has a VF", target)
		}
		return err
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is no file (%s): name a file, or move it away", ErrDamaged, info.Mode())
	}
	// When bbolt opens a file read-only, it takes its lock and reads only the two metas, or
	// reports that they are missing. Its judgement of the metas does not matter, since package
	// pages reads them and the rest of the file.
	db, err := lockDB(path, &bolt.Options{ReadOnly: true, Timeout: lockBound})
	switch {
	case errors.Is(err, ErrBusy):
		return ErrBusy
	case err == nil:
		defer db.Close()
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	source, err := sourceOf(f)
	if err != nil {
		return err
	}
	return read(source)
}

// sourceOf returns the present content of an open file.
func sourceOf(f *os.File) (pages.Source, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(f, 0, info.Size()), nil
}

// readSound returns the content of a file, or an error that says why culvertd cannot work with
// it.
func readSound(path string, source pages.Source) (Content, error) {
	c, file := readContent(source, checkEvents)
	if len(c.Faults) == 0 {
		return c, nil
	}
	if c.Newer() {
		return c, fmt.Errorf("%w: %s: nothing was changed in it: start the newer culvertd again; to stay with this one, let the newer one first end what only it knows (docs/upgrade.md)", ErrNewer, c.newer)
	}
	if err := c.checkOrigin(path, source, file); err != nil {
		return c, fmt.Errorf("%w: %s: %w", ErrDamaged, c.Faults[0], err)
	}
	more := ""
	if n := len(c.Faults) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more faults)", n)
	}
	return c, fmt.Errorf("%w: %s%s: culvertd does not guess who has which VF: culvert ledger check %s says what is wrong, culvert ledger repair %s saves what can be read",
		ErrDamaged, c.Faults[0], more, path, path)
}

// createLedger makes an empty ledger, as a whole or not at all. So a file that is empty or
// incomplete was damaged later.
func createLedger(path string, opts Options) (err error) {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() { os.Remove(fresh) }()
	db, err := makeDB(fresh, opts)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(prepareBuckets), db.Close()); err != nil {
		return err
	}
	if err := os.Link(fresh, path); err != nil { // unlike a rename, it never replaces a file
		return err
	}
	return durable.SyncFolder(filepath.Dir(path))
}

// prepareBuckets makes the buckets of a ledger, and notes its format and the total of its entries.
func prepareBuckets(btx *bolt.Tx) error {
	for _, b := range buckets {
		if _, err := btx.CreateBucketIfNotExists(b); err != nil {
			return err
		}
	}
	tx := &Tx{tx: btx}
	meta := btx.Bucket(bucketMeta)
	have, err := unsealEntry(bucketMeta, keyFormat, meta.Get(keyFormat))
	switch {
	case err == nil && string(have) == format:
	case meta.Get(keyFormat) == nil:
		if err := meta.Put(keyFormat, sealEntry(bucketMeta, keyFormat, []byte(format))); err != nil {
			return err
		}
	default:
		return fmt.Errorf("its format is %q, this culvertd reads %q", have, format)
	}
	if meta.Get(keyTotal) != nil {
		return nil
	}
	return meta.Put(keyTotal, sealEntry(bucketMeta, keyTotal, []byte(tx.countTotal().String())))
}

// countTotal computes the total of all entries.
func (t *Tx) countTotal() (sum total) {
	for _, bucket := range buckets {
		for key, stored := range t.entriesFrom(bucket, nil) {
			if string(key) != string(keyTotal) {
				sum.addEntry(bucket, key, stored)
			}
		}
	}
	return sum
}
