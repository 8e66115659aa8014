package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/culvert-net/culvert/journal/pages"
	"github.com/culvert-net/culvert/vf"
)

// ErrForeign: nothing in the file says that it was ever a ledger. Repair would replace
// a file of another program by an empty ledger.
var ErrForeign = errors.New("it is no ledger, and nothing says that it was one")

// checkOrigin returns ErrForeign for a file that was never a ledger. What was one
// has entries of a ledger on some page. A file of which no entry can be read was one
// when bbolt wrote it; with entries of other programs alone it is theirs, as
// the databases of etcd and containerd are. A file without content, as an interrupted
// copy or a file system leaves it, was one when it has a ledger's name.
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

// allEntries are those of the buckets and the leftovers of a file, one after the other.
func allEntries(file *pages.File) entries {
	return func(yield func([]byte, []byte) bool) {
		for _, name := range file.Buckets {
			for key, stored := range file.Items(name) {
				if !yield(key, stored) {
					return
				}
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

// isOwn reports whether an entry is as culvertd writes entries, now or in format 1.
func isOwn(key, stored []byte) bool {
	if _, err := decodeRecord(key, seal(bucketRecords, key, stored)); err == nil { // of format 1, without seal
		return true
	}
	return slices.ContainsFunc(buckets, func(bucket []byte) bool {
		_, err := unseal(bucket, key, stored)
		return err == nil
	})
}

// leftovers reads from all pages of a damaged file whether culvertd wrote it, and the
// latest versions of records on pages that are not in use.
func (c *Content) leftovers(file *pages.File) {
	c.own = c.Format == "1"
	for key, stored := range allEntries(file) {
		if c.own = c.own || isOwn(key, stored); c.own {
			break
		}
	}
	c.hints = map[vf.ID]Record{}
	for key, stored := range file.Leftovers() {
		if c.Format == "1" {
			stored = seal(bucketRecords, key, stored)
		}
		rec, err := decodeRecord(key, stored)
		if old, ok := c.hints[rec.ID]; err == nil && (!ok || rec.Generation > old.Generation || rec.Generation == old.Generation && rec.Since.After(old.Since)) {
			c.hints[rec.ID] = rec
		}
	}
}
