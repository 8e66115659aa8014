package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/reasons"
)

// bbolt returns no page to the file system, so the file never shrinks. compactBloated compacts a
// file of which at least compactFree bytes and at least three quarters are free, unless copying
// its largest entry would take much memory.
const compactFree = 16 << 20

// compactBatch bounds the bytes of entries that one transaction writes to a new file, since bbolt
// keeps the pages of a transaction in memory.
const compactBatch = 1 << 20

// compactBloated replaces the file of an open ledger by one with the same entries when most of it
// is free. It returns the database to work with, and an event with the sizes or with the reason
// why the file stays large, which is no reason to refuse a sound ledger. It returns an error only
// if the new file is in place and a power cut may lose it.
//
// Both files are locked until the new one is in place, so another culvertd that starts meanwhile
// finds the file that it opens locked.
func compactBloated(db *bolt.DB, path string, c Content, opts Options) (*bolt.DB, Event, error) {
	size, err := sizeOf(path)
	if err != nil || c.free < compactFree || c.free < size/4*3 || c.large {
		return db, Event{}, err
	}
	fresh, err := replaceCompacted(db, path, opts)
	if fresh == nil {
		return db, Event{
			Type: Warning, Reason: reasons.LedgerNotCompacted, Object: "ledger",
			Text: fmt.Sprintf("it has %d MiB, of which %d are free, and stays so until culvertd starts again: %v", size>>20, c.free>>20, err),
		}, nil
	}
	after, sizeErr := sizeOf(path)
	return fresh, Event{
		Type: Normal, Reason: reasons.LedgerCompacted, Object: "ledger",
		Text: fmt.Sprintf("it had %d MiB, of which %d were free, and has %d KiB now", size>>20, c.free>>20, after>>10),
	}, errors.Join(err, sizeErr, db.Close())
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// replaceCompacted makes a compact copy of an open ledger and renames it to path. When it returns
// no copy, the file at path is unchanged. When it returns a copy and an error, the copy is at
// path and a power cut may lose it.
func replaceCompacted(db *bolt.DB, path string, opts Options) (fresh *bolt.DB, err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	name := path + ".compacted"
	if err := removeIfThere(name); err != nil { // left by a culvertd that was killed
		return nil, err
	}
	if fresh, err = bolt.Open(name, 0o600, boltOptions(opts)); err != nil {
		return nil, errors.Join(err, removeIfThere(name))
	}
	err = bolt.Compact(fresh, db, compactBatch)
	if err == nil {
		err = readBack(name)
	}
	if err == nil {
		err = durable.Rename(name, path)
		if _, there := os.Stat(name); errors.Is(there, fs.ErrNotExist) {
			return fresh, err
		}
	}
	return nil, errors.Join(err, fresh.Close(), removeIfThere(name))
}

func removeIfThere(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readBack reads a new ledger from its file (I6).
func readBack(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := sizeOf(name)
	if err != nil {
		return err
	}
	if c, _ := readContent(io.NewSectionReader(f, 0, size), checkEvents); len(c.Faults) > 0 {
		return fmt.Errorf("%s was read back otherwise than it was written (%s): the disk is broken", name, c.Faults[0])
	}
	return nil
}
