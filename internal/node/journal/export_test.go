package journal

import "errors"

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
