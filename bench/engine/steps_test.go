package engine

import (
	"testing"
	"time"
)

// TestPassSteps: an end that is woken late counts the traffic of several steps as that of all of them, and
// the last step ends with the window.
func TestPassSteps(t *testing.T) {
	start := time.Unix(100, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	for _, c := range []struct {
		due, now, want float64
		steps          int
	}{
		{0, 1, 1, 1}, {0, 1.9, 1, 1}, {0, 2, 2, 2}, {0, 3.2, 3, 3}, {0, 9, 3.5, 4}, {2, 3.4, 3, 1}, {3, 3.5, 3.5, 1}, {3, 3.1, 3.5, 1},
	} {
		if due, steps := passSteps(at(c.due), time.Second, at(3.5), at(c.now)); !due.Equal(at(c.want)) || steps != c.steps {
			t.Errorf("%g s, woken at %g s: %s with %d steps, want %g s with %d", c.due, c.now, due.Sub(start), steps, c.want, c.steps)
		}
	}
}
