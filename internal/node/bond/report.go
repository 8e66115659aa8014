package bond

import (
	"context"
	"errors"
	"sync"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

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
