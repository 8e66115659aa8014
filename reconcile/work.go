package reconcile

import (
	"sync"
	"time"

	"github.com/culvert-net/culvert/change"
	"github.com/culvert-net/culvert/vf"
)

// work is what is being done to each PF: one piece at a time. A PF that takes
// long, because its cable is out or its firmware hangs, keeps nobody from the
// others (I7).
type work struct {
	ended change.Wake // when pieces that took too long have ended

	all sync.WaitGroup
	mu  sync.Mutex // guards on
	on  map[vf.PCIAddr]bool
}

// pieces are those that one pass has started.
type pieces struct{ running []chan outcome }

type outcome struct {
	changed bool
	err     error
}

// start begins a piece of work on a PF, unless there is one already.
func (w *work) start(ps *pieces, pf vf.PCIAddr, do func() (changed bool, err error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on[pf] {
		return
	}
	w.on[pf] = true
	done := make(chan outcome, 1) // nobody may be left to read it
	ps.running = append(ps.running, done)
	w.all.Add(1)
	go func() {
		defer w.all.Done()
		changed, err := do()
		w.mu.Lock()
		delete(w.on, pf)
		w.mu.Unlock()
		done <- outcome{changed, err}
	}()
}

// busy reports whether anything is being done.
func (w *work) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.on) > 0
}

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
