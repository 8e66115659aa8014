package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// told remembers which drift of which attached VF has been told, so that it is
// one event and not one a pass. The zero value is ready.
type told struct {
	mu sync.Mutex // guards of
	of map[vf.ID]string
}

// news reports whether text is another than the last one; empty forgets it.
func (t *told) news(id vf.ID, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text == "" {
		delete(t.of, id)
		return false
	}
	if t.of == nil {
		t.of = map[vf.ID]string{}
	}
	if t.of[id] == text {
		return false
	}
	t.of[id] = text
	return true
}

// driftOf lists what of an attached VF is not as its lease says, as far as a
// listing of the host shows: what the PF holds for it, its driver, and a
// netdevice that is back on the host. What its owner does in the netns is the
// owner's affair; CHECK looks there.
func driftOf(rec journal.Record, st vf.State) []vf.Difference {
	d := LeaseDiff(rec, st)
	if st.Link == nil {
		d = slices.DeleteFunc(d, func(o vf.Difference) bool { return o.Attribute == "interface" })
	}
	return d
}

// driftTask mends or tells what drifted of an attached VF; nil when nothing.
func (e *Engine) driftTask(ctx context.Context, r journal.Record, st vf.State) func() error {
	if len(driftOf(r, st)) == 0 {
		e.drifts.news(r.ID, "")
		return nil
	}
	return func() error { return e.drifted(ctx, r) }
}

// drifted runs with the VF locked.
func (e *Engine) drifted(ctx context.Context, seen journal.Record) error {
	rec, same, err := e.current(seen)
	if err != nil || !same || rec.Phase != journal.Attached {
		return err // nil when it was given back since
	}
	at, err := e.site(rec)
	if err != nil {
		return err
	}
	before, err := e.drift(ctx, rec)
	if err != nil || len(before) == 0 {
		return err // in between two states when it was listed
	}
	if e.mends(rec, before) {
		err = e.mend(ctx, at, rec)
	}
	left, lookErr := e.drift(ctx, rec)
	if err := errors.Join(err, lookErr); err != nil {
		return fmt.Errorf("VF %s of PF %s: mend what drifted (%s): %w", rec.PCI, at.label, vf.Differences(before), err)
	}
	var events []journal.Event
	if done := mended(before, left); len(done) > 0 {
		events = append(events, e.driftEvent(at, rec, "DriftMended", done))
	}
	if len(left) > 0 {
		if e.drifts.news(rec.ID, vf.Differences(left)) {
			events = append(events, e.driftEvent(at, rec, "Drifted", left))
		}
	} else {
		e.drifts.news(rec.ID, "")
	}
	if len(events) == 0 {
		return nil
	}
	return e.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, ev := range events {
			errs = append(errs, tx.Event(ev))
		}
		return errors.Join(errs...)
	})
}

func (e *Engine) drift(ctx context.Context, rec journal.Record) ([]vf.Difference, error) {
	st, err := e.look(ctx, journal.Record{ID: rec.ID, PCI: rec.PCI}) // from the host, as it was listed
	return driftOf(rec, st), err
}

// mends says whether drift of a VF is mended, which its pool decides; a VF
// whose netdevice came home is not with its owner any more, and is reset when
// that lets go of it.
func (e *Engine) mends(rec journal.Record, d []vf.Difference) bool {
	if slices.ContainsFunc(d, func(o vf.Difference) bool { return o.Attribute == "netns" }) {
		return false
	}
	pool, err := e.Spec().Pool(rec.Lease.Pool)
	return err != nil || pool.Drift != desired.ReportDrift
}

// mend sets again what the PF holds for an attached VF. The MAC is not among
// it: the VF's driver would have to be bound anew, which takes the interface
// out of the owner's hands.
func (e *Engine) mend(ctx context.Context, at site, rec journal.Record) error {
	st, err := e.look(ctx, rec)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range adminSteps(at.place, st.Admin, effective(rec.Lease.Wanted, rec).Over(rec.Baseline.Admin)) {
		errs = append(errs, e.do(ctx, s))
	}
	return errors.Join(errs...)
}

func (e *Engine) driftEvent(at site, rec journal.Record, reason string, d []vf.Difference) journal.Event {
	text := fmt.Sprintf("vf %d of %s, which %s has: %s", rec.ID.Index, at.label, rec.Lease.Owner, vf.Differences(d))
	if reason == "Drifted" {
		text += ": start the owner anew, or mend it by hand"
	}
	return journal.Event{Type: journal.Warning, Reason: reason, Object: "VF " + rec.PCI.String(), Text: text}
}

// mended are those of all that are not left.
func mended(all, left []vf.Difference) []vf.Difference {
	return slices.DeleteFunc(slices.Clone(all), func(d vf.Difference) bool {
		return slices.ContainsFunc(left, func(l vf.Difference) bool { return l.Attribute == d.Attribute })
	})
}
