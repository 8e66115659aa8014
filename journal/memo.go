package journal

import (
	"bytes"
	"sync"
)

// memo remembers what the entries of a bucket decode to, by what is stored:
// each request looks at all records and addresses, of which the last one changed
// one or two, and reading JSON takes longer than all else that a request does.
// What is stored is looked at each time, so a memo is never behind. Values are
// shared: who gets one must not change what it points to.
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

// of decodes an entry.
func (m *memo[T]) of(key, stored []byte) (T, error) {
	if old, ok := m.get(string(key)); ok && bytes.Equal(old.stored, stored) {
		return old.value, nil
	}
	v, err := m.decode(key, stored)
	if err == nil {
		m.put(string(key), decoded[T]{bytes.Clone(stored), v})
	}
	return v, err
}

func (m *memo[T]) get(key string) (decoded[T], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.seen[key]
	return d, ok
}

func (m *memo[T]) put(key string, d decoded[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[key] = d
}

// forget drops an entry that is being deleted.
func (m *memo[T]) forget(key []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, string(key))
}

// memos are those of the buckets that every request reads.
type memos struct {
	records   *memo[Record]
	addresses *memo[Address]
}

func newMemos() *memos { return &memos{newMemo(decodeRecord), newMemo(decodeAddress)} }

func (m *memos) forget(bucket, key []byte) {
	switch {
	case bytes.Equal(bucket, bucketRecords):
		m.records.forget(key)
	case bytes.Equal(bucket, bucketAddresses):
		m.addresses.forget(key)
	}
}
