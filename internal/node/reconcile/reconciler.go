package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
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
	// Probe returns the abilities of a PF's driver. It asks the driver once, by means of a VF.
	Probe(ctx context.Context, pf vf.PF, index int) (vf.Abilities, error)
}

// vfs is the part of hold.VFs that reconcile needs.
type vfs interface {
	// WithIdle runs f while no request can get the VF, and reports whether f ran. f does not run
	// if the VF is held, used outside the ledger or locked by other work.
	WithIdle(ctx context.Context, id vf.ID, f func(journal.Record) error) (bool, error)
	// Outside returns the uses of VFs for which there is no lease.
	Outside(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error)
	// FindCallFor returns an error if a call that changes the VF has not returned from the kernel.
	FindCallFor(pf vf.PF, rec journal.Record) error
}

// resets is the part of reset.Resetter that reconcile needs.
type resets interface {
	// TakeVFs calls take, which ends the leases of all VFs of a PF in the ledger, while they are
	// locked and have no guards. If it fails, the guards are set again.
	TakeVFs(ctx context.Context, pf vf.PFID, take func() error) error
}

// upkeep is upkeep.Keeper, which settles earlier work and looks after all VFs.
type upkeep interface {
	Replay(context.Context) error
	Tend(ctx context.Context, seen []vf.PF) error
	// ReportLost emits an event of each pod that had one of these records, which says that its VF
	// is gone.
	ReportLost(lost []journal.Record, why string)
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
	forever      = 20 * time.Minute // longer than the sum of all bounds for one PF
)

// Config has the parts of a Reconciler. All fields but Log are needed.
type Config struct {
	Kernel   kernel
	Ledger   ledger
	Hardware hardware
	VFs      vfs
	Resets   resets
	Upkeep   upkeep
	Spec     func() desired.Spec
	BootID   string // of this boot of the machine
	Log      *slog.Logger
}

// Reconciler keeps the host in the state that its Spec wants.
type Reconciler struct {
	Config
	problems problems
	work     work

	look sync.Mutex // one look at the hardware at a time; guards the fields below
	// missing describes the entries of host.yaml that match no PF of the last listing; "" for none.
	missing  string
	onChange func(missing string) // of Run
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{Config: c, work: work{ended: change.NewWake()}}
}

// Start settles the work that an earlier culvertd left, or the records of an earlier boot. The
// daemon calls it once, before any other method.
func (r *Reconciler) Start(ctx context.Context) error {
	if err := r.forgetEarlierBoot(); err != nil {
		return err
	}
	if _, err := r.Hardware.Refresh(ctx); err != nil {
		return fmt.Errorf("list the NICs: %w", err)
	}
	if err := r.Upkeep.Replay(ctx); err != nil {
		// Tend goes on with the failed VFs; the other VFs do not wait for them (I7).
		r.Log.Error("finish or undo the work of the last culvertd", "err", err)
	}
	return nil
}

// forgetEarlierBoot drops the records of an earlier boot. The reboot ended the VFs, the netns and
// the pods, and VFs that are made now are clean.
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
			if err := tx.Forget(rec.ID, "the node was rebooted"); err != nil {
				return err
			}
		}
		return errors.Join(tx.Clear(), tx.SetBoot(r.BootID))
	})
}

// Run makes a pass at once, after every event and every half minute, until the context ends. It
// calls ready after the first pass that left nothing to do but what waits for the user of a VF. At
// boot that may be long after culvertd's start, since the NICs' drivers must be loaded first (P1).
// A NIC that is broken or missing delays the call by at most readyBound (I7).
//
// Run calls missing at once, before any work, when entries of host.yaml match no PF, and when that
// changes. The text names them and the PFs there are; it is empty when none is missing any more.
func (r *Reconciler) Run(ctx context.Context, missing func(string), ready func()) error {
	r.look.Lock()
	r.onChange = missing
	r.look.Unlock()
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
		if err := r.passWithin(ctx, mode{}, patience); err != nil && ctx.Err() == nil {
			r.Log.Error("reconcile", "err", err)
		}
		if ready != nil && (r.isWhole() || time.Since(started) >= readyBound) {
			ready()
			ready = nil
		}
		select {
		case <-ctx.Done():
			r.work.waitAll()
			return nil
		case <-tick.C:
		case <-late.C:
		case <-r.work.ended: // a PF that took longer than its pass
		case <-wake:
			awaitCalm(ctx, wake, settle, longest)
		}
	}
}

// awaitCalm waits until a burst of events has ended: it returns when no event came for settle,
// and after longest at the latest. While many pods attach and detach, a pass after each event
// would slow the next attach down.
func awaitCalm(ctx context.Context, wake <-chan struct{}, settle, longest time.Duration) {
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

// isWhole reports whether the last pass found every PF of host.yaml, and had no failure that the next
// one may not have.
func (r *Reconciler) isWhole() bool {
	r.look.Lock()
	defer r.look.Unlock()
	return r.missing == "" && !r.problems.mayEnd() && !r.work.isBusy()
}

// Pass lists the host once and mends all differences from the wanted state. One PF does not
// hinder another (I7): the error joins all failures, after all other work was done. Pass leaves a
// PF alone on which another pass works, since the next pass repeats the work.
func (r *Reconciler) Pass(ctx context.Context) error {
	return r.passWithin(ctx, mode{}, forever)
}

// Apply is Pass for a caller that has just changed the wanted state: it first waits for the work
// that another pass has begun on a PF. force takes VFs from their owners where the number of VFs
// has to change.
func (r *Reconciler) Apply(ctx context.Context, force bool) error {
	return r.passWithin(ctx, mode{waits: true, force: force}, forever)
}

// mode says how a pass differs from the usual one.
type mode struct {
	waits bool // for work of another pass on a PF
	force bool // takes VFs from their owners
}

// passWithin runs Pass for a caller that does not wait longer than patience for a PF. Slower
// work goes on in the background, and the next passes leave that PF alone.
func (r *Reconciler) passWithin(ctx context.Context, m mode, patience time.Duration) error {
	pfs, started, err := r.startPass(ctx, m)
	r.problems.ofHost(err)
	if err != nil {
		return err
	}
	errs, changed := r.work.awaitPieces(started, patience)
	if changed {
		if pfs, err = r.Hardware.Refresh(ctx); err != nil {
			err = fmt.Errorf("list the NICs: %w", err)
			r.problems.ofHost(err)
			return errors.Join(append(errs, err)...)
		}
	}
	err = r.Upkeep.Tend(ctx, pfs)
	r.problems.ofHost(err)
	return errors.Join(append(errs, err)...)
}

// startPass looks at the hardware and starts the work on each PF.
func (r *Reconciler) startPass(ctx context.Context, m mode) ([]vf.PF, *pieces, error) {
	r.look.Lock()
	defer r.look.Unlock()
	pfs, err := r.Hardware.Refresh(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list the NICs: %w", err)
	}
	spec := r.Spec()
	leases, err := r.readPFLeases()
	if err != nil {
		return nil, nil, err
	}
	r.setMissing(spec.Unmatched(journal.IdentifyPFs(pfs, leases)), pfs)
	plans, err := r.planOf(ctx, spec, pfs)
	if err != nil {
		return nil, nil, err
	}
	started := &pieces{}
	for _, p := range plans {
		r.work.startWork(ctx, started, p.PF.PCI, m.waits, func(waited bool) outcome {
			spec, p := spec, p
			if waited { // the PF is not as it was listed
				var err error
				if spec, p, err = r.planAgain(ctx, p.PF); err != nil {
					return outcome{err: err}
				}
			}
			changed, errs := r.mendPF(ctx, spec, p, m.force)
			r.problems.ofPF(p.PF.PCI, errs)
			return outcome{changed, errors.Join(errs...)}
		})
	}
	r.problems.keepOnly(pfs)
	return pfs, started, nil
}

// setMissing records the entries of host.yaml that match none of pfs. The caller holds look.
func (r *Reconciler) setMissing(rules []desired.PFRule, pfs []vf.PF) {
	var parts []string
	for _, rule := range rules {
		parts = append(parts, fmt.Sprintf("%s: no PF matches %s", rule.Want.From, rule))
	}
	text := strings.Join(parts, "; ")
	if text != "" {
		text += "; there are " + desired.JoinLabels(pfs)
	}
	if text != r.missing && r.onChange != nil {
		r.onChange(text)
	}
	r.missing = text
}

// mendPF brings one PF and its VFs to the state that the spec wants, and reports whether it
// changed anything. Every attach causes a pass that changes nothing; such a pass costs one
// listing.
func (r *Reconciler) mendPF(ctx context.Context, spec desired.Spec, p PFPlan, force bool) (changed bool, errs []error) {
	if p.leased {
		return false, []error{p.Err}
	}
	applied := r.applyPlan(ctx, p, force)
	var addressed error
	if p.Err == nil && p.PF.Err == "" {
		addressed = r.setAddresses(ctx, p)
	}
	errs = append(errs, applied, addressed)
	pf := p.PF
	if len(p.Changes) > 0 {
		changed = true
		now, err := r.rereadPF(ctx, pf)
		if err != nil {
			return changed, append(errs, err)
		}
		pf = now
		if addressed == nil && p.Err == nil {
			errs = append(errs, checkAddresses(p.Want.Addresses, pf))
		}
		if applied == nil && p.remakesVFs() {
			errs = append(errs, namePF(pf, r.rememberFresh(pf)))
		}
	}
	prepared := r.prepareVFs(ctx, spec, pf)
	errs = append(errs, prepared...)
	if p.Err == nil && p.remakesVFs() {
		errs = append(errs, namePF(p.PF, r.setAutoprobe(ctx, p)))
	}
	return changed || len(prepared) > 0, append(errs, r.probePF(ctx, pf))
}

// planAgain lists a PF anew and plans for it by the Spec that is wanted now.
func (r *Reconciler) planAgain(ctx context.Context, pf vf.PF) (desired.Spec, PFPlan, error) {
	spec := r.Spec()
	now, err := r.rereadPF(ctx, pf)
	if err != nil {
		return spec, PFPlan{}, err
	}
	plans, err := r.planOf(ctx, spec, []vf.PF{now})
	if err != nil {
		return spec, PFPlan{}, err
	}
	return spec, plans[0], nil
}

// rereadPF reads a PF that was just changed.
func (r *Reconciler) rereadPF(ctx context.Context, pf vf.PF) (vf.PF, error) {
	pfs, err := r.Hardware.Refresh(ctx)
	if err != nil {
		return pf, fmt.Errorf("list the NICs: %w", err)
	}
	for _, now := range pfs {
		if now.PCI == pf.PCI {
			return now, nil
		}
	}
	return pf, namePF(pf, fmt.Errorf("%w: it was removed while it was being changed", vf.ErrNotFound))
}

func (r *Reconciler) planOf(ctx context.Context, spec desired.Spec, pfs []vf.PF) ([]PFPlan, error) {
	records, err := r.readRecords()
	if err != nil {
		return nil, err
	}
	leases, err := r.readPFLeases()
	if err != nil {
		return nil, err
	}
	plans := Plan(spec, pfs, records, leases)
	for i, p := range plans {
		outside, err := r.usersOutside(ctx, p)
		if err != nil {
			r.Log.Debug("plan without the users that the ledger does not know", "pf", p.PF.Label(), "err", err)
		}
		plans[i].Hurts = addOutside(p.Hurts, outside)
	}
	return plans, nil
}

// PlanFor returns the plans of the changes that a spec would cause.
func (r *Reconciler) PlanFor(ctx context.Context, spec desired.Spec) ([]PFPlan, error) {
	pfs, err := r.Hardware.Refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the NICs: %w", err)
	}
	return r.planOf(ctx, spec, pfs)
}

func (r *Reconciler) readRecords() ([]journal.Record, error) { return journal.ReadRecords(r.Ledger) }

// readPFLeases returns the leases of PFs that guests have as a whole.
func (r *Reconciler) readPFLeases() (all []journal.PFLease, err error) {
	err = r.Ledger.View(func(tx *journal.Tx) error {
		all = tx.PFLeases()
		return nil
	})
	return all, err
}
