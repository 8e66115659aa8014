// Package trial puts a host.yaml on trial: culvertd applies it, and goes back to the state before it
// unless an administrator confirms it in time.
//
// A file beside the ledger has the trial from before the first change until culvertd has gone back
// or the administrator has confirmed. A culvertd that starts meanwhile goes on with the trial. If it
// was killed while it applied the file, or if the machine was rebooted, it goes back at once.
//
// No owner loses a VF by going back. If a new owner has one that would have to go, culvertd waits
// for its release.
package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// reconciler is reconcile.Reconciler.
type reconciler interface {
	Apply(ctx context.Context, force bool) error
	PlanFor(context.Context, desired.Spec) ([]reconcile.PFPlan, error)
}

// hostFile is sources.HostFile.
type hostFile interface {
	Content() ([]byte, error) // nil: there is no file
	Put([]byte) error
	Read()
	Follow(desired.Spec)
}

// store is a File.
type store interface {
	Content() ([]byte, error) // nil: it is not there
	Put([]byte) error         // whole or not at all; nil removes it
}

// File is the path of the file that has a trial.
type File string

// Content returns the content of the file, nil if there is no file.
func (f File) Content() ([]byte, error) {
	content, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// Put replaces the file durably. It removes the file if content is nil.
func (f File) Put(content []byte) error {
	if content == nil {
		return durable.Remove(string(f))
	}
	return durable.WriteFile(string(f), content, 0o600)
}

// ledger is the part of journal.Ledger that takes the events.
type ledger interface {
	Update(func(*journal.Tx) error) error
}

// Config has the parts of a Keeper. All are needed.
type Config struct {
	Store store  // has the trial
	Boot  string // ID of this boot of the machine
	File  hostFile
	Host  reconciler
	// Preview returns the wanted Spec if host.yaml had the given one.
	Preview func(desired.Spec) desired.Spec
	Ledger  ledger
	Now     func() time.Time
	Log     *slog.Logger
}

// Record is a trial as its file has it.
type Record struct {
	Began time.Time `json:"began"`
	// Until is the end of the trial. It is zero while culvertd applies the file.
	Until   time.Time     `json:"until,omitzero"`
	Window  time.Duration `json:"window"` // from the end of the work to Until
	Boot    string        `json:"boot"`
	Content string        `json:"content"` // on trial
	Earlier *string       `json:"earlier"` // nil: there was no host.yaml
	// Rules bring back the state of PFs that the earlier file leaves alone.
	Rules []desired.PFRule `json:"rules,omitempty"`
}

// Keeper has the trial of a node, if there is one.
type Keeper struct {
	Config
	wake change.Wake
	work sync.Mutex // held while a host.yaml is applied or taken back

	mu     sync.Mutex // guards the fields below
	now    *Record    // nil: no trial
	going  bool       // culvertd goes back
	broken error      // the file with the trial cannot be read
}

// retry is how long culvertd waits before it tries again to go back.
const retry = 5 * time.Second

// New returns a Keeper. Resume comes before its other methods.
func New(c Config) *Keeper { return &Keeper{Config: c, wake: change.NewWake()} }

// Resume reads host.yaml and the trial that an earlier culvertd left. It follows the state before
// the trial if that has to come back, so that the first pass makes the VFs of that state.
func (k *Keeper) Resume() {
	r, err := k.load()
	k.mu.Lock()
	k.now, k.broken = r, err
	k.mu.Unlock()
	if err != nil {
		k.Log.Error("read the trial of host.yaml", "file", k.Store, "err", err)
	}
	k.File.Read()
	if r == nil {
		return
	}
	if r.Until.IsZero() || r.Boot != k.Boot {
		k.endBy(k.Now())
	}
	// The clock may have been set back since: no trial gets more time than it was given.
	if late := k.Now().Add(r.Window); r.Until.After(late) {
		k.endBy(late)
	}
	if k.isDue() && !k.isReplaced(*r) {
		k.followEarlier(*r)
	}
}

func (k *Keeper) load() (*Record, error) {
	raw, err := k.Store.Content()
	if raw == nil || err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%v is damaged: %w", k.Store, err)
	}
	return &r, nil
}

func (k *Keeper) save(r Record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("the trial of host.yaml: %w", err)
	}
	return k.Store.Put(raw)
}

// Status returns the trial for people, nil if there is none.
func (k *Keeper) Status() *api.HostTrial {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil {
		return nil
	}
	return &api.HostTrial{Began: k.now.Began, Until: k.now.Until, GoingBack: k.going || k.isOver()}
}

// Problems returns why a trial of an earlier culvertd is not known.
func (k *Keeper) Problems() []api.Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken == nil {
		return nil
	}
	return []api.Problem{{Object: "host.yaml", Reason: "whether it is on trial is not known: " + k.broken.Error(),
		Next: fmt.Sprintf("look at host.yaml, and remove %v; until then host.yaml stays as it is", k.Store)}}
}

// Confirm ends the trial; the file stays.
func (k *Keeper) Confirm() (api.HostTrial, error) {
	if err := k.checkPending(); err != nil {
		return api.HostTrial{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil || k.going || k.isOver() { // since checkPending
		return api.HostTrial{}, fmt.Errorf("the trial has just ended: %w", vf.ErrNotFound)
	}
	done := api.HostTrial{Began: k.now.Began, Until: k.now.Until}
	if err := k.Store.Put(nil); err != nil {
		return done, fmt.Errorf("confirm host.yaml of %s: %w", clock(k.now.Began), err)
	}
	k.now = nil
	k.recordEvent(journal.Normal, reasons.HostConfirmed, fmt.Sprintf("host.yaml of %s was confirmed", clock(done.Began)))
	return done, nil
}

// checkPending returns an error unless a trial waits to be confirmed.
func (k *Keeper) checkPending() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.now == nil:
		return fmt.Errorf("no host.yaml is on trial: %w: culvert host apply --confirm 60s puts one on trial", vf.ErrNotFound)
	case k.now.Until.IsZero():
		return fmt.Errorf("host.yaml of %s is still being applied: %w: try again once that has ended", clock(k.now.Began), vf.ErrNotReady)
	case k.going || k.isOver():
		return fmt.Errorf("the time of host.yaml of %s is up: %w: culvertd goes back to the one before it: culvert status shows when that has ended", clock(k.now.Began), vf.ErrInvalid)
	}
	return nil
}

// CheckFree returns an error if a host.yaml is on trial. A trial that is over does not stop another
// host.yaml: Drop ends it.
func (k *Keeper) CheckFree() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil || k.going || k.isOver() {
		return nil
	}
	return fmt.Errorf("host.yaml of %s is on trial: %w: first culvert host confirm, which keeps it, or culvert host revert, which goes back", clock(k.now.Began), vf.ErrHeld)
}

// Drop ends a trial that is over, since another host.yaml comes in the place of the earlier one. The
// caller calls free when that one is applied; until then no other work on host.yaml begins.
func (k *Keeper) Drop() (free func(), err error) {
	k.work.Lock()
	if err := errors.Join(k.CheckFree(), k.Store.Put(nil)); err != nil {
		k.work.Unlock()
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now, k.going, k.broken = nil, false, nil
	return k.work.Unlock, nil
}

// isOver reports whether the trial has ended by its time. The caller holds mu.
func (k *Keeper) isOver() bool { return !k.now.Until.IsZero() && !k.Now().Before(k.now.Until) }

// isDue reports whether culvertd has to go back.
func (k *Keeper) isDue() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now != nil && k.isOver()
}

// endBy sets the end of the trial, also in its file if that can be written.
func (k *Keeper) endBy(t time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil { // confirmed meanwhile
		return
	}
	k.now.Until = t
	if err := k.save(*k.now); err != nil {
		// A culvertd that starts now finds an earlier or no end, and goes back no later.
		k.Log.Error("write the end of the trial of host.yaml", "err", err)
	}
}

func (k *Keeper) recordEvent(kind, reason, text string) {
	err := k.Ledger.Update(func(tx *journal.Tx) error {
		return tx.Event(journal.Event{Type: kind, Reason: reason, Object: "host", Text: text})
	})
	if err != nil {
		k.Log.Error("record an event", "event", text, "err", err)
	}
}

func clock(t time.Time) string { return t.Local().Format("15:04:05") }
