package attach

import (
	"sync"

	"github.com/culvert-net/culvert/vf"
)

// locks serialises work on one VF: an attach that still runs and the detach
// that its impatient caller has sent already, say. The zero value is ready.
type locks struct {
	mu   sync.Mutex // guards held
	held map[vf.ID]chan struct{}
}

// lock waits until nobody else works on the VF.
func (l *locks) lock(id vf.ID) {
	for {
		busy := l.try(id)
		if busy == nil {
			return
		}
		<-busy
	}
}

// try takes the lock and returns nil, or returns a channel that is closed when
// whoever has it lets go.
func (l *locks) try(id vf.ID) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy, ok := l.held[id]; ok {
		return busy
	}
	if l.held == nil {
		l.held = map[vf.ID]chan struct{}{}
	}
	l.held[id] = make(chan struct{})
	return nil
}

// working returns nil when nobody works on the VF, or the channel that is closed
// when whoever does lets go.
func (l *locks) working(id vf.ID) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[id]
}

func (l *locks) unlock(id vf.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[id])
	delete(l.held, id)
}
