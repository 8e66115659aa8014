package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/culvert-net/culvert/internal/node/journal/pages"
	"github.com/culvert-net/culvert/internal/vf"
)

// ErrForeign means that nothing in the file shows that it was ever a ledger. Repair would replace a
// file of another program by an empty ledger.
var ErrForeign = errors.New("it is no ledger, and nothing says that it was one")

// checkOrigin returns ErrForeign for a file that was never a ledger. A file counts as a former
// ledger if some page has an entry of a ledger. A file of which no entry can be read counts as
// one if bbolt wrote it. A file that has only entries of other programs, such as a database of etcd
// or containerd, does not count. A file without content, as an interrupted copy or a file system
// may leave it, counts as one if it has a ledger's name.
func (c Content) checkOrigin(path string, source pages.Source, file *pages.File) error {
	why := ""
	switch {
	case len(c.Faults) == 0:
	case isBlank(source):
		if name := filepath.Base(DefaultPath); filepath.Base(path) != name {
			why = fmt.Sprintf("it has no content, and its name is not %s", name)
		}
	case c.own:
	case !file.IsBbolt():
		why = "it has no page of a ledger"
	case hasEntry(file):
		why = "it is the database of another program: none of its entries is of a ledger"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w (%s): check the path; if culvertd has to keep its ledger there, move this file away: culvertd makes a new ledger when it starts", ErrForeign, why)
}

// isBlank reports whether a file has no content: no bytes, or zeros.
func isBlank(source pages.Source) bool {
	b := make([]byte, 1<<15)
	for at := int64(0); at < source.Size(); at += int64(len(b)) {
		n, err := source.ReadAt(b, at)
		if len(bytes.Trim(b[:n], "\x00")) > 0 {
			return false
		}
		if err != nil {
			break
		}
	}
	return true
}

// allEntries returns the entries of all buckets of a file, and those left on unused pages.
func allEntries(file *pages.File) entries {
	return func(yield func([]byte, []byte) bool) {
		for key, stored := range file.AllItems() {
			if !yield(key, stored) {
				return
			}
		}
		file.Leftovers()(yield)
	}
}

func hasEntry(file *pages.File) bool {
	for range allEntries(file) {
		return true
	}
	return false
}

// isOwn reports whether an entry has culvertd's format.
func isOwn(key, stored []byte) bool {
	return slices.ContainsFunc(buckets, func(bucket []byte) bool {
		_, err := unsealEntry(bucket, key, stored)
		return err == nil
	})
}

// readLeftovers reads all pages of a damaged file. It finds out whether culvertd wrote the file,
// and collects the latest versions of records on unused pages.
func (c *Content) readLeftovers(file *pages.File) {
	for key, stored := range allEntries(file) {
		if c.own = c.own || isOwn(key, stored); c.own {
			break
		}
	}
	c.hints = map[vf.ID]Record{}
	for key, stored := range file.Leftovers() {
		rec, err := decodeRecord(key, stored)
		if old, ok := c.hints[rec.ID]; err == nil && (!ok || rec.Generation > old.Generation || rec.Generation == old.Generation && rec.Since.After(old.Since)) {
			c.hints[rec.ID] = rec
		}
	}
}
