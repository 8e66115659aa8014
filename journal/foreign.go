package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/culvert-net/culvert/journal/pages"
)

// ErrForeign: nothing in the file says that it was ever a ledger. Repair would replace
// a file of another program by an empty ledger.
var ErrForeign = errors.New("it is no ledger, and nothing says that it was one")

// checkOrigin returns ErrForeign for a file that was never a ledger. What was one
// has entries of a ledger on some page. A file of which no entry can be read was one
// when bbolt wrote it; with entries of other programs alone it is theirs, as
// the databases of etcd and containerd are. A file without content, as an interrupted
// copy or a file system leaves it, was one when it has a ledger's name.
func (c Content) checkOrigin(path string, image []byte) error {
	why := ""
	switch {
	case len(c.Faults) == 0:
	case isBlank(image):
		if name := filepath.Base(DefaultPath); filepath.Base(path) != name {
			why = fmt.Sprintf("it has no content, and its name is not %s", name)
		}
	case hasOwnEntry(c.file):
	case !c.file.IsBbolt():
		why = "it has no page of a ledger"
	case len(c.file.Items) > 0 || len(c.file.Leftovers()) > 0:
		why = "it is the database of another program: none of its entries is of a ledger"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w (%s): check the path; if culvertd has to keep its ledger there, move this file away: culvertd makes a new ledger when it starts", ErrForeign, why)
}

// isBlank reports whether an image has no content: no bytes, or zeros.
func isBlank(image []byte) bool { return len(bytes.Trim(image, "\x00")) == 0 }

// hasOwnEntry reports whether one entry of the file, or of an earlier version of it that
// is still on its pages, is as culvertd writes entries.
func hasOwnEntry(f *pages.File) bool {
	isSealed := func(bucket, key, stored []byte) bool {
		_, err := unseal(bucket, key, stored)
		return err == nil
	}
	isOwn := func(i pages.Item) bool {
		if i.Bucket == string(bucketMeta) && string(i.Key) == string(keyFormat) && string(i.Value) == "1" {
			return true
		}
		if _, err := decodeRecord(i.Key, seal(bucketRecords, i.Key, i.Value)); err == nil { // of format 1, without seal
			return true
		}
		return slices.ContainsFunc(buckets, func(bucket []byte) bool { return isSealed(bucket, i.Key, i.Value) })
	}
	return slices.ContainsFunc(f.Items, isOwn) || slices.ContainsFunc(f.Leftovers(), isOwn)
}
