package hold

import (
	"sync"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Memory holds a value for each lease. It is lost when culvertd ends.
type Memory[T any] struct {
	mu sync.Mutex // guards of
	of map[vf.ID]memorized[T]
}

// NewMemory returns a Memory that forgets what it has about a VF whenever h.ForgetLease is called for
// that VF. Call NewMemory before h is used.
func NewMemory[T any](h *VFs) *Memory[T] {
	m := &Memory[T]{of: map[vf.ID]memorized[T]{}}
	h.forget = append(h.forget, m.Forget)
	return m
}

// memorized is the value of one lease. A generation alone does not name a lease: after the record
// of a VF was forgotten, the generations of that VF begin anew.
type memorized[T any] struct {
	generation uint64
	owner      string // its UID
	value      T
}

// Load returns the value of a lease; the zero value if there is none.
func (m *Memory[T]) Load(r journal.Record) (value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.of[r.ID]; last.generation == r.Generation && last.owner == r.Lease.Owner.UID {
		return last.value
	}
	return value
}

// Store replaces the value of a lease, and forgets that of an earlier lease of the VF.
func (m *Memory[T]) Store(r journal.Record, value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[r.ID] = memorized[T]{r.Generation, r.Lease.Owner.UID, value}
}

// Forget deletes the value of a VF for any lease.
func (m *Memory[T]) Forget(id vf.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}

// ForgetLease forgets all that is in memory about the leases of a VF.
func (h *VFs) ForgetLease(id vf.ID) {
	for _, forget := range h.forget {
		forget(id)
	}
}
