package reconcile

import (
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/vf"
)

// When waitAll returns, the work on a PF that took longer than its pass has ended, and ended was
// notified.
func TestWaitLeavesNoGoroutine(t *testing.T) {
	for range 100 {
		w := work{ended: change.NewWake()}
		var ps pieces
		release := make(chan struct{})
		w.startWork(t.Context(), &ps, vf.PCIAddr{}, false, func(bool) outcome { <-release; return outcome{} })
		if _, changed := w.awaitPieces(&ps, time.Nanosecond); !changed {
			t.Fatal("a piece that is at work may change something")
		}
		close(release)
		w.waitAll()
		select {
		case <-w.ended:
		default:
			t.Fatal("the end of the piece was not told")
		}
	}
}
