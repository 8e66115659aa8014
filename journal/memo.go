package journal

import (
	"bytes"
	"sync"
)

// memo keeps the records of a ledger as they were decoded last. Every attach
// looks at all of them several times, and between two looks one has changed. An
// entry counts only while what is stored is the same byte for byte, so nothing
// ever has to be thrown away for being old.
type memo struct {
	mu sync.Mutex // guards of
	of map[string]memory
}

type memory struct {
	stored []byte
	record Record
}

// record is decodeRecord. Whoever gets a record may change its fields, and not
// what they point to.
func (m *memo) record(key, stored []byte) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.of[string(key)]; ok && bytes.Equal(known.stored, stored) {
		return known.record, nil
	}
	rec, err := decodeRecord(key, stored)
	if err != nil {
		return rec, err
	}
	if m.of == nil {
		m.of = map[string]memory{}
	}
	m.of[string(key)] = memory{bytes.Clone(stored), rec}
	return rec, nil
}

// forget drops what is not stored any more.
func (m *memo) forget(key []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, string(key))
}
