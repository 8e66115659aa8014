package journal

import (
	"bytes"
	"net/netip"
	"sync"
)

// memo caches the decoded values of a bucket's entries. Each request reads all records and
// addresses, although the request before changed only one or two of them, and decoding JSON takes
// longer than the rest of a request. The memo compares the stored bytes each time, so it is never
// stale. Callers share the values, and must not change what they point to.
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
// finds other stored bytes.
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

// forgetEntry drops an entry that is being deleted.
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
