package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/guest/libvirt"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/trouble"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// guestLister is a connection to libvirt.
type guestLister interface {
	Guests(context.Context) ([]libvirt.Guest, error)
	XML(ctx context.Context, guest string, which libvirt.Which) (string, error)
	Events(context.Context) (<-chan libvirt.Event, error)
	Close() error
}

// pace is how often libvirt is asked.
type pace struct {
	retry  time.Duration // to look for a libvirt that does not run, or does not answer
	settle time.Duration // after an event: the next ones of a guest that starts come with it
	repeat time.Duration // without any event
	answer time.Duration // the longest that a list may take; a hook holds a guest for up to 30 s
}

var usualPace = pace{retry: 5 * time.Second, settle: 500 * time.Millisecond, repeat: time.Minute, answer: time.Minute}

// Follower keeps a connection to libvirt while libvirt runs, and compares its list of
// guests with the ledger: when it connects, after libvirt's events, and once a minute.
// Other parts of culvertd never wait for libvirt.
type Follower struct {
	runs    func() bool
	dial    func(context.Context) (guestLister, error)
	compare func(context.Context, func(context.Context) ([]Seen, error)) ([]api.Problem, error)
	ledger  ledger
	log     *slog.Logger
	pace    pace

	mu     sync.Mutex    // guards what follows
	wrong  []api.Problem // the problems of the last comparison
	absent *api.Problem  // why there is no connection; nil: there is one, or none is needed
}

// NewFollower returns the Follower of this host's libvirt. Call Run once.
func NewFollower(p Parts, l ledger, log *slog.Logger) *Follower {
	return &Follower{
		runs: func() bool { return libvirt.Runs("/") },
		dial: func(ctx context.Context) (guestLister, error) {
			c, err := libvirt.Dial(ctx, libvirt.System)
			if err != nil {
				return nil, err // not c: a nil *Client would make a guestLister that is not nil
			}
			return c, nil
		},
		compare: NewComparer(p, l, time.Now).Compare,
		ledger:  l, log: log, pace: usualPace,
	}
}

// Run follows libvirt until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.followConnection(ctx)
		if ctx.Err() != nil {
			return
		}
		f.noteLost(err)
		select {
		case <-time.After(f.pace.retry):
		case <-ctx.Done():
		}
	}
}

var errStopped = errors.New("it does not run")

// followConnection follows libvirt until the connection ends, and returns the reason.
func (f *Follower) followConnection(ctx context.Context) (err error) {
	if !f.runs() {
		return errStopped
	}
	brief, cancel := context.WithTimeout(ctx, f.pace.answer)
	defer cancel()
	conn, err := f.dial(brief)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, stop := context.WithCancel(ctx) // before Close: there is no receiver of events any more
	defer stop()
	events, err := conn.Events(ctx)
	if err != nil {
		return err
	}
	for {
		if err := f.compareOnce(ctx, conn); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.pace.repeat):
		case _, open := <-events:
			if !open || !f.awaitQuiet(ctx, events) {
				return fmt.Errorf("%w: it has closed the connection", errStopped)
			}
		}
	}
}

// awaitQuiet waits until the further events that follow an event have arrived. It returns false
// if the connection is gone.
func (f *Follower) awaitQuiet(ctx context.Context, events <-chan libvirt.Event) bool {
	over := time.After(f.pace.settle)
	for {
		select {
		case <-ctx.Done():
			return true
		case <-over:
			return true
		case _, open := <-events:
			if !open {
				return false
			}
		}
	}
}

// compareOnce compares once. An error is libvirt's. Failures of the ledger or the kernel are
// tried again at the next comparison.
func (f *Follower) compareOnce(ctx context.Context, conn guestLister) error {
	var listErr error
	problems, err := f.compare(ctx, func(ctx context.Context) (all []Seen, err error) {
		all, listErr = f.listGuests(ctx, conn)
		return all, listErr
	})
	if listErr != nil {
		return listErr
	}
	if err != nil {
		f.log.Error("compare libvirt's guests with the ledger", "err", err)
	}
	f.emitEvents(f.wrong, problems) // before they are published; only this goroutine writes wrong
	f.mu.Lock()
	f.wrong, f.absent = problems, nil
	f.mu.Unlock()
	return nil
}

// listGuests reads libvirt's guests with their definitions. It leaves out a guest that disappears
// meanwhile, and keeps a guest whose definition cannot be read.
func (f *Follower) listGuests(ctx context.Context, conn guestLister) (out []Seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.pace.answer)
	defer cancel()
	all, err := conn.Guests(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		seen := Seen{UUID: g.UUID, Name: g.Name, Running: g.State != libvirt.Off}
		read := func(which libvirt.Which, into *guest.Definition) error {
			text, err := conn.XML(ctx, g.UUID, which)
			if errors.Is(err, libvirt.ErrRefused) { // it may be longer than an answer of libvirt
				f.log.Debug("a definition of libvirt's", "vm", g.Name, "err", err)
				seen.Unread = true
				return nil
			}
			if err != nil {
				return err
			}
			def, err := guest.Parse([]byte(text))
			if err == nil {
				*into, err = def.Brief() // the texts of many guests together may be large
			}
			if err != nil {
				f.log.Debug("a definition of libvirt's", "vm", g.Name, "err", err)
				seen.Unread = true
			}
			return nil
		}
		var err error
		if seen.Running {
			err = read(libvirt.Live, &seen.Live)
		}
		if err == nil && g.Persistent {
			err = read(libvirt.Inactive, &seen.Next)
		}
		switch {
		case errors.Is(err, vf.ErrNotFound):
		case err != nil:
			return nil, err
		default:
			out = append(out, seen)
		}
	}
	return out, nil
}

// emitEvents writes an event for each contradiction that is new or over.
func (f *Follower) emitEvents(before, now []api.Problem) {
	of := func(problems []api.Problem) trouble.Set {
		out := trouble.Set{}
		for _, p := range problems {
			out.Add(p.Object, trouble.Trouble{Begins: reasons.GuestContradicts, Ends: reasons.GuestInOrder, Text: p.Reason})
		}
		return out
	}
	var errs []error
	trouble.Emit(of(before), of(now), func(kind, reason, text string) {
		f.log.Warn("libvirt's guests and the ledger", "reason", reason, "text", text)
		errs = append(errs, f.ledger.Update(func(tx *journal.Tx) error {
			return tx.Event(journal.Event{Type: kind, Reason: reason, Object: "guests", Text: text})
		}))
	})
	if err := errors.Join(errs...); err != nil {
		f.log.Error("write an event", "err", err)
	}
}

// noteLost records why there is no connection. It is a problem if libvirt does not run and guests
// have VFs, and always if libvirt runs and does not answer.
func (f *Follower) noteLost(err error) {
	p := &api.Problem{Object: "libvirt", Reason: err.Error(), Since: time.Now(),
		Next: "culvertd tries again on its own; until then it knows guests by the hooks and by who has VFs open. See systemctl status libvirtd virtqemud"}
	if errors.Is(err, errStopped) && !f.isUsed() {
		p = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case p != nil && f.absent != nil:
		p.Since = f.absent.Since
	case p != nil:
		f.log.Warn("libvirt is not there to be asked", "err", err)
	}
	f.wrong, f.absent = nil, p
}

// isUsed reports whether a guest has a VF.
func (f *Follower) isUsed() (has bool) {
	records, err := journal.ReadRecords(f.ledger)
	for _, r := range records {
		has = has || r.Held() && r.Lease.Owner.Kind == vf.OwnerGuest
	}
	return has || err != nil
}

// Problems returns the contradictions between libvirt and the ledger, or the reason why there is
// no connection to libvirt.
func (f *Follower) Problems() []api.Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent != nil {
		return []api.Problem{*f.absent}
	}
	return f.wrong
}
