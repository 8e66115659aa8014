package kernel

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// searches runs the searches through the open files of all processes, one at a time. A search is
// for everyone who asked before it began, and goes on when they have left. The zero value is ready.
type searches struct {
	mu            sync.Mutex // guards the fields below
	running, next *search    // nil: there is none
}

type search struct {
	ended   chan struct{}
	openers []opener
	err     error
}

// search returns what a search finds that begins after the call. The error wraps vf.ErrTimeout if
// that has not ended within the bound, or when ctx ends.
func (s *searches) search(ctx context.Context, bound time.Duration, find func() ([]opener, error)) ([]opener, error) {
	mine := s.join(find)
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	begun := time.Now()
	select {
	case <-mine.ended:
		return mine.openers, mine.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the search through the open files of all processes has not ended after %s (%w): some process has very many",
			vf.ErrTimeout, time.Since(begun).Round(time.Millisecond), context.Cause(ctx))
	}
}

func (s *searches) join(find func() ([]opener, error)) *search {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		return s.next
	}
	mine := &search{ended: make(chan struct{})}
	s.next = mine
	if s.running == nil {
		s.startNext(find)
	}
	return mine
}

// startNext is called with mu locked.
func (s *searches) startNext(find func() ([]opener, error)) {
	now := s.next
	s.running, s.next = now, nil
	go func() {
		now.openers, now.err = find()
		close(now.ended)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running = nil
		if s.next != nil {
			s.startNext(find)
		}
	}()
}
