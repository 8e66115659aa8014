package journal

import (
	"bytes"
	"net/netip"
	"sync"
)

// memo caches the decoded values of a bucket's entries. Each request reads all records and
// addresses, although the request before changed only one or two of them, and decoding JSON takes
// longer than the rest of a request. The memo compares the stored bytes each time, so it is never
// stale. Callers share the values, and must not change the data that these point to.
type memo[T any] struct {
	decode func(key, stored []byte) (T, error)

	mu   sync.Mutex // guards seen
	seen map[string]decoded[T]
}

type decoded[T any] struct {
	stored []byte
	value  T
}

func newMemo[T any](decode func(key, stored []byte) (T, error)) *memo[T] {
	return &memo[T]{decode: decode, seen: map[string]decoded[T]{}}
}

// decodeEntry decodes an entry.
func (m *memo[T]) decodeEntry(key, stored []byte) (T, error) {
	if old, ok := m.lookUp(key); ok && bytes.Equal(old.stored, stored) {
		return old.value, nil
	}
	v, err := m.decode(key, stored)
	if err == nil {
		m.keepDecoded(key, stored, v)
	}
	return v, err
}

func (m *memo[T]) lookUp(key []byte) (decoded[T], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.seen[string(key)] // this conversion allocates nothing
	return d, ok
}

// keepDecoded caches the value of an entry. The entry's transaction may still fail: a later one then
// finds other stored bytes, and Update drops the entry.
func (m *memo[T]) keepDecoded(key, stored []byte, v T) {
	d := decoded[T]{bytes.Clone(stored), v}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[string(key)] = d
}

// count returns how many entries are cached, which is about how many the bucket has.
func (m *memo[T]) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.seen)
}

// forgetEntry drops an entry that was deleted, or whose transaction failed.
func (m *memo[T]) forgetEntry(key []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, string(key))
}

// memos has the memo of each bucket that every request reads.
type memos struct {
	records   *memo[Record]
	addresses *memo[Address]
	last      *memo[[]netip.Addr]
}

func newMemos() *memos {
	return &memos{newMemo(decodeRecord), newMemo(decodeAddress), newMemo(openLast)}
}

// touchedEntry is an entry that a transaction wrote or deleted.
type touchedEntry struct {
	bucket, key []byte
	isDeleted   bool
}

// forgetTouched drops the entries that a transaction deleted, or all that it touched if it failed.
// Update calls it when the transaction has ended: until then the readers of the state before it may
// cache a deleted entry again.
func (m *memos) forgetTouched(all []touchedEntry, failed bool) {
	for _, e := range all {
		if failed || e.isDeleted {
			m.forgetEntry(e.bucket, e.key)
		}
	}
}

func (m *memos) forgetEntry(bucket, key []byte) {
	switch {
	case bytes.Equal(bucket, bucketRecords):
		m.records.forgetEntry(key)
	case bytes.Equal(bucket, bucketAddresses):
		m.addresses.forgetEntry(key)
	case bytes.Equal(bucket, bucketLast):
		m.last.forgetEntry(key)
	}
}
