package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/culvert-net/culvert/internal/node/journal"
)

// database is the image of another program's bbolt file, with a bucket of the same
// name as one of the ledger's, as etcd has.
func database(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "member.db")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("meta"))
		if err != nil {
			return err
		}
		below, err := b.CreateBucket([]byte("v1"))
		if err != nil {
			return err
		}
		return errors.Join(b.Put([]byte("term"), []byte("7")), below.Put([]byte("format"), []byte("2")))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Inspect refuses a file that was never a ledger, so no repair replaces it. If culvertd finds such
// a file at its ledger's path, its error does not advise a repair. A file that was a ledger still
// counts as one, even if little of it is left.
func TestForeignFileIsNoLedger(t *testing.T) {
	whole := image(t, 40)
	overwritten := func(from, to int) []byte {
		out := bytes.Clone(whole)
		for i := from; i < to; i++ {
			out[i] = 'x'
		}
		return out
	}
	text := []byte(strings.Repeat("root:x:0:0:root:/root:/bin/bash\n", 400))
	for name, test := range map[string]struct {
		image   []byte
		file    string
		foreign string // the reason; empty for a file that was a ledger
	}{
		"text":                       {text, "ledger.db", "it has no page of a ledger"},
		"short text":                 {[]byte("a"), "ledger.db", "it has no page of a ledger"},
		"database of another":        {database(t), "ledger.db", "it is the database of another program"},
		"damaged one of another":     {database(t)[:5*pageSize/2], "ledger.db", ""}, // no entry can be read
		"empty":                      {nil, "ledger.db", ""},
		"empty, by another name":     {nil, "notes", "it has no content, and its name is not ledger.db"},
		"zeros":                      {make([]byte, 9000), "ledger.db", ""},
		"zeros, by another name":     {make([]byte, 9000), "notes", "it has no content"},
		"whole":                      {whole, "copy", ""},
		"first page overwritten":     {overwritten(0, pageSize), "copy", ""},
		"both metas overwritten":     {overwritten(0, 2*pageSize), "copy", ""},
		"all but a meta overwritten": {overwritten(pageSize, len(whole)), "copy", ""},
		"cut in its first page":      {whole[:100], "copy", ""},
		"cut to a few bytes":         {whole[:17], "copy", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), test.file)
			if err := os.WriteFile(path, test.image, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := journal.Inspect(path)
			if test.foreign == "" {
				if err != nil {
					t.Errorf("it was a ledger: %v", err)
				}
				return
			}
			_, openErr := journal.Open(path, journal.Options{NoSync: true})
			for _, err := range []error{err, openErr} {
				if !errors.Is(err, journal.ErrForeign) || !strings.Contains(err.Error(), test.foreign) || strings.Contains(err.Error(), "repair") {
					t.Error(err)
				}
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, test.image) {
				t.Errorf("it was changed: %v", err)
			}
		})
	}
}
