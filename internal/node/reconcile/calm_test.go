package reconcile

import (
	"context"
	"testing"
	"time"
)

// awaitCalm waits for a burst of events until it has ended, and at most until the bound. It returns
// at once if the channel is closed or the context has ended.
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

// awaitCalm does not return while events come.
func TestCalmWaitsForTheEndOfABurst(t *testing.T) {
	wake, done := make(chan struct{}), make(chan struct{})
	go func() { awaitCalm(t.Context(), wake, time.Hour, time.Hour); close(done) }()
	for range 3 {
		wake <- struct{}{} // only awaitCalm reads wake
	}
	close(wake)
	<-done
}
