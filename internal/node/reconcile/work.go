package reconcile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/vf"
)

// work runs at most one piece of work on each PF at a time. A PF that takes long, because its
// cable is out or its firmware hangs, delays no other PF (I7).
type work struct {
	ended change.Wake // when pieces that took too long have ended

	all     sync.WaitGroup
	pfs     keylock.Locks[vf.PCIAddr]
	running atomic.Int32 // pieces
}

// pieces are the pieces of work that one pass has started.
type pieces struct{ running []chan outcome }

type outcome struct {
	changed bool
	err     error
}

// busyWait is how long Apply waits for the work on a PF that another pass has begun: as long as
// making VFs may take.
const busyWait = makeBound

// startWork begins a piece of work on a PF. If another piece already runs on that PF, startWork
// does nothing, since the next pass repeats the work. With wait, it instead begins the piece when
// the other one has ended. The argument waited of do reports whether the piece had to wait.
func (w *work) startWork(ctx context.Context, ps *pieces, pf vf.PCIAddr, wait bool, do func(waited bool) outcome) {
	unlock, other := w.pfs.TryLock(pf, "the pass before")
	if other != nil && !wait {
		return
	}
	done := make(chan outcome, 1) // with room: the pass may end before it reads the outcome
	ps.running = append(ps.running, done)
	w.all.Add(1)
	w.running.Add(1)
	go func() {
		defer w.all.Done()
		o := w.doWork(ctx, pf, unlock, do)
		w.running.Add(-1) // before the pass goes on, which asks isBusy
		done <- o
	}()
}

// doWork runs a piece of work. If unlock is nil, it first waits for the lock of the PF.
func (w *work) doWork(ctx context.Context, pf vf.PCIAddr, unlock func(), do func(waited bool) outcome) outcome {
	waited := unlock == nil
	if waited {
		ctx, cancel := context.WithTimeout(ctx, busyWait)
		defer cancel()
		var err error
		if unlock, err = w.pfs.Lock(ctx, pf, "an apply"); err != nil {
			return outcome{err: fmt.Errorf("PF %s was not changed: apply it again: %w", pf, err)}
		}
	}
	defer unlock()
	return do(waited)
}

// isBusy reports whether a piece of work is running.
func (w *work) isBusy() bool { return w.running.Load() > 0 }

func (w *work) waitAll() { w.all.Wait() }

// awaitPieces returns the outcomes of the pieces that end within patience, which is one limit for
// all pieces together. When the slower pieces have also ended, it notifies ended.
func (w *work) awaitPieces(ps *pieces, patience time.Duration) (errs []error, changed bool) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for i, done := range ps.running {
		select {
		case o := <-done:
			errs = append(errs, o.err)
			changed = changed || o.changed
		case <-late.C:
			w.all.Add(1)
			go func() {
				defer w.all.Done()
				w.notifyEnded(ps.running[i:])
			}()
			return errs, true
		}
	}
	return errs, changed
}

func (w *work) notifyEnded(running []chan outcome) {
	for _, done := range running {
		<-done
	}
	w.ended.Notify()
}
