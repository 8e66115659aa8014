package attach

import (
	"sync"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// memory holds a value for each lease. It is lost when culvertd ends. The zero value is ready.
type memory[T any] struct {
	mu sync.Mutex // guards of
	of map[vf.ID]memorized[T]
}

// memorized is the value of one lease. A generation alone does not name a lease: after the record
// of a VF was forgotten, the generations of that VF begin anew.
type memorized[T any] struct {
	generation uint64
	owner      string // its UID
	value      T
}

// loadValue returns the value of a lease; the zero value if there is none.
func (m *memory[T]) loadValue(r journal.Record) (value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.of[r.ID]; last.generation == r.Generation && last.owner == r.Lease.Owner.UID {
		return last.value
	}
	return value
}

// storeValue replaces the value of a lease, and forgets that of an earlier lease of the VF.
func (m *memory[T]) storeValue(r journal.Record, value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[vf.ID]memorized[T]{}
	}
	m.of[r.ID] = memorized[T]{r.Generation, r.Lease.Owner.UID, value}
}

// forgetValue deletes the value of a VF for any lease.
func (m *memory[T]) forgetValue(id vf.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}

// forgetLease forgets all that is in memory about the leases of a VF.
func (e *Engine) forgetLease(id vf.ID) {
	e.drifts.forgetValue(id)
	e.absent.forgetValue(id)
	e.closed.forgetValue(id)
	e.podLinks.forgetValue(id)
	e.dark.forgetValue(id)
	e.guardLooks.forgetValue(id)
	e.hangs.forgetValue(id)
	e.uses.forgetValue(id)
}
