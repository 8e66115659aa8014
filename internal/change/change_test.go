package change_test

import (
	"sync"
	"testing"

	"github.com/culvert-net/culvert/internal/change"
)

func told(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestSignalWakesAllThatWaited(t *testing.T) {
	var s change.Signal
	s.Notify() // without a waiter it has no effect
	first, same := s.Next(), s.Next()
	if told(first) || told(same) {
		t.Fatal("told of a change that came before Next")
	}
	s.Notify()
	second := s.Next()
	if !told(first) || !told(same) || told(second) {
		t.Errorf("after a Notify: %t %t, the next %t", told(first), told(same), told(second))
	}
}

// A reader that calls Next before it reads misses no change: it sees the last of a thousand
// changes, regardless of when it is scheduled.
func TestSignalLosesNoChange(t *testing.T) {
	var (
		s     change.Signal
		mu    sync.Mutex // guards value
		value int
		g     sync.WaitGroup
	)
	for range 4 {
		g.Add(1)
		go func() {
			defer g.Done()
			for {
				next := s.Next()
				mu.Lock()
				now := value
				mu.Unlock()
				if now == 1000 {
					return
				}
				<-next
			}
		}()
	}
	for range 1000 {
		mu.Lock()
		value++
		s.Notify()
		mu.Unlock()
	}
	g.Wait()
}

func TestWakeKeepsOneNotification(t *testing.T) {
	w := change.NewWake()
	if told(w) {
		t.Error("a new Wake has a notification")
	}
	w.Notify()
	w.Notify()
	if !told(w) || told(w) {
		t.Error("two notifications are not one")
	}
}
