package blocks

import (
	"sync"
	"time"
)

// sightings notes when this controller first read marks in pools. A pool has a time for each mark, but
// another machine's clock may have measured it. So a controller measures waits from its own first
// look, and a new leader begins each wait anew. The zero value is ready.
type sightings[K comparable] struct {
	mu    sync.Mutex // guards first
	first map[string]marks[K]
}

// marks has when the marks of one pool were first read.
type marks[K comparable] map[K]time.Time

// sinceOr returns when a mark was first read: now, unless it was read before. A time after now was
// measured before the clock was set back.
func (m marks[K]) sinceOr(mark K, now time.Time) time.Time {
	if first, noted := m[mark]; noted && !first.After(now) {
		return first
	}
	return now
}

// of returns when the marks of a network were first read.
func (s *sightings[K]) of(network string) marks[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first[network]
}

// set replaces the marks of a network.
func (s *sightings[K]) set(network string, first marks[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = map[string]marks[K]{}
	}
	s.first[network] = first
	if len(first) == 0 {
		delete(s.first, network)
	}
}
