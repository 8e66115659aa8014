// Package reconcile makes the host's NICs match host.yaml: PFs up and with their MTU, the right
// number of VFs, each with its stable MAC and the driver that its pool asks for. It writes each
// VF that it made into the ledger, with the baseline that attach resets to.
//
// Plan is pure and shows the changes and the owners who would lose a VF by them. A Reconciler
// applies plans, and looks again whenever an event wakes it.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// PFPlan is the difference between the wanted and the present state of one PF. A plan without
// Changes is done.
type PFPlan struct {
	PF      vf.PF
	Want    desired.PFSpec
	Managed bool // host.yaml has an entry for this PF
	Changes []Change
	// Hurts has the leases that the changes would end (I5).
	Hurts []journal.Record
	// Err says why the plan cannot be applied.
	Err error

	mayWant bool // more may be wanted of the PF than Want (desired.Spec.MayWant)
	leased  bool // a guest has the PF as a whole
}

// Change is one attribute that would change.
type Change struct {
	VF        int // index, or -1 for the PF itself
	Attribute string
	From, To  string
}

const ofPF = -1

func (c Change) String() string {
	s := fmt.Sprintf("%s %s -> %s", c.Attribute, c.From, c.To)
	if c.VF != ofPF {
		s = fmt.Sprintf("vf %d %s", c.VF, s)
	}
	return s
}

// remakesVFs reports whether the plan writes sriov_numvfs: another number of VFs is wanted, or
// single VFs were unplugged, which only that write brings back.
func (p PFPlan) remakesVFs() bool {
	return p.Managed && (p.PF.NumVFs != p.Want.VFs || len(p.PF.VFs) < p.PF.NumVFs)
}

// Refused returns an error that names the owners who would lose a VF by the plan, or nil if there
// are none (I5).
func (p PFPlan) Refused() error {
	if len(p.Hurts) == 0 {
		return nil
	}
	var who []string
	for _, r := range p.Hurts {
		if r.Lease.Owner.Kind == "" && r.Phase != vf.PhaseDamaged {
			who = append(who, fmt.Sprintf("vf %d: %s", r.ID.Index, r.Holder()))
			continue
		}
		who = append(who, fmt.Sprintf("%s has vf %d", r.Holder(), r.ID.Index))
	}
	why := fmt.Sprintf("sriov_numvfs %d -> %d", p.PF.NumVFs, p.Want.VFs)
	if p.PF.NumVFs == p.Want.VFs {
		why = fmt.Sprintf("%d of its %d VFs were unplugged, and making them anew", p.PF.NumVFs-len(p.PF.VFs), p.PF.NumVFs)
	}
	return namePF(p.PF, fmt.Errorf("%s would take VFs from their owners (%s): %w: end them first, or apply with --force", why, strings.Join(who, "; "), vf.ErrHeld))
}

// Plan compares spec with the hardware and the ledger. PFs that need nothing
// have plans without changes, and so have PFs that a guest has as a whole.
func Plan(spec desired.Spec, pfs []vf.PF, records []journal.Record, leases []journal.PFLease) []PFPlan {
	plans := make([]PFPlan, 0, len(pfs))
	for _, pf := range journal.IdentifyPFs(pfs, leases) {
		i := slices.IndexFunc(leases, func(l journal.PFLease) bool { return l.PCI == pf.PCI })
		if i >= 0 {
			plans = append(plans, planLeasedPF(spec, pf, leases[i]))
			continue
		}
		plans = append(plans, planPF(spec, pf, records))
	}
	return plans
}

// planLeasedPF returns the plan for a PF that a guest has as a whole. Culvert touches neither the PF
// nor VFs of it. Err names the guest if host.yaml wants something of the PF.
func planLeasedPF(spec desired.Spec, pf vf.PF, l journal.PFLease) PFPlan {
	p := PFPlan{PF: pf, leased: true, mayWant: spec.MayWant(pf)}
	if p.Want, p.Managed = spec.ForPF(pf); p.Managed {
		p.Err = namePF(pf, l.Refused())
	}
	return p
}

func planPF(spec desired.Spec, pf vf.PF, records []journal.Record) PFPlan {
	p := PFPlan{PF: pf, mayWant: spec.MayWant(pf)}
	p.Want, p.Managed = spec.ForPF(pf)
	if pf.Err != "" {
		if p.Managed || concernsCulvert(spec, pf, records) {
			p.Err = namePF(pf, errors.New(pf.Err))
		}
		return p
	}
	if p.Managed {
		if p.Err = p.Want.Check(pf); p.Err != nil {
			return p
		}
		p.planManaged()
	}
	p.planAddresses()
	if p.remakesVFs() {
		p.Hurts = findHolders(pf, records)
		for i := range p.Want.VFs {
			p.addChange(i, "mac", "none", vf.StableMAC(pf.ID, i).String())
		}
		return p
	}
	for _, v := range pf.VFs {
		p.planVF(spec, v, recordOf(records, v.ID))
	}
	return p
}

// concernsCulvert reports whether a pool or the ledger has a VF of pf. A PF without such VFs may
// be unreadable without being a problem: DPDK has it, it is an InfiniBand port, or its driver is
// missing. Status shows the reason.
func concernsCulvert(spec desired.Spec, pf vf.PF, records []journal.Record) bool {
	for _, v := range pf.VFs {
		if _, pooled := spec.PoolOf(pf, v.ID.Index, v); pooled {
			return true
		}
	}
	return slices.ContainsFunc(records, func(r journal.Record) bool { return r.ID.PF == pf.ID && !pf.ID.IsZero() })
}

// planManaged adds the changes of the PF itself.
func (p *PFPlan) planManaged() {
	if !p.PF.Up {
		p.addChange(ofPF, "state", "down", "up")
	}
	if p.Want.ChangesMTU(p.PF) {
		p.addChange(ofPF, "mtu", fmt.Sprint(p.PF.MTU), fmt.Sprint(p.Want.MTU))
	}
	if p.remakesVFs() {
		p.addChange(ofPF, "sriov_numvfs", fmt.Sprint(p.PF.NumVFs), fmt.Sprint(p.Want.VFs))
	}
	if want := vf.TriOf(p.Want.Autoprobe); p.PF.Autoprobe != vf.Unknown && p.PF.Autoprobe != want {
		p.addChange(ofPF, "autoprobe", p.PF.Autoprobe.String(), want.String())
	}
}

func (p *PFPlan) addChange(index int, attribute, from, to string) {
	p.Changes = append(p.Changes, Change{index, attribute, from, to})
}

// planVF adds the changes of an existing VF: its MAC and its driver. A VF that has an owner
// changes after its release.
func (p *PFPlan) planVF(spec desired.Spec, v vf.State, rec *journal.Record) {
	if rec != nil && (rec.Held() || rec.Phase == vf.PhaseQuarantined) {
		return
	}
	pool, pooled := spec.PoolOf(p.PF, v.ID.Index, v)
	if !p.Managed && !pooled {
		return
	}
	if want := vf.StableMAC(p.PF.ID, v.ID.Index); v.Admin.MAC != want {
		p.addChange(v.ID.Index, "mac", cmp.Or(v.Admin.MAC.String(), "none"), want.String())
	}
	if mtu := spec.MTUOfVF(p.PF, v.ID.Index, v); rec != nil && rec.Phase == vf.PhaseFree && hasOtherMTU(mtu, rec.Baseline) {
		p.addChange(v.ID.Index, "mtu", fmt.Sprint(rec.Baseline.MTU), fmt.Sprint(mtu))
	}
	if want, ok := driverChange(p.Want, pool, pooled, v); ok {
		p.addChange(v.ID.Index, "driver", cmp.Or(v.Driver, "none"), cmp.Or(want, "netdevice"))
	}
}

// driverChange returns the driver that a VF should have, if it has another one. The pool decides
// that, unless it takes VFs as they are bound. In such a pool, and outside all pools, a VF keeps
// its driver. A VF without a driver gets the kernel's choice there, unless autoprobe is false.
func driverChange(want desired.PFSpec, pool desired.Pool, pooled bool, v vf.State) (driver string, change bool) {
	switch {
	case pooled && !pool.AsBound && pool.DriverFor("") == vf.DriverVFIO:
		return vf.DriverVFIO, v.Driver != vf.DriverVFIO
	case pooled && !pool.AsBound:
		return vf.DriverDefault, v.Driver == "" || v.Driver == vf.DriverVFIO
	}
	return vf.DriverDefault, want.Autoprobe && v.Driver == ""
}

// findHolders returns the owners who would lose a VF of pf: those with a lease on a VF that is
// still on the bus, and the users that the kernel shows for VFs outside the ledger.
func findHolders(pf vf.PF, records []journal.Record) []journal.Record {
	var out []journal.Record
	for _, v := range pf.VFs {
		rec := recordOf(records, v.ID)
		switch {
		case rec != nil && rec.Held():
			out = append(out, *rec)
		case rec == nil && DescribePlans(v) != "":
			out = append(out, journal.Record{ID: v.ID, PCI: v.PCI, Phase: vf.PhaseAttached,
				Lease: journal.Lease{Owner: vf.Owner{Name: DescribePlans(v)}}})
		}
	}
	return out
}

// usersOutside returns the VFs that a plan would destroy although a user that the ledger does not
// know has them, in the form of records with leases. It may also return VFs that the ledger shows
// as held.
func (r *Reconciler) usersOutside(ctx context.Context, p PFPlan) ([]journal.Record, error) {
	if !p.remakesVFs() || len(p.PF.VFs) == 0 {
		return nil, nil
	}
	all := make([]vf.PCIAddr, len(p.PF.VFs))
	for i, v := range p.PF.VFs {
		all[i] = v.PCI
	}
	used, err := r.VFs.Outside(ctx, all...)
	if err != nil {
		return nil, fmt.Errorf("culvertd cannot tell whether a VF without a lease is in use, so it does not change the number of VFs: %w", err)
	}
	var out []journal.Record
	for _, v := range p.PF.VFs {
		if use, ok := used[v.PCI]; ok {
			out = append(out, journal.Record{ID: v.ID, PCI: v.PCI, Phase: vf.PhaseAttached, Lease: journal.Lease{Owner: vf.Owner{Name: use.String()}}})
		}
	}
	return out, nil
}

// addOutside adds users outside the ledger to the holders of other VFs.
func addOutside(holders, outside []journal.Record) []journal.Record {
	for _, o := range outside {
		if !slices.ContainsFunc(holders, func(h journal.Record) bool { return h.ID == o.ID }) {
			holders = append(holders, o)
		}
	}
	return holders
}

func recordOf(records []journal.Record, id vf.ID) *journal.Record {
	for i := range records {
		if records[i].ID == id {
			return &records[i]
		}
	}
	return nil
}
