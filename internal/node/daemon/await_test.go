package daemon

import (
	"context"
	"testing"
	"time"
)

// awaitBoth returns when the VFs are made and the cluster's Spec was followed, when
// patience is over, and not before.
func TestAwaitBoth(t *testing.T) {
	open, closed := make(chan struct{}), make(chan struct{})
	close(closed)
	for _, tc := range []struct {
		name           string
		made, followed <-chan struct{}
		patience       time.Duration
		want           bool
	}{
		{"VFs are not made", open, nil, 0, false},
		{"no cluster", closed, nil, time.Hour, true},
		{"both", closed, closed, time.Hour, true},
		{"the API server is slow", closed, open, time.Hour, false},
		{"the API server is down", closed, open, time.Millisecond, true},
	} {
		within := time.Hour
		if !tc.want { // it waits until the context ends
			within = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		if got := awaitBoth(ctx, tc.made, tc.followed, tc.patience); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
		cancel()
	}
}
