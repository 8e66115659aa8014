// Package bond lets the bonds of pods fail over without waiting for the kernel's timers. The
// carrier of a VF often says nothing about the wire of its PF, and ARP requests find out late. So a
// Follower reads the carrier of the PFs that have members of bonds. When a PF loses its carrier,
// the Follower lets a member on another PF send. culvertd runs the Follower. While culvertd is
// away, the kernel's own timers still work.
package bond

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

const (
	// lookPause is the time between two looks at the PFs while there are bonds. The kernel reports
	// a lost carrier up to a second late (linkwatch_event, net/core/link_watch.c), so events would
	// be too late.
	lookPause = 10 * time.Millisecond
	// readPause is the least time between two readings of the ledger.
	readPause = 500 * time.Millisecond
	// holdDown is how long a PF must have had carrier, after it lost it, before a bond uses its
	// member again, if another member works.
	holdDown = 5 * time.Second
	// recheckPause is the time after which a bond that avoids a PF is looked at again. The kernel
	// may have moved the bond back, since it does not see the PF's carrier.
	recheckPause = time.Second
	// retryPause is the time between the first two tries to move a bond. It doubles with each try,
	// up to longestPause.
	retryPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
	// moveBound and announceBound are how long a move, and its announcement, may take. The Follower
	// does not move a bond again before its announcement has ended. Otherwise the announcement
	// could name the MAC address of a member that no longer sends.
	moveBound     = 5 * time.Second
	announceBound = time.Second
	// mostAtOnce is how many bonds are moved at once, and mostAnnounced how many are announced.
	mostAtOnce    = 16
	mostAnnounced = 64
)

// kernel is the part of kernel.Kernel that a Follower needs.
type kernel interface {
	Do(context.Context, step.Step) error
	Watch(context.Context) (<-chan struct{}, error)
	Carrier(pf vf.PCIAddr) (bool, error)
	VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error)
}

// ledger is the part of journal.Ledger that a Follower needs.
type ledger interface {
	Update(func(*journal.Tx) error) error
	View(func(*journal.Tx) error) error
	Changed() <-chan struct{}
}

// hardware is inventory.Inventory.
type hardware interface {
	PFs() []vf.PF
	Changed() <-chan struct{}
}

// Follower moves the bonds of a node away from PFs without carrier. Only one goroutine may call Run
// or LookAtPFs.
type Follower struct {
	Kernel   kernel
	Ledger   ledger
	Hardware hardware
	Now      func() time.Time
	Log      *slog.Logger
	// FailedOver is called after each bond that the Follower moved away from a PF; nil: it is not.
	FailedOver func()

	ports map[vf.PCIAddr]*port
	bonds map[string]*bond // by mark
	moves errgroup.Group
	// rest runs the announcements and the writes of events that follow a move, so that they delay
	// no other bond. announcing limits the number of announcements.
	rest       errgroup.Group
	announcing chan struct{}
	records    recorder

	decided bool      // each bond's decision takes account of the present carriers
	settles time.Time // when the next PF settles, which changes decisions; zero: none does
}

// New returns a Follower, which does nothing until Run.
func New(k kernel, l ledger, h hardware, log *slog.Logger) *Follower {
	f := &Follower{Kernel: k, Ledger: l, Hardware: h, Now: time.Now, Log: log, announcing: make(chan struct{}, mostAnnounced)}
	f.moves.SetLimit(mostAtOnce)
	return f
}

// Wait returns when all moves that LookAtPFs has begun have ended, and their announcements and
// events as well.
func (f *Follower) Wait() {
	_ = f.moves.Wait() // moves start the goroutines of rest
	_ = f.rest.Wait()
}

// Run follows the bonds until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	defer f.Wait()
	events, err := f.Kernel.Watch(ctx)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		ledger, hardware := f.Ledger.Changed(), f.Hardware.Changed()
		if err := f.ReadBonds(); err != nil {
			f.Log.Warn("read which bonds there are", "err", err)
		}
		f.lookUntil(ctx, events, ledger, hardware)
	}
	return nil
}

// lookUntil looks at the PFs until the ledger or the hardware has changed, readPause at least. It
// only waits if there are no bonds.
func (f *Follower) lookUntil(ctx context.Context, events, ledger, hardware <-chan struct{}) {
	var tick <-chan time.Time
	if len(f.bonds) > 0 {
		t := time.NewTicker(lookPause)
		defer t.Stop()
		tick = t.C
	}
	rest := time.NewTimer(readPause)
	defer rest.Stop()
	for rested, changed := false, false; !rested || !changed; {
		f.LookAtPFs(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case _, open := <-events:
			if !open {
				events = nil
			}
		case <-ledger:
			ledger, changed = nil, true
		case <-hardware:
			hardware, changed = nil, true
		case <-rest.C:
			rested = true
		}
	}
}

// ReadBonds reads from the ledger which bonds there are, and from the hardware where their PFs are.
func (f *Follower) ReadBonds() error {
	records, err := journal.ReadRecords(f.Ledger)
	if err != nil {
		return err
	}
	where := map[vf.PFID]vf.PCIAddr{}
	for _, pf := range f.Hardware.PFs() {
		where[pf.ID] = pf.PCI
	}
	bonds, ports := map[string]*bond{}, map[vf.PCIAddr]*port{}
	for _, members := range journal.GroupBonds(records) {
		b := newBond(members, where)
		if b == nil {
			continue
		}
		if old := f.bonds[b.mark]; old != nil {
			b.progress = old.progress
		} else {
			b.progress = &progress{}
		}
		bonds[b.mark] = b
		for _, m := range b.members {
			if m.pf.IsZero() {
				continue
			}
			if ports[m.pf] = f.ports[m.pf]; ports[m.pf] == nil {
				ports[m.pf] = &port{}
			}
		}
	}
	f.bonds, f.ports, f.decided = bonds, ports, false
	return nil
}

// LookAtPFs reads the carrier of the PFs, and begins to move the bonds that send over a PF without
// carrier.
func (f *Follower) LookAtPFs(ctx context.Context) {
	now := f.Now()
	f.readCarriers(now)
	f.decide(now)
	for _, b := range f.bonds {
		if b.progress.beginMove(b.decision, now) {
			f.beginMove(ctx, b, b.decision, now)
		}
		if e, isDue := b.progress.takeDue(now); isDue {
			f.recordEvent(e)
		}
	}
}

func (f *Follower) readCarriers(now time.Time) {
	for pci, p := range f.ports {
		up, err := f.Kernel.Carrier(pci)
		if err != nil {
			continue // keep the old value; the next look reads it again
		}
		if p.noteCarrier(up, now) {
			f.decided = false
		}
	}
}

// decide chooses the sender of each bond if the carrier of a PF has changed, or a PF has settled,
// since its last choice. The test of its cost is TestLookWithoutNewsAllocatesNothing.
func (f *Follower) decide(now time.Time) {
	if f.decided && (f.settles.IsZero() || now.Before(f.settles)) {
		return
	}
	for _, b := range f.bonds {
		b.decision = b.chooseSender(f.ports, now)
	}
	f.decided, f.settles = true, time.Time{}
	for _, p := range f.ports {
		if at := p.settlesAt(); at.After(now) && (f.settles.IsZero() || at.Before(f.settles)) {
			f.settles = at
		}
	}
}

// beginMove begins to carry out a decision, or puts it off if many bonds are being moved. The limit
// counts only moves, and neither announcements nor writes of events.
func (f *Follower) beginMove(ctx context.Context, b *bond, d decision, now time.Time) {
	begun := f.moves.TryGo(func() error {
		event, err := f.moveBond(ctx, b, d)
		if event == nil || err != nil {
			f.endMove(ctx, b, err)
			return nil
		}
		moved := f.Now()
		if f.FailedOver != nil && !d.home {
			f.FailedOver()
		}
		f.Log.Info("bond moved", "owner", b.owner, "bond", b.name, "to", event.Object, "took", moved.Sub(now))
		f.rest.Go(func() error {
			f.announceBond(ctx, b)
			f.endMove(ctx, b, nil)
			return nil
		})
		if b.progress.noteMove(*event, moved) {
			f.recordEvent(*event)
		}
		return nil
	})
	if !begun {
		b.progress.putOff()
	}
}

// endMove records the outcome of a move that beginMove began, and logs the first failure.
func (f *Follower) endMove(ctx context.Context, b *bond, err error) {
	if b.progress.endMove(err, f.Now()) && ctx.Err() == nil && !errors.Is(err, vf.ErrNotFound) {
		f.Log.Warn("move a bond", "owner", b.owner, "bond", b.name, "err", err)
	}
}

// moveBond carries out a decision. It returns no event if there was nothing to change.
func (f *Follower) moveBond(ctx context.Context, b *bond, d decision) (event *journal.Event, err error) {
	bounded, cancel := context.WithTimeout(ctx, moveBound)
	defer cancel()
	if d.home {
		event, err = f.preferFirst(bounded, b)
	} else {
		event, err = f.avoidPFs(bounded, b, d)
	}
	if errors.Is(err, vf.ErrNetnsGone) {
		return nil, nil //nolint:nilnil // soon the leases are gone, too
	}
	return event, err
}

// avoidPFs lets a bond send over the best of its PFs. It returns no event if the bond does so
// already. A member may be missing, or the kernel may count it as down: then avoidPFs tries the
// next one.
func (f *Follower) avoidPFs(ctx context.Context, b *bond, d decision) (*journal.Event, error) {
	var errs []error
	var missing error
	for _, s := range d.steps {
		err := f.Kernel.Do(ctx, s)
		switch {
		case err == nil:
			e := b.describeMove(s)
			return &e, nil
		case errors.Is(err, vf.ErrUnchanged):
			return nil, nil //nolint:nilnil // there is nothing to report
		case errors.Is(err, vf.ErrNetnsGone):
			return nil, err
		case errors.Is(err, vf.ErrNotFound):
			missing = err
		default:
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return nil, missing
}

// preferFirst makes the first member of a bond the primary one. It returns no event if it is so
// already.
func (f *Follower) preferFirst(ctx context.Context, b *bond) (*journal.Event, error) {
	home := b.members[0].pci
	st, err := f.Kernel.VF(ctx, home, b.netns)
	switch {
	case err != nil:
		return nil, err
	case st.Link == nil || st.Link.Bond == nil:
		return nil, fmt.Errorf("bond of VF %s in %s: %w", home, b.netns, vf.ErrNotFound)
	case st.Link.Bond.Primary:
		return nil, nil //nolint:nilnil // there is nothing to report
	}
	e := b.describeReturn()
	return &e, f.Kernel.Do(ctx, step.SetBondPrimary{VF: home, Netns: b.netns, Bond: b.name})
}
