package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// kernel is the part of kernel.Kernel that reconcile needs.
type kernel interface {
	Do(context.Context, step.Step) error
	VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error)
	Watch(context.Context) (<-chan struct{}, error)
}

// ledger is the part of journal.Ledger that reconcile needs.
type ledger interface {
	Update(func(*journal.Tx) error) error
	View(func(*journal.Tx) error) error
}

// hardware is inventory.Inventory.
type hardware interface {
	Refresh(context.Context) ([]vf.PF, error)
	Probed(vf.PFID) bool
	Probe(ctx context.Context, pf vf.PF, index int) error
}

// keeper is attach.Engine: it looks after the VFs that have been made.
type keeper interface {
	Replay(context.Context) error
	Tend(ctx context.Context, seen []vf.PF) error
	// WithIdle runs f while nobody can get the VF, and says whether it ran: not
	// when somebody has or works on the VF.
	WithIdle(id vf.ID, f func(journal.Record) error) (bool, error)
}

// Bounds and rhythms.
const (
	carrierBound = 10 * time.Second // for a PF that was just brought up
	makeBound    = 3 * time.Minute  // for sriov_numvfs: some firmware takes a second a VF
	bindBound    = 30 * time.Second // for one VF
	parallelVFs  = 8                // VFs bound at once: probes of one NIC queue at its mailbox anyway
	lookEvery    = 30 * time.Second // without any event
	settle       = 300 * time.Millisecond
	readyBound   = time.Minute // for NICs whose driver is still to come
)

// Config is what a Reconciler is made of. All fields but Log are needed.
type Config struct {
	Kernel   kernel
	Ledger   ledger
	Hardware hardware
	Keeper   keeper
	Spec     func() desired.Spec
	BootID   string // of this boot of the machine
	Log      *slog.Logger
}

// Reconciler keeps the host as its Spec wants it.
type Reconciler struct {
	Config

	pass     sync.Mutex // one pass at a time; guards complete
	complete bool       // the last pass found every PF of host.yaml, and failed at nothing

	mu       sync.Mutex // guards problems
	problems []Problem
}

// Problem is why something is not as it should be.
type Problem struct {
	Object string // "PF enp1s0f0", "VF 0000:01:10.2"
	Reason string // the whole story, with the next step
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{Config: c}
}

// Problems returns what the last pass could not do.
func (r *Reconciler) Problems() []Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.problems)
}

// Start settles what an earlier culvertd, or an earlier boot, left behind. It
// runs once, before anything else.
func (r *Reconciler) Start(ctx context.Context) error {
	if err := r.forgetEarlierBoot(); err != nil {
		return err
	}
	if _, err := r.Hardware.Refresh(ctx); err != nil {
		return fmt.Errorf("list the NICs: %w", err)
	}
	return r.Keeper.Replay(ctx)
}

// forgetEarlierBoot drops the records of an earlier boot: the reboot took the
// VFs, the netns and the pods with them, and the VFs that are made now start
// clean.
func (r *Reconciler) forgetEarlierBoot() error {
	return r.Ledger.Update(func(tx *journal.Tx) error {
		if tx.Boot() == r.BootID {
			return nil
		}
		records, err := tx.Records()
		if err != nil {
			return err
		}
		for _, rec := range records {
			if err := forget(tx, rec, "the node was rebooted"); err != nil {
				return err
			}
		}
		return tx.SetBoot(r.BootID)
	})
}

// forget drops a record and what hangs on it, and tells who lost a VF by it.
func forget(tx *journal.Tx, rec journal.Record, why string) error {
	errs := []error{tx.Delete(rec.ID), tx.FreeAddresses(rec.ID)}
	if rec.Held() {
		errs = append(errs, tx.Event(journal.Event{
			Type: journal.Warning, Reason: "LeaseEnded", Object: "VF " + rec.PCI.String(),
			Text: fmt.Sprintf("%s no longer has it: %s", rec.Lease.Owner, why),
		}))
	}
	return errors.Join(errs...)
}

// Run makes a pass now, after every event and every half minute, until the
// context ends. ready is called after the first pass that left nothing to do:
// at boot that is when the NICs' drivers have been loaded, perhaps long after
// culvertd was started (P1). A NIC that is broken or gone delays it by
// readyBound, and no longer (I7).
func (r *Reconciler) Run(ctx context.Context, ready func()) error {
	wake, err := r.Kernel.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch the kernel: %w", err)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	late := time.NewTimer(readyBound)
	defer late.Stop()
	started := time.Now()
	for {
		if err := r.Pass(ctx, false); err != nil && ctx.Err() == nil {
			r.Log.Error("reconcile", "err", err)
		}
		if ready != nil && (r.whole() || time.Since(started) >= readyBound) {
			ready()
			ready = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-late.C:
		case <-wake:
			select { // let a burst of events end
			case <-ctx.Done():
				return nil
			case <-time.After(settle):
			}
		}
	}
}

// Pass looks at everything once and mends what differs. Each PF is on its own
// (I7): the error joins what failed, after everything else was done. force
// takes VFs from their owners where the count has to change.
func (r *Reconciler) Pass(ctx context.Context, force bool) error {
	r.pass.Lock()
	defer r.pass.Unlock()
	errs := r.look(ctx, force)
	r.report(errs)
	err := errors.Join(errs...)
	r.complete = r.complete && err == nil
	return err
}

func (r *Reconciler) whole() bool {
	r.pass.Lock()
	defer r.pass.Unlock()
	return r.complete
}

// look lists the hardware, and again only after something was changed: an idle
// pass, of which every attach causes one, costs one listing.
func (r *Reconciler) look(ctx context.Context, force bool) []error {
	pfs, err := r.Hardware.Refresh(ctx)
	if err != nil {
		return []error{fmt.Errorf("list the NICs: %w", err)}
	}
	spec := r.Spec()
	r.complete = len(spec.Unmatched(pfs)) == 0
	plans, err := r.planOf(spec, pfs)
	if err != nil {
		return []error{err}
	}
	errs := make([]error, len(plans))
	changed := false
	var g errgroup.Group
	for i, p := range plans {
		changed = changed || len(p.Changes) > 0
		g.Go(func() error {
			errs[i] = r.apply(ctx, p, force)
			return nil
		})
	}
	_ = g.Wait()
	if changed {
		if pfs, err = r.Hardware.Refresh(ctx); err != nil {
			return append(errs, err)
		}
	}
	prepared := r.prepare(ctx, pfs)
	errs = append(errs, prepared...)
	for _, p := range plans {
		if p.Err == nil && p.remakes() {
			errs = append(errs, about(p.PF, r.autoprobe(ctx, p)))
		}
	}
	errs = append(errs, r.probe(ctx, pfs)...)
	if changed || len(prepared) > 0 {
		if pfs, err = r.Hardware.Refresh(ctx); err != nil {
			return append(errs, err)
		}
	}
	return append(errs, r.Keeper.Tend(ctx, pfs))
}

// report keeps the problems for status.
func (r *Reconciler) report(errs []error) {
	var ps []Problem
	for _, err := range errs {
		if err == nil {
			continue
		}
		var o *objectError
		if errors.As(err, &o) {
			ps = append(ps, Problem{Object: o.object, Reason: o.err.Error()})
		} else {
			ps = append(ps, Problem{Object: "host", Reason: err.Error()})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = ps
}

// objectError says which object an error is about.
type objectError struct {
	object string
	err    error
}

func (e *objectError) Error() string { return e.object + ": " + e.err.Error() }
func (e *objectError) Unwrap() error { return e.err }

func about(pf vf.PF, err error) error {
	if err == nil {
		return nil
	}
	return &objectError{"PF " + pf.Label(), err}
}

func aboutVF(v vf.State, err error) error {
	if err == nil {
		return nil
	}
	return &objectError{"VF " + v.PCI.String(), err}
}

func (r *Reconciler) planOf(spec desired.Spec, pfs []vf.PF) ([]PFPlan, error) {
	records, err := r.records()
	if err != nil {
		return nil, err
	}
	return Plan(spec, pfs, records), nil
}

// PlanFor shows what a spec would change.
func (r *Reconciler) PlanFor(ctx context.Context, spec desired.Spec) ([]PFPlan, error) {
	pfs, err := r.Hardware.Refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the NICs: %w", err)
	}
	return r.planOf(spec, pfs)
}

func (r *Reconciler) records() (all []journal.Record, err error) {
	err = r.Ledger.View(func(tx *journal.Tx) error {
		all, err = tx.Records()
		return err
	})
	return all, err
}
