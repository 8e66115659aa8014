package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/culvert-net/culvert/change"
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
	// WithIdle runs f while no request can get the VF, and reports whether it ran: not
	// when the VF is held, used outside the ledger or worked on.
	WithIdle(ctx context.Context, id vf.ID, f func(journal.Record) error) (bool, error)
	// Outside returns the uses of VFs for which there is no lease.
	Outside(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error)
}

// Bounds and rhythms.
const (
	carrierBound = 10 * time.Second       // for a PF that was just brought up
	makeBound    = 3 * time.Minute        // for sriov_numvfs: some firmware takes a second a VF
	bindBound    = time.Minute            // for one VF
	parallelVFs  = 8                      // VFs bound at once: probes of one NIC queue at its mailbox anyway
	lookEvery    = 30 * time.Second       // without any event
	settle       = 300 * time.Millisecond // after an event
	longest      = 2 * time.Second        // of a burst of events
	readyBound   = time.Minute            // for NICs whose driver is still to come
	patience     = 5 * time.Second
	forever      = 10 * time.Minute // longer than all bounds of one PF together
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
	problems problems
	work     work

	look sync.Mutex // one look at the hardware at a time; guards missing
	// missing is whether the last look lacked a PF of host.yaml.
	missing bool
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{Config: c, work: work{ended: change.NewWake()}}
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
	if err := r.Keeper.Replay(ctx); err != nil {
		// Tend goes on with it; the other VFs need not wait for that (I7).
		r.Log.Error("clear up after the last culvertd", "err", err)
	}
	return nil
}

// forgetEarlierBoot drops the records of an earlier boot: the reboot took the
// VFs, the netns and the pods with them, and the VFs that are made now start
// clean.
func (r *Reconciler) forgetEarlierBoot() error {
	same := false
	err := r.Ledger.View(func(tx *journal.Tx) error {
		same = tx.Boot() == r.BootID
		return nil
	})
	if err != nil || same {
		return err
	}
	return r.Ledger.Update(func(tx *journal.Tx) error {
		if tx.Boot() == r.BootID {
			return nil
		}
		for _, rec := range tx.Records() {
			if err := tx.Forget(rec, "the node was rebooted"); err != nil {
				return err
			}
		}
		return errors.Join(tx.Clear(), tx.SetBoot(r.BootID))
	})
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
		if err := r.pass(ctx, false, patience); err != nil && ctx.Err() == nil {
			r.Log.Error("reconcile", "err", err)
		}
		if ready != nil && (r.whole() || time.Since(started) >= readyBound) {
			ready()
			ready = nil
		}
		select {
		case <-ctx.Done():
			r.work.wait()
			return nil
		case <-tick.C:
		case <-late.C:
		case <-r.work.ended: // a PF that took longer than its pass
		case <-wake:
			calm(ctx, wake, settle, longest)
		}
	}
}

// calm lets a burst of events end: it returns when settle went by without one,
// after longest at the latest. While many attach and detach, a pass after each
// would take the processor from the next one.
func calm(ctx context.Context, wake <-chan struct{}, settle, longest time.Duration) {
	end := time.NewTimer(longest)
	defer end.Stop()
	for {
		select {
		case _, more := <-wake:
			if !more {
				return
			}
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-time.After(settle):
			return
		}
	}
}

// whole reports whether the last pass found every PF of host.yaml, and failed
// at nothing.
func (r *Reconciler) whole() bool {
	r.look.Lock()
	defer r.look.Unlock()
	return !r.missing && r.problems.none() && !r.work.busy()
}

// Pass looks at everything once and mends what differs. Each PF is on its own
// (I7): the error joins what failed, after everything else was done. force
// takes VFs from their owners where the count has to change.
func (r *Reconciler) Pass(ctx context.Context, force bool) error {
	return r.pass(ctx, force, forever)
}

// pass is Pass for somebody who does not wait longer than patience for a PF:
// one that takes longer goes on behind his back, and is left alone by the passes
// that come meanwhile.
func (r *Reconciler) pass(ctx context.Context, force bool, patience time.Duration) error {
	pfs, started, err := r.begin(ctx, force)
	r.problems.ofHost(err)
	if err != nil {
		return err
	}
	errs, changed := r.work.await(started, patience)
	if changed {
		if pfs, err = r.Hardware.Refresh(ctx); err != nil {
			err = fmt.Errorf("list the NICs: %w", err)
			r.problems.ofHost(err)
			return errors.Join(append(errs, err)...)
		}
	}
	err = r.Keeper.Tend(ctx, pfs)
	r.problems.ofHost(err)
	return errors.Join(append(errs, err)...)
}

// begin looks at the hardware and starts the work on each PF.
func (r *Reconciler) begin(ctx context.Context, force bool) ([]vf.PF, *pieces, error) {
	r.look.Lock()
	defer r.look.Unlock()
	pfs, err := r.Hardware.Refresh(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list the NICs: %w", err)
	}
	spec := r.Spec()
	r.missing = len(spec.Unmatched(pfs)) > 0
	plans, err := r.planOf(ctx, spec, pfs)
	if err != nil {
		return nil, nil, err
	}
	started := &pieces{}
	for _, p := range plans {
		r.work.start(ctx, started, p.PF.PCI, force, func(waited bool) outcome {
			spec, p := spec, p
			if waited { // the PF is not as it was listed
				var err error
				if spec, p, err = r.planAgain(ctx, p.PF); err != nil {
					return outcome{err: err}
				}
			}
			changed, errs := r.mend(ctx, spec, p, force)
			r.problems.ofPF(p.PF.PCI, errs)
			return outcome{changed, errors.Join(errs...)}
		})
	}
	r.problems.only(pfs)
	return pfs, started, nil
}

// mend makes one PF and its VFs what the spec wants, and says whether it
// changed anything. An idle pass, of which every attach causes one, changes
// nothing and costs one listing.
func (r *Reconciler) mend(ctx context.Context, spec desired.Spec, p PFPlan, force bool) (changed bool, errs []error) {
	applied := r.apply(ctx, p, force)
	var addressed error
	if p.Err == nil && p.PF.Err == "" {
		addressed = r.setAddresses(ctx, p)
	}
	errs = append(errs, applied, addressed)
	pf := p.PF
	if len(p.Changes) > 0 {
		changed = true
		now, err := r.again(ctx, pf)
		if err != nil {
			return changed, append(errs, err)
		}
		pf = now
		if addressed == nil && p.Err == nil {
			errs = append(errs, checkAddresses(p.Want.Addresses, pf))
		}
		if applied == nil && p.remakes() {
			errs = append(errs, about(pf, r.rememberFresh(pf)))
		}
	}
	prepared := r.prepare(ctx, spec, pf)
	errs = append(errs, prepared...)
	if p.Err == nil && p.remakes() {
		errs = append(errs, about(p.PF, r.autoprobe(ctx, p)))
	}
	return changed || len(prepared) > 0, append(errs, r.probe(ctx, pf))
}

// planAgain lists a PF anew and plans for it by the Spec that is wanted now.
func (r *Reconciler) planAgain(ctx context.Context, pf vf.PF) (desired.Spec, PFPlan, error) {
	spec := r.Spec()
	now, err := r.again(ctx, pf)
	if err != nil {
		return spec, PFPlan{}, err
	}
	plans, err := r.planOf(ctx, spec, []vf.PF{now})
	if err != nil {
		return spec, PFPlan{}, err
	}
	return spec, plans[0], nil
}

// again reads a PF that was just changed.
func (r *Reconciler) again(ctx context.Context, pf vf.PF) (vf.PF, error) {
	pfs, err := r.Hardware.Refresh(ctx)
	if err != nil {
		return pf, fmt.Errorf("list the NICs: %w", err)
	}
	for _, now := range pfs {
		if now.PCI == pf.PCI {
			return now, nil
		}
	}
	return pf, about(pf, fmt.Errorf("%w: it was removed while it was being changed", vf.ErrNotFound))
}

func (r *Reconciler) planOf(ctx context.Context, spec desired.Spec, pfs []vf.PF) ([]PFPlan, error) {
	records, err := r.records()
	if err != nil {
		return nil, err
	}
	plans := Plan(spec, pfs, records)
	for i, p := range plans {
		outside, err := r.usersOutside(ctx, p)
		if err != nil {
			r.Log.Debug("plan without the users that the ledger does not know", "pf", p.PF.Label(), "err", err)
		}
		plans[i].Hurts = addOutside(p.Hurts, outside)
	}
	return plans, nil
}

// PlanFor shows what a spec would change.
func (r *Reconciler) PlanFor(ctx context.Context, spec desired.Spec) ([]PFPlan, error) {
	pfs, err := r.Hardware.Refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the NICs: %w", err)
	}
	return r.planOf(ctx, spec, pfs)
}

func (r *Reconciler) records() ([]journal.Record, error) { return journal.ReadRecords(r.Ledger) }
