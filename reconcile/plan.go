// Package reconcile makes the host's NICs what host.yaml wants: PFs up and
// with their MTU, the right number of VFs, each with its stable MAC and the
// driver that its pool asks for. What it made it writes into the ledger, with
// the baseline that attach resets to.
//
// Plan is pure and shows what would change and whom it would hurt; a
// Reconciler carries plans out, and goes on looking, woken by events.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// PFPlan is the difference between what is wanted of one PF and what is there.
// A plan without Changes is done.
type PFPlan struct {
	PF      vf.PF
	Want    desired.PFSpec
	Managed bool // host.yaml has an entry for this PF
	Changes []Change
	// Hurts are the leases that the changes would end (I5).
	Hurts []journal.Record
	// Err is why nothing of the plan can be carried out.
	Err error
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

// remakes reports whether the plan writes sriov_numvfs: the count is another,
// or VFs were unplugged one by one, which do not come back in another way.
func (p PFPlan) remakes() bool {
	return p.Managed && (p.PF.NumVFs != p.Want.VFs || len(p.PF.VFs) < p.PF.NumVFs)
}

// Refused says whom the plan would hurt, and is nil when nobody (I5).
func (p PFPlan) Refused() error {
	if len(p.Hurts) == 0 {
		return nil
	}
	var who []string
	for _, r := range p.Hurts {
		if r.Lease.Owner.Kind == "" && r.Phase != journal.Damaged {
			who = append(who, fmt.Sprintf("vf %d: %s", r.ID.Index, r.Holder()))
			continue
		}
		who = append(who, fmt.Sprintf("%s has vf %d", r.Holder(), r.ID.Index))
	}
	why := fmt.Sprintf("sriov_numvfs %d -> %d", p.PF.NumVFs, p.Want.VFs)
	if p.PF.NumVFs == p.Want.VFs {
		why = fmt.Sprintf("%d of its %d VFs were unplugged, and making them anew", p.PF.NumVFs-len(p.PF.VFs), p.PF.NumVFs)
	}
	return about(p.PF, fmt.Errorf("%s would take VFs from their owners (%s): %w: end them first, or apply with --force", why, strings.Join(who, "; "), vf.ErrHeld))
}

// Plan compares spec with the hardware and the ledger. PFs that need nothing
// have plans without changes.
func Plan(spec desired.Spec, pfs []vf.PF, records []journal.Record) []PFPlan {
	plans := make([]PFPlan, 0, len(pfs))
	for _, pf := range pfs {
		plans = append(plans, planPF(spec, pf, records))
	}
	return plans
}

func planPF(spec desired.Spec, pf vf.PF, records []journal.Record) PFPlan {
	p := PFPlan{PF: pf}
	p.Want, p.Managed = spec.ForPF(pf)
	if pf.Err != "" {
		if p.Managed || concerns(spec, pf, records) {
			p.Err = about(pf, errors.New(pf.Err))
		}
		return p
	}
	if p.Managed {
		if p.Err = p.Want.Check(pf); p.Err != nil {
			return p
		}
		p.managed()
	}
	p.addresses()
	if p.remakes() {
		p.Hurts = holders(pf, records)
		for i := range p.Want.VFs {
			p.add(i, "mac", "none", vf.StableMAC(pf.ID, i).String())
		}
		return p
	}
	for _, v := range pf.VFs {
		p.vf(spec, v, recordOf(records, v.ID))
	}
	return p
}

// concerns reports whether a pool or the ledger has a VF of pf. Nothing is amiss
// with a PF that nobody speaks of and that cannot be read: one that DPDK has, an
// InfiniBand port, a NIC without its driver. Status shows the reason.
func concerns(spec desired.Spec, pf vf.PF, records []journal.Record) bool {
	for _, v := range pf.VFs {
		if _, pooled := spec.PoolOf(pf, v.ID.Index, v); pooled {
			return true
		}
	}
	return slices.ContainsFunc(records, func(r journal.Record) bool { return r.ID.PF == pf.ID && !pf.ID.IsZero() })
}

// managed adds what changes of the PF itself.
func (p *PFPlan) managed() {
	if !p.PF.Up {
		p.add(ofPF, "state", "down", "up")
	}
	if p.Want.MTU != 0 && p.Want.MTU != p.PF.MTU {
		p.add(ofPF, "mtu", fmt.Sprint(p.PF.MTU), fmt.Sprint(p.Want.MTU))
	}
	if p.remakes() {
		p.add(ofPF, "sriov_numvfs", fmt.Sprint(p.PF.NumVFs), fmt.Sprint(p.Want.VFs))
	}
	if want := vf.TriOf(p.Want.Autoprobe); p.PF.Autoprobe != vf.Unknown && p.PF.Autoprobe != want {
		p.add(ofPF, "autoprobe", p.PF.Autoprobe.String(), want.String())
	}
}

func (p *PFPlan) add(index int, attribute, from, to string) {
	p.Changes = append(p.Changes, Change{index, attribute, from, to})
}

// vf adds what changes of a VF that is there: its MAC and its driver. A VF
// that somebody holds changes after it has been given back.
func (p *PFPlan) vf(spec desired.Spec, v vf.State, rec *journal.Record) {
	if rec != nil && (rec.Held() || rec.Phase == journal.Quarantined) {
		return
	}
	pool, pooled := spec.PoolOf(p.PF, v.ID.Index, v)
	if !p.Managed && !pooled {
		return
	}
	if want := vf.StableMAC(p.PF.ID, v.ID.Index); v.Admin.MAC != want {
		p.add(v.ID.Index, "mac", cmp.Or(v.Admin.MAC.String(), "none"), want.String())
	}
	if p.Managed && rec != nil && rec.Phase == journal.Free && hasOtherMTU(p.Want, rec.Baseline) {
		p.add(v.ID.Index, "mtu", fmt.Sprint(rec.Baseline.MTU), fmt.Sprint(p.Want.MTU))
	}
	if want, ok := driverChange(p.Want, pool, pooled, v); ok {
		p.add(v.ID.Index, "driver", cmp.Or(v.Driver, "none"), cmp.Or(want, "netdevice"))
	}
}

// driverChange says which driver a VF should have, if not the one it has. The
// pool decides, unless it takes VFs as they are bound; otherwise and outside all
// pools the driver is the kernel's affair, and one that was kept off
// (autoprobe: false) stays off.
func driverChange(want desired.PFSpec, pool desired.Pool, pooled bool, v vf.State) (driver string, change bool) {
	switch {
	case pooled && !pool.AsBound && pool.DriverFor("") == vf.DriverVFIO:
		return vf.DriverVFIO, v.Driver != vf.DriverVFIO
	case pooled && !pool.AsBound:
		return vf.DriverDefault, v.Driver == "" || v.Driver == vf.DriverVFIO
	}
	return vf.DriverDefault, want.Autoprobe && v.Driver == ""
}

// holders are who would lose a VF of pf: the leases on VFs that are really there
// (one on a VF that has gone from the bus holds nothing any more), and whoever
// the kernel shows to use a VF that the ledger does not tell of.
func holders(pf vf.PF, records []journal.Record) []journal.Record {
	var out []journal.Record
	for _, v := range pf.VFs {
		rec := recordOf(records, v.ID)
		switch {
		case rec != nil && rec.Held():
			out = append(out, *rec)
		case rec == nil && strangers(v) != "":
			out = append(out, journal.Record{ID: v.ID, PCI: v.PCI, Phase: journal.Attached,
				Lease: journal.Lease{Owner: vf.Owner{Name: strangers(v)}}})
		}
	}
	return out
}

// usersOutside returns the VFs that a plan would destroy although they are used outside
// the ledger, in the form of leases. It may return VFs that the ledger shows as held.
func (r *Reconciler) usersOutside(ctx context.Context, p PFPlan) ([]journal.Record, error) {
	if !p.remakes() || len(p.PF.VFs) == 0 {
		return nil, nil
	}
	all := make([]vf.PCIAddr, len(p.PF.VFs))
	for i, v := range p.PF.VFs {
		all[i] = v.PCI
	}
	used, err := r.Keeper.Outside(ctx, all...)
	if err != nil {
		return nil, fmt.Errorf("whether a VF is used outside the ledger is not known, so their number stays: %w", err)
	}
	var out []journal.Record
	for _, v := range p.PF.VFs {
		if use, ok := used[v.PCI]; ok {
			out = append(out, journal.Record{ID: v.ID, PCI: v.PCI, Phase: journal.Attached, Lease: journal.Lease{Owner: vf.Owner{Name: use.String()}}})
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
