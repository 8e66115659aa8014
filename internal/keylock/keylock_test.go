package keylock_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/culvert-net/culvert/internal/keylock"
)

// Two holders of one key would race on count, which the race detector and the sum show.
func TestOneHolderForEachKey(t *testing.T) {
	var l keylock.Locks[int]
	var g sync.WaitGroup
	count := make([]int, 3)
	for n := range 300 {
		g.Add(1)
		go func() {
			defer g.Done()
			unlock, err := l.Lock(t.Context(), n%3, "count")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			count[n%3]++
		}()
	}
	g.Wait()
	for key, n := range count {
		if n != 100 || l.Holder(key) != nil {
			t.Errorf("key %d: counted %d of 100, held by %v", key, n, l.Holder(key))
		}
	}
}

func TestHolderIsNamed(t *testing.T) {
	var l keylock.Locks[string]
	unlock, other := l.TryLock("a", "the attach to pod default/a")
	if other != nil {
		t.Fatalf("the lock of a new key is held by %s", other)
	}
	if _, err := l.Lock(t.Context(), "b", "other work"); err != nil {
		t.Error("another key waits:", err)
	}
	twice, other := l.TryLock("a", "a second attach")
	if twice != nil || other == nil || other.String() != "the attach to pod default/a" || l.Holder("a") != other {
		t.Fatalf("TryLock of a held lock says %v, Holder %v", other, l.Holder("a"))
	}
	select {
	case <-other.Done():
		t.Error("Done was closed while the lock was held")
	default:
	}
	unlock()
	select {
	case <-other.Done():
	default:
		t.Error("Done is open after the unlock")
	}
	if l.Holder("a") != nil {
		t.Error("a free lock has a holder")
	}
}

func TestLockGivesUpWithItsContext(t *testing.T) {
	var l keylock.Locks[string]
	unlock, _ := l.TryLock("a", "the attach to pod default/a")
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error)
	go func() {
		_, err := l.Lock(ctx, "a", "its detach")
		got <- err
	}()
	gone := errors.New("the runtime hung up")
	cancel(gone)
	err := <-got
	if !errors.Is(err, gone) || err.Error() != "the attach to pod default/a has not ended: the runtime hung up" {
		t.Errorf("got %v", err)
	}
	unlock()
	if unlock, err = l.Lock(ctx, "a", "its detach"); err != nil {
		t.Fatalf("a free lock was refused: %v", err)
	}
	unlock()
}
