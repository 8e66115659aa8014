package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// prepareVFs sets the MAC and the driver of each VF of a PF that needs it, and records its
// baseline. These are VFs that were just made, unused VFs that were made outside Culvert, and
// free VFs whose pool now wants another driver. It prepares them in parallel, since most of the
// time goes into waiting for drivers. It returns one result, nil or not, for each VF that needed
// work.
func (r *Reconciler) prepareVFs(ctx context.Context, spec desired.Spec, pf vf.PF) []error {
	records, err := r.readRecords()
	if err != nil {
		return []error{err}
	}
	used, unknown := r.findNewcomers(ctx, pf, records)
	var tasks []func() error
	for _, v := range pf.VFs {
		rec := recordOf(records, v.ID)
		if !isWanted(spec, pf, v) || isNewcomer(rec) && used[v.PCI].Pod != "" {
			continue // an earlier device plugin gave it to a pod, which keeps it; status names the pod
		}
		if isNewcomer(rec) {
			if err := refuseNewcomer(used, unknown, v); err != nil {
				tasks = append(tasks, func() error { return aboutVF(v, err) })
				continue
			}
		}
		if task := r.nextTask(ctx, spec, pf, v, rec); task != nil {
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

// isWanted reports whether Culvert manages a VF: host.yaml has its PF, or a pool has the VF.
func isWanted(spec desired.Spec, pf vf.PF, v vf.State) bool {
	if pf.Err != "" {
		return false
	}
	_, managed := spec.ForPF(pf)
	_, pooled := spec.PoolOf(pf, v.ID.Index, v)
	return managed || pooled
}

// nextTask returns the work that a VF needs. It returns nil if the VF has an owner or needs none.
func (r *Reconciler) nextTask(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State, rec *journal.Record) func() error {
	switch {
	case isNewcomer(rec):
		return func() error { return r.takeOver(ctx, spec, pf, v) }
	case rec.Phase == vf.PhaseMaking:
		return func() error { return r.finishVF(ctx, spec, pf, v, *rec) }
	case rec.Phase == vf.PhaseFree && (changesBaseline(r.prepareSteps(spec, pf, v), rec.Baseline) || isReboundOutside(spec, pf, v, rec.Baseline)):
		return func() error { return r.replaceBaseline(ctx, spec, pf, v) }
	case rec.Phase == vf.PhaseFree:
		if mtu := spec.MTUOfVF(pf, v.ID.Index, v); hasOtherMTU(mtu, rec.Baseline) {
			return func() error { return r.resizeMTU(ctx, v, mtu) }
		}
	}
	return nil
}

// isReboundOutside reports whether an administrator bound a free VF to vfio-pci or unbound it
// from that, in a pool that takes VFs as they are bound. The new binding then becomes part of the
// VF's baseline.
func isReboundOutside(spec desired.Spec, pf vf.PF, v vf.State, b vf.Baseline) bool {
	pool, _ := spec.PoolOf(pf, v.ID.Index, v)
	return pool.AsBound && v.Driver != "" && (v.Driver == vf.DriverVFIO) != (b.Driver == vf.DriverVFIO)
}

// replaceBaseline takes a free VF back to Making and records a new baseline, unless the VF gets
// an owner first.
func (r *Reconciler) replaceBaseline(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State) error {
	_, err := r.VFs.WithIdle(ctx, v.ID, func(seen journal.Record) error {
		making, ok, err := r.backToMaking(seen)
		if err != nil || !ok {
			return err
		}
		return r.finishVF(ctx, spec, pf, v, making)
	})
	return err
}

// backToMaking writes that a free VF is Making. ok is false if the VF has changed since it was
// seen.
func (r *Reconciler) backToMaking(seen journal.Record) (making journal.Record, ok bool, err error) {
	err = r.Ledger.Update(func(tx *journal.Tx) error {
		now, err := tx.Record(seen.ID)
		if err != nil || now.Phase != vf.PhaseFree || now.Generation != seen.Generation {
			return err
		}
		now.Phase = vf.PhaseMaking
		now.Generation++
		making, ok = now, true
		return tx.Put(now)
	})
	return making, ok, err
}

// changesBaseline reports whether the steps lead to a new baseline, as for a VF whose pool wants
// another driver. Otherwise the VF changed outside Culvert, and Tend takes it back to the old
// baseline.
func changesBaseline(steps []step.Step, b vf.Baseline) bool {
	for _, s := range steps {
		if bind, ok := s.(step.Bind); ok {
			return (bind.Driver == vf.DriverVFIO) != (b.Driver == vf.DriverVFIO) || b.Driver == ""
		}
	}
	return false
}

// prepareSteps returns the steps that give a VF its MAC and driver. The MAC comes first, since a
// VF driver reads it when it binds (lab-facts, trap 4).
func (r *Reconciler) prepareSteps(spec desired.Spec, pf vf.PF, v vf.State) []step.Step {
	want, _ := spec.ForPF(pf)
	pool, pooled := spec.PoolOf(pf, v.ID.Index, v)
	driver, rebind := driverChange(want, pool, pooled, v)
	mac := vf.StableMAC(pf.ID, v.ID.Index)
	// A driver that bound before the MAC was set made up a MAC and keeps it.
	newMAC := v.Admin.MAC != mac || v.Link != nil && v.Link.MAC != mac
	if !rebind && v.Driver == vf.DriverVFIO { // the process that opens the VF reads its MAC then
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

// finishVF carries out the steps that prepare a VF, reads the VF back, and records its baseline.
// Until then the VF is Making, and no request gets it. finishVF first removes the settings that the
// VF had before Culvert took it over, since they must not become its baseline.
//
// A call that an earlier VF at the same address left stuck in the kernel may yet move this one, so the
// VF stays Making until the call has returned.
func (r *Reconciler) finishVF(ctx context.Context, spec desired.Spec, pf vf.PF, v vf.State, rec journal.Record) error {
	rec.PCI = v.PCI
	if err := r.VFs.FindCallFor(pf, rec); err != nil {
		return err
	}
	fresh, err := r.freshAdmin(pf, v)
	if err != nil {
		return err
	}
	if len(step.AdminChanges(pf.PCI, v.ID.Index, v.Admin, fresh)) > 0 {
		if v.Can, err = r.Hardware.Probe(ctx, pf, v.ID.Index); err != nil {
			return err
		}
	}
	fresh = v.Settle(fresh)
	steps := append(step.AdminChanges(pf.PCI, v.ID.Index, v.Admin, fresh), withRebind(v, r.prepareSteps(spec, pf, v))...)
	for _, s := range steps {
		if err := r.doStep(ctx, bindBound, s); err != nil {
			return err
		}
	}
	st, err := r.Kernel.VF(ctx, v.PCI, "")
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	st.Can = v.Can
	if left := step.AdminChanges(pf.PCI, v.ID.Index, st.Admin, st.Settle(fresh)); len(left) > 0 {
		return fmt.Errorf("all steps were done, and these are still necessary: %s", excerpt.Join(left))
	}
	if err := r.checkPrepared(spec, pf, st); err != nil {
		return err
	}
	rec.Phase, rec.Baseline = vf.PhaseFree, vf.BaselineOf(st)
	if mtu := spec.MTUOfVF(pf, v.ID.Index, st); hasOtherMTU(mtu, rec.Baseline) {
		// A VF whose driver refuses the MTU can still be given out. Status reports the problem.
		if err = r.setMTU(ctx, v, mtu); err == nil {
			rec.Baseline.MTU = mtu
		}
	}
	return errors.Join(err, r.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) }))
}

// freshAdmin returns the PF's settings for a new VF, as far as they are known. Drivers differ,
// for example, in whether spoof check is on at first. The driver may lack a call that brings a VF to
// these settings.
func (r *Reconciler) freshAdmin(pf vf.PF, v vf.State) (a vf.Admin, err error) {
	known := false
	if vf.DriverOf(pf.Driver).KeepsSettings {
		return noSettings(v), nil
	}
	err = r.Ledger.View(func(tx *journal.Tx) error {
		a, known = tx.Fresh(pf.ID)
		return nil
	})
	if known || err != nil {
		return a, err
	}
	return noSettings(v), nil
}

// noSettings returns the settings of a VF that no owner has configured. freshAdmin uses them
// where no new VF shows its own.
func noSettings(v vf.State) vf.Admin {
	a := vf.Admin{SpoofChk: v.Admin.SpoofChk, RSSQuery: v.Admin.RSSQuery}
	if v.Admin.Trust != vf.Unknown {
		a.Trust = vf.No
	}
	return a
}

// rememberFresh records the PF's settings for VFs that were just made, for freshAdmin.
func (r *Reconciler) rememberFresh(pf vf.PF) error {
	if len(pf.VFs) == 0 || pf.Err != "" {
		return nil
	}
	return r.Ledger.Update(func(tx *journal.Tx) error { return tx.SetFresh(pf.ID, pf.VFs[0].Admin) })
}

// checkPrepared returns an error if a VF that was just prepared is not in the wanted state. That
// state must not become its baseline.
func (r *Reconciler) checkPrepared(spec desired.Spec, pf vf.PF, st vf.State) error {
	var errs []error
	mac := vf.StableMAC(pf.ID, st.ID.Index)
	if st.Admin.MAC != mac {
		errs = append(errs, fmt.Errorf("admin mac is %s after %s was set", cmp.Or(st.Admin.MAC.String(), "none"), mac))
	}
	if st.Link == nil && st.Driver != "" && st.Driver != vf.DriverVFIO {
		errs = append(errs, fmt.Errorf("driver %s has made no interface yet", st.Driver))
	}
	if st.Link != nil && st.Link.MAC != mac {
		errs = append(errs, fmt.Errorf("the interface has mac %s, the PF set %s: %s", st.Link.MAC, mac, vf.DescribeUnanswered()))
	}
	if left := r.prepareSteps(spec, pf, st); len(left) > 0 && errs == nil {
		errs = append(errs, fmt.Errorf("all steps were done, and these are still necessary: %s", excerpt.Join(left)))
	}
	if st.Link != nil && (st.Link.Up || len(st.Link.Addrs) > 0) {
		errs = append(errs, fmt.Errorf("interface %s is in use already (up %t, addresses %s): keep other managers off it", st.Link.Name, st.Link.Up, excerpt.List(st.Link.Addrs, st.Link.MoreAddrs)))
	}
	return errors.Join(errs...)
}

// probePF asks the driver of a PF once for its abilities, by means of a free VF.
func (r *Reconciler) probePF(ctx context.Context, pf vf.PF) error {
	if r.Hardware.Probed(pf.ID) || pf.Err != "" {
		return nil
	}
	for _, v := range pf.VFs {
		ran, err := r.VFs.WithIdle(ctx, v.ID, func(journal.Record) error {
			_, err := r.Hardware.Probe(ctx, pf, v.ID.Index)
			return err
		})
		if ran || err != nil {
			return namePF(pf, err)
		}
	}
	return nil
}
