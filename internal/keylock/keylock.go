// Package keylock holds locks by key: one for each VF that attach works on, one
// for each sandbox that the pod intake works on. A holder names its work, so that the error of a
// caller that gives up waiting can name that work.
package keylock

import (
	"context"
	"fmt"
	"sync"
)

// Locks holds one lock for each key. The zero value is ready. Its methods may be
// called concurrently.
type Locks[K comparable] struct {
	mu   sync.Mutex // guards held
	held map[K]*Work
}

// Work names the work for which a lock is held, and reports its end.
type Work struct {
	name string
	done chan struct{}
}

// String returns the name that the holder gave its work.
func (w *Work) String() string { return w.name }

// Done returns a channel that is closed when the holder unlocks.
func (w *Work) Done() <-chan struct{} { return w.done }

// Lock waits until no other caller holds the lock of key, takes it and returns the
// function that unlocks it. A free lock is taken even when ctx has ended. When
// ctx ends before the lock is free, the error names the work that holds it and
// wraps ctx's cause; the caller adds the key.
func (l *Locks[K]) Lock(ctx context.Context, key K, work string) (unlock func(), err error) {
	for {
		unlock, other := l.TryLock(key, work)
		if other == nil {
			return unlock, nil
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s has not ended: %w", other, context.Cause(ctx))
		}
	}
}

// TryLock takes the lock of key and returns the function that unlocks it, or returns
// the work that holds the lock.
func (l *Locks[K]) TryLock(key K, work string) (unlock func(), other *Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, held := l.held[key]; held {
		return nil, other
	}
	if l.held == nil {
		l.held = map[K]*Work{}
	}
	own := &Work{name: work, done: make(chan struct{})}
	l.held[key] = own
	return func() { l.releaseKey(key, own) }, nil
}

// Holder returns the work that holds the lock of key, nil when it is free.
func (l *Locks[K]) Holder(key K) *Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[key]
}

// releaseKey closes own.done, which panics when the holder unlocks twice.
func (l *Locks[K]) releaseKey(key K, own *Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(own.done)
	delete(l.held, key)
}
