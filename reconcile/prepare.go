package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// prepare gives every VF of a PF that needs it its MAC and driver and takes its
// baseline: VFs that were just made, VFs that somebody else made and nobody
// uses, and free VFs whose pool now wants another driver. All at once, since
// each mostly waits for its driver. There is a result, nil or not, for each VF
// that needed something.
func (r *Reconciler) prepare(ctx context.Context, spec desired.Spec, pf vf.PF) []error {
	records, err := r.records()
	if err != nil {
		return []error{err}
	}
	used, unknown := r.newcomers(ctx, pf, records)
	var tasks []func() error
	for _, v := range pf.VFs {
		rec := recordOf(records, v.ID)
		if !wanted(spec, pf, v) || isNewcomer(rec) && used[v.PCI].Pod != "" {
			continue // a pod that an earlier device plugin served keeps its VF, and status names it
		}
		if isNewcomer(rec) {
			if err := refuseNewcomer(used, unknown, v); err != nil {
				tasks = append(tasks, func() error { return aboutVF(v, err) })
				continue
			}
		}
		if task := r.task(ctx, spec, pf, v, rec); task != nil {
			tasks = append(tasks, func() error { return aboutVF(v, task()) })
		}
	}
	errs := make([]error, len(tasks))
	var g errgroup.Group
	g.SetLimit(parallelVFs)
	for i, task := range tasks {
		g.Go(func() error {
			errs[i] = task()
			return nil
		})
	}
	_ = g.Wait()
	return errs
}

// wanted reports whether a VF is Culvert's to look after: its PF is in
// host.yaml, or a pool has it.
func wanted(spec desired.Spec, pf vf.PF, v vf.State) bool {
	if pf.Err != "" {
		return false
	}
	_, managed := spec.ForPF(pf)
	_, pooled := spec.PoolOf(pf, v.ID.Index, v)
	return managed || pooled
}

// task is what a VF needs, nil when it is as it should be or somebody's.
func (r *Reconciler) task(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State, rec *journal.Record) func() error {
	switch {
	case isNewcomer(rec):
		return func() error { return r.takeOver(ctx, spec, pf, v) }
	case rec.Phase == journal.Making:
		return func() error { return r.finish(ctx, spec, pf, v, *rec) }
	case rec.Phase == journal.Free && (changesBaseline(r.steps(spec, pf, v), rec.Baseline) || isReboundOutside(spec, pf, v, rec.Baseline)):
		return func() error { return r.remodel(ctx, spec, pf, v) }
	case rec.Phase == journal.Free:
		if want, _ := spec.ForPF(pf); hasOtherMTU(want, rec.Baseline) {
			return func() error { return r.resize(ctx, v, want.MTU) }
		}
	}
	return nil
}

// isReboundOutside reports whether an administrator bound a free VF to vfio-pci, or away from
// it, that is in a pool which takes VFs as they are bound: the binding is its new baseline.
func isReboundOutside(spec desired.Spec, pf vf.PF, v vf.State, b vf.Baseline) bool {
	pool, _ := spec.PoolOf(pf, v.ID.Index, v)
	return pool.AsBound && v.Driver != "" && (v.Driver == vf.DriverVFIO) != (b.Driver == vf.DriverVFIO)
}

// remodel gives a free VF another baseline: back to Making, unless somebody is
// quicker.
func (r *Reconciler) remodel(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State) error {
	_, err := r.Keeper.WithIdle(ctx, v.ID, func(seen journal.Record) error {
		making, ok, err := r.backToMaking(seen)
		if err != nil || !ok {
			return err
		}
		return r.finish(ctx, spec, pf, v, making)
	})
	return err
}

// backToMaking keeps a free VF from everybody; not when it was promised to
// somebody since it was seen.
func (r *Reconciler) backToMaking(seen journal.Record) (making journal.Record, ok bool, err error) {
	err = r.Ledger.Update(func(tx *journal.Tx) error {
		now, err := tx.Record(seen.ID)
		if err != nil || now.Phase != journal.Free || now.Generation != seen.Generation {
			return err
		}
		now.Phase = journal.Making
		now.Generation++
		making, ok = now, true
		return tx.Put(now)
	})
	return making, ok, err
}

// changesBaseline tells a VF whose pool wants another driver, which gets a new
// baseline, from one that somebody changed behind our back, which Tend takes
// back to the old one.
func changesBaseline(steps []step.Step, b vf.Baseline) bool {
	for _, s := range steps {
		if bind, ok := s.(step.Bind); ok {
			return (bind.Driver == vf.DriverVFIO) != (b.Driver == vf.DriverVFIO) || b.Driver == ""
		}
	}
	return false
}

// steps gives a VF its MAC and driver. The MAC goes first: a VF driver reads
// it when it binds (lab-facts, trap 4).
func (r *Reconciler) steps(spec desired.Spec, pf vf.PF, v vf.State) []step.Step {
	want, _ := spec.ForPF(pf)
	pool, pooled := spec.PoolOf(pf, v.ID.Index, v)
	driver, rebind := driverChange(want, pool, pooled, v)
	mac := vf.StableMAC(pf.ID, v.ID.Index)
	// A driver that bound before the MAC was set made one up, and keeps it.
	newMAC := v.Admin.MAC != mac || v.Link != nil && v.Link.MAC != mac
	if !rebind && v.Driver == vf.DriverVFIO { // who opens it reads its MAC
		if newMAC {
			return []step.Step{step.SetVFMAC{PF: pf.PCI, Index: v.ID.Index, MAC: mac}}
		}
		return nil
	}
	var out []step.Step
	if v.Driver != "" && (rebind || newMAC) {
		out = append(out, step.Unbind{VF: v.PCI})
	}
	if newMAC {
		out = append(out, step.SetVFMAC{PF: pf.PCI, Index: v.ID.Index, MAC: mac})
	}
	if rebind || newMAC && v.Driver != "" {
		out = append(out, step.Bind{VF: v.PCI, Driver: driver})
	}
	return out
}

// finish carries out the steps, reads back, and gives the VF its baseline.
// Until that is done it is Making, which nobody gets. What somebody set on the VF
// before it was Culvert's must not become its baseline, so that goes first.
func (r *Reconciler) finish(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State, rec journal.Record) error {
	fresh, err := r.fresh(pf, v)
	if err != nil {
		return err
	}
	steps := append(step.AdminChanges(pf.PCI, v.ID.Index, v.Admin, fresh), reborn(v, r.steps(spec, pf, v))...)
	for _, s := range steps {
		if err := r.do(ctx, bindBound, s); err != nil {
			return err
		}
	}
	st, err := r.Kernel.VF(ctx, v.PCI, "")
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if left := step.AdminChanges(pf.PCI, v.ID.Index, st.Admin, fresh); len(left) > 0 {
		return fmt.Errorf("after all steps were done there is still to do: %v", left)
	}
	if err := r.settled(spec, pf, st); err != nil {
		return err
	}
	rec.PCI, rec.Phase, rec.Baseline = v.PCI, journal.Free, vf.BaselineOf(st)
	if want, _ := spec.ForPF(pf); hasOtherMTU(want, rec.Baseline) {
		// One whose driver refuses the MTU can still be given out: that is a problem, and no more.
		if err = r.setMTU(ctx, v, want.MTU); err == nil {
			rec.Baseline.MTU = want.MTU
		}
	}
	return errors.Join(err, r.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) }))
}

// fresh is what the PF holds for a VF that nobody has touched, as far as that is
// known: the drivers differ in whether they check for spoofing at first.
func (r *Reconciler) fresh(pf vf.PF, v vf.State) (a vf.Admin, err error) {
	known := false
	err = r.Ledger.View(func(tx *journal.Tx) error {
		a, known = tx.Fresh(pf.ID)
		return nil
	})
	if known || err != nil {
		return a, err
	}
	a = vf.Admin{SpoofChk: v.Admin.SpoofChk, RSSQuery: v.Admin.RSSQuery}
	if v.Admin.Trust != vf.Unknown {
		a.Trust = vf.No
	}
	return a, nil
}

// rememberFresh keeps what VFs look like that were just made.
func (r *Reconciler) rememberFresh(pf vf.PF) error {
	if len(pf.VFs) == 0 || pf.Err != "" {
		return nil
	}
	return r.Ledger.Update(func(tx *journal.Tx) error { return tx.SetFresh(pf.ID, pf.VFs[0].Admin) })
}

// settled says what of a VF that was just prepared is not right. Such a VF is
// no baseline for anything.
func (r *Reconciler) settled(spec desired.Spec, pf vf.PF, st vf.State) error {
	var errs []error
	mac := vf.StableMAC(pf.ID, st.ID.Index)
	if st.Admin.MAC != mac {
		errs = append(errs, fmt.Errorf("admin mac is %s after %s was set", cmp.Or(st.Admin.MAC.String(), "none"), mac))
	}
	if st.Link == nil && st.Driver != "" && st.Driver != vf.DriverVFIO {
		errs = append(errs, fmt.Errorf("driver %s has made no interface yet", st.Driver))
	}
	if st.Link != nil && st.Link.MAC != mac {
		errs = append(errs, fmt.Errorf("the interface has mac %s, the PF set %s", st.Link.MAC, mac))
	}
	if left := r.steps(spec, pf, st); len(left) > 0 && errs == nil {
		errs = append(errs, fmt.Errorf("after all steps were done there is still to do: %v", left))
	}
	if st.Link != nil && (st.Link.Up || len(st.Link.Addrs) > 0) {
		errs = append(errs, fmt.Errorf("somebody uses interface %s already (up %t, addresses %s): keep other managers off it", st.Link.Name, st.Link.Up, excerpt.List(st.Link.Addrs, st.Link.MoreAddrs)))
	}
	return errors.Join(errs...)
}

// probe asks a PF once what its driver can do, on a VF that is free.
func (r *Reconciler) probe(ctx context.Context, pf vf.PF) error {
	if r.Hardware.Probed(pf.ID) || pf.Err != "" {
		return nil
	}
	for _, v := range pf.VFs {
		ran, err := r.Keeper.WithIdle(ctx, v.ID, func(journal.Record) error {
			return r.Hardware.Probe(ctx, pf, v.ID.Index)
		})
		if ran || err != nil {
			return about(pf, err)
		}
	}
	return nil
}
