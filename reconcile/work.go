package reconcile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/culvert-net/culvert/change"
	"github.com/culvert-net/culvert/keylock"
	"github.com/culvert-net/culvert/vf"
)

// work does one piece of work on each PF at a time. A PF that takes long, because its
// cable is out or its firmware hangs, delays no other PF (I7).
type work struct {
	ended change.Wake // when pieces that took too long have ended

	all     sync.WaitGroup
	pfs     keylock.Locks[vf.PCIAddr]
	running atomic.Int32 // pieces
}

// pieces are those that one pass has started.
type pieces struct{ running []chan outcome }

type outcome struct {
	changed bool
	err     error
}

// forceWait is how long a forced pass waits for the work on a PF that another pass has
// begun: as long as making VFs may take.
const forceWait = makeBound

// start begins a piece of work on a PF. While another piece works on that PF, start does
// nothing, or, with force, begins it when the other one has ended: the next pass takes up
// all else, but nobody repeats what was forced. waited is whether that was so.
func (w *work) start(ctx context.Context, ps *pieces, pf vf.PCIAddr, force bool, do func(waited bool) outcome) {
	unlock, other := w.pfs.TryLock(pf, "the pass before")
	if other != nil && !force {
		return
	}
	done := make(chan outcome, 1) // the pass may have no patience left to read it
	ps.running = append(ps.running, done)
	w.all.Add(1)
	w.running.Add(1)
	go func() {
		defer w.all.Done()
		o := w.finish(ctx, pf, unlock, do)
		w.running.Add(-1) // before the pass goes on, which asks busy
		done <- o
	}()
}

// finish does a piece of work. Without unlock it waits for the lock of the PF before.
func (w *work) finish(ctx context.Context, pf vf.PCIAddr, unlock func(), do func(waited bool) outcome) outcome {
	waited := unlock == nil
	if waited {
		ctx, cancel := context.WithTimeout(ctx, forceWait)
		defer cancel()
		var err error
		if unlock, err = w.pfs.Lock(ctx, pf, "a forced pass"); err != nil {
			return outcome{err: fmt.Errorf("nothing was forced: repeat it: %w", err)}
		}
	}
	defer unlock()
	return do(waited)
}

// busy reports whether anything is being done.
func (w *work) busy() bool { return w.running.Load() > 0 }

func (w *work) wait() { w.all.Wait() }

// await returns what came of the pieces, without those that take longer than
// patience altogether: when they end, ended says so.
func (w *work) await(ps *pieces, patience time.Duration) (errs []error, changed bool) {
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
				w.tell(ps.running[i:])
			}()
			return errs, true
		}
	}
	return errs, changed
}

func (w *work) tell(running []chan outcome) {
	for _, done := range running {
		<-done
	}
	w.ended.Notify()
}
