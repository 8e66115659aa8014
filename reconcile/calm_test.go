package reconcile

import (
	"context"
	"testing"
	"time"
)

// A burst that does not end is waited for no longer than the bound, one that
// ends only until it has, and neither a closed channel nor the end of the
// context is waited for.
func TestCalm(t *testing.T) {
	const short, long = time.Millisecond, time.Hour
	always := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case always <- struct{}{}:
			case <-stop:
				return
			}
		}
	}()
	defer close(stop)
	closed := make(chan struct{})
	close(closed)
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	awaitCalm(t.Context(), always, long, short)
	awaitCalm(t.Context(), make(chan struct{}), short, long)
	awaitCalm(t.Context(), closed, long, long)
	awaitCalm(ended, make(chan struct{}), long, long)
}

// While events come, nothing is done.
func TestCalmWaitsForTheEndOfABurst(t *testing.T) {
	wake, done := make(chan struct{}), make(chan struct{})
	go func() { awaitCalm(t.Context(), wake, time.Hour, time.Hour); close(done) }()
	for range 3 {
		wake <- struct{}{} // nobody else takes it
	}
	close(wake)
	<-done
}
