// Package change notifies waiters that something changed. It does not say what: a
// waiter that wakes reads the state again. A Signal wakes every waiter; a Wake wakes
// one reader and keeps the notification while that reader is busy.
package change

import "sync"

// Signal wakes every waiter. The zero value is ready. Its methods may be called concurrently, even
// while the caller holds the lock that guards the changed state.
type Signal struct {
	mu   sync.Mutex // guards next
	next chan struct{}
}

// Next returns a channel that is closed at the next Notify. Call it before reading
// what may change, or the reader misses a change in between.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Notify closes the channel that Next has returned.
func (s *Signal) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// Wake is a channel for one reader. It keeps one notification until the reader takes
// it; later ones are the same one. The writer may close it to end a watch.
type Wake chan struct{}

// NewWake returns a Wake without a notification.
func NewWake() Wake { return make(Wake, 1) }

// Notify wakes the reader, now or when it reads next. It does not wait.
func (w Wake) Notify() {
	select {
	case w <- struct{}{}:
	default:
	}
}
