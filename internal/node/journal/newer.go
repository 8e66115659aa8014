package journal

import (
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/exactjson"
)

// ErrNewer says that a newer culvertd wrote the file, so this one does not change it.
var ErrNewer = errors.New("a newer culvertd wrote it")

// noteNewer records that a newer culvertd wrote the file, and what shows that. The first reason counts.
func (c *Content) noteNewer(format string, args ...any) {
	if c.newer == "" {
		c.newer = fmt.Sprintf(format, args...)
	}
}

// refuseNewer makes it the only fault of a file that a newer culvertd wrote it. Only that culvertd
// knows what else the file may have.
func (c *Content) refuseNewer() {
	c.own, c.Damage = true, nil
	c.Faults = []Fault{Fault(fmt.Sprintf("%v: %s", ErrNewer, c.newer))}
}

// openExact is openEntry for an entry that may be of a newer culvertd. If the entry has a field that
// this culvertd does not know, openExact returns the other fields, and notes that: this culvertd would
// lose the field with the next change of the entry.
func openExact[T any](c *Content, named string, bucket, key, stored []byte) (v T, err error) {
	body, err := unsealEntry(bucket, key, stored)
	if err != nil {
		return v, err
	}
	err = exactjson.Decode(body, &v)
	var unknown exactjson.Unknown
	switch {
	case errors.As(err, &unknown):
		c.noteNewer("%s %.100q has the field %.100q, which this culvertd does not know", named, key, unknown.Field)
	case err != nil:
		return v, fmt.Errorf("it cannot be read: %w", err)
	}
	return v, nil
}

func (c *Content) decodeRecord(key, stored []byte) (Record, error) {
	rec, err := openExact[Record](c, "the record of VF", bucketRecords, key, stored)
	return checkRecord(key, rec, err)
}

func (c *Content) decodeAddress(key, stored []byte) (Address, error) {
	a, err := openExact[Address](c, "address", bucketAddresses, key, stored)
	return checkAddress(key, a, err)
}

func (c *Content) decodeSandbox(key, stored []byte) (Sandbox, error) {
	s, err := openExact[Sandbox](c, "sandbox", bucketSandboxes, key, stored)
	return checkSandbox(key, s, err)
}
