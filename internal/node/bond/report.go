package bond

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// These constants limit the events of a bond that moves again and again, because its wires flap or
// its pod moves it back: the ledger keeps only the last 1,000 events of the node. The first
// firstEvents moves have an event each. After them, one merged event stands for all moves within
// mergePause, which grows by the factor mergeGrowth up to longestMerge. The merged event comes
// earlier if the bond has not moved for restPause. A bond that has not moved for forgetPause begins
// with single events again.
const (
	firstEvents  = 4
	mergePause   = time.Minute
	mergeGrowth  = 4
	longestMerge = 24 * time.Hour
	restPause    = 10 * time.Minute
	forgetPause  = time.Hour
)

// damper decides which moves of one bond have an event of their own.
type damper struct {
	recorded int           // moves that had an event of their own
	moved    time.Time     // the latest move
	pause    time.Duration // of the next merged event
	merged   int           // moves since the last event
	since    time.Time     // the first of them
	last     journal.Event // of the latest of them
}

// noteMove notes a move at a time, with its event. It reports whether the caller must record the
// event as it is.
func (d *damper) noteMove(e journal.Event, now time.Time) bool {
	if rest := now.Sub(d.moved); d.merged == 0 && (rest >= forgetPause || rest < 0) {
		*d = damper{pause: mergePause}
	}
	d.moved = now
	if d.recorded < firstEvents {
		d.recorded++
		return true
	}
	if d.merged == 0 {
		d.since = now
	}
	d.merged++
	d.last = e
	return false
}

// takeDue returns the event that stands for the merged moves, if it is due.
func (d *damper) takeDue(now time.Time) (e journal.Event, isDue bool) {
	if d.merged == 0 || now.Before(d.since.Add(d.pause)) && now.Before(d.moved.Add(restPause)) {
		return e, false
	}
	e = d.last
	e.Text += fmt.Sprintf(" (this event stands for %d moves in %s)", d.merged, now.Sub(d.since).Round(time.Second))
	d.merged, d.pause = 0, min(d.pause*mergeGrowth, longestMerge)
	return e, true
}

// recorder writes events into the ledger, all that wait in one transaction. A disk that hangs
// delays only these events.
type recorder struct {
	mu      sync.Mutex // guards the rest
	waiting []journal.Event
	isBusy  bool
}

// mostWaiting is how many events wait for a ledger that cannot be written. More are dropped.
const mostWaiting = 1000

// recordEvent hands an event to the recorder, which writes it soon.
func (f *Follower) recordEvent(e journal.Event) {
	r := &f.records
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) < mostWaiting {
		r.waiting = append(r.waiting, e)
	}
	if r.isBusy {
		return
	}
	r.isBusy = true
	f.rest.Go(func() error {
		for events := r.takeWaiting(); len(events) > 0; events = r.takeWaiting() {
			f.writeEvents(events)
		}
		return nil
	})
}

// takeWaiting returns the events that wait. If none does, the recorder is no longer busy.
func (r *recorder) takeWaiting() []journal.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.waiting
	r.waiting, r.isBusy = nil, len(out) > 0
	return out
}

func (f *Follower) writeEvents(events []journal.Event) {
	err := f.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, e := range events {
			errs = append(errs, tx.Event(e))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		f.Log.Warn("record the events of bonds", "first", events[0].Text, "events", len(events), "err", err)
	}
}

// announceBond announces the addresses of a bond that was moved. The kernel announces them too, but
// only once. announceBond gives up if too many other bonds are being announced for all of
// announceBound.
func (f *Follower) announceBond(ctx context.Context, b *bond) {
	if len(b.addresses) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, announceBound)
	defer cancel()
	select {
	case f.announcing <- struct{}{}:
		defer func() { <-f.announcing }()
	case <-bounded.Done():
		return
	}
	s := step.Announce{VF: b.members[0].pci, Netns: b.netns, Bond: b.name, Addresses: b.addresses, AtOnce: true}
	if err := f.Kernel.Do(bounded, s); err != nil && ctx.Err() == nil && !errors.Is(err, vf.ErrNotFound) {
		f.Log.Warn("announce the addresses of a bond", "owner", b.owner, "bond", b.name, "err", err)
	}
}
