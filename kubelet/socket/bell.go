package socket

import "sync"

// bell wakes all who wait. The zero value is ready.
type bell struct {
	mu sync.Mutex // guards c
	c  chan struct{}
}

// wait returns a channel that is closed at the next ring. Ask for it before
// looking at what may change.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
