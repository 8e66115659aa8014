package journal

import (
	"errors"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal/pages"
)

// StoreSandboxes writes sandboxes as a culvertd did that had no bound on their size.
func (l *Ledger) StoreSandboxes(all []Sandbox) error {
	return l.Update(func(tx *Tx) error {
		var errs []error
		for _, s := range all {
			errs = append(errs, tx.putJSON(bucketSandboxes, []byte(s.ID), s))
		}
		return errors.Join(errs...)
	})
}

// WriteLedger is the part of Write that makes the new file.
func (r Rescue) WriteLedger(path string, damaged pages.Source, now time.Time) error {
	return r.writeLedger(path, damaged, now)
}
