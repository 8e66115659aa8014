package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

// Plan returns the changes that next would make in place of now: those in the kernel, which
// reconcile planned, and those of pools, of which the kernel has none. records are the ledger's,
// for the names of holders.
func Plan(now, next desired.Spec, plans []reconcile.PFPlan, records []journal.Record) api.Plan {
	out := api.Plan{PFs: []api.PFPlan{}}
	plans = slices.SortedFunc(slices.Values(plans), func(a, b reconcile.PFPlan) int { return a.PF.PCI.Compare(b.PF.PCI) })
	var pfs []vf.PF
	for _, p := range plans {
		pfs = append(pfs, p.PF)
		if c := planPF(now, next, p, records); len(c.Changes)+len(c.Hurts) > 0 || c.Refused != "" {
			out.PFs = append(out.PFs, c)
		}
	}
	out.Notes = append(planNotes(now, next, pfs, plans), offerNotes(now, next, records)...)
	return out
}

// planNotes returns notes about entries that do nothing and pools that disappear.
func planNotes(now, next desired.Spec, pfs []vf.PF, plans []reconcile.PFPlan) []string {
	var out []string
	for _, r := range next.Unmatched(pfs) {
		out = append(out, fmt.Sprintf("%s: no PF matches %s; there are %s", r.Want.From, r, desired.JoinLabels(pfs)))
	}
	members := map[string]int{}
	for _, p := range plans {
		if p.PF.Err != "" {
			out = append(out, fmt.Sprintf("PF %s is left as it is, since it cannot be read: %s", p.PF.Label(), p.PF.Err))
		}
		if reason, next, ok := p.Want.OtherMTU(p.PF); ok && p.Managed {
			out = append(out, fmt.Sprintf("PF %s: %s: %s", p.PF.Label(), reason, next))
		}
		for _, v := range vfsAfter(p) {
			pool, _ := next.PoolOf(p.PF, v.ID.Index, v)
			members[pool.FullName()]++
		}
	}
	for _, pool := range next.Pools {
		if members[pool.FullName()] == 0 {
			out = append(out, fmt.Sprintf("%s: no VF would be in pool %s", pool.From, pool.FullName()))
		}
		if why := next.ForecastMixedSegments(pool.FullName(), pfs); why != "" {
			out = append(out, fmt.Sprintf("%s: pool %s would give out no VF: %s: %s", pool.From, pool.FullName(), why, desired.MixedNext))
		}
	}
	for _, pool := range now.Pools {
		if _, err := next.Pool(pool.FullName()); err != nil {
			out = append(out, fmt.Sprintf("pool %s goes", pool.FullName()))
		}
	}
	return out
}

// vfsAfter returns the VFs that a PF has once the plan is carried out, as far as
// they are known.
func vfsAfter(p reconcile.PFPlan) []vf.State {
	if !p.Managed || p.Err != nil || p.Want.VFs == p.PF.NumVFs {
		return p.PF.VFs
	}
	var out []vf.State
	for i := range p.Want.VFs {
		v, _ := p.PF.VF(i)
		v.ID = vf.ID{PF: p.PF.ID, Index: i}
		out = append(out, v)
	}
	return out
}

func planPF(now, next desired.Spec, p reconcile.PFPlan, records []journal.Record) api.PFPlan {
	out := api.PFPlan{PF: p.PF.Label(), PCI: p.PF.PCI, Changes: []api.Change{}}
	if p.PF.Err != "" {
		return out // culvertd leaves it as it is, and a note says so: it must not hold up the others (I7)
	}
	if p.Err != nil {
		_, out.Refused = vf.SplitObject(p.Err)
		return out
	}
	owners := map[int]vf.Owner{}
	for _, r := range records {
		if r.ID.PF == p.PF.ID && r.Held() {
			owners[r.ID.Index] = holderOf(r)
		}
	}
	for _, r := range p.Hurts {
		out.Hurts = append(out.Hurts, api.Holder{
			VF: vfName(p.PF.Label(), r.ID.Index), Owner: holderOf(r), Network: r.Lease.Network, Phase: string(r.Phase),
		})
	}
	for _, c := range p.Changes {
		if c.VF < 0 {
			out.Changes = append(out.Changes, api.Change{Op: api.Modify, Attribute: c.Attribute, From: c.From, To: c.To})
		}
	}
	if from, to := now.SegmentOf(p.PF), next.SegmentOf(p.PF); from != to {
		out.Changes = append(out.Changes, api.Change{Op: api.Modify, Attribute: "segment", From: cmp.Or(string(from), "none"), To: cmp.Or(string(to), "none")})
	}
	if p.Managed && p.Want.VFs != p.PF.NumVFs {
		out.Changes = append(out.Changes, remadeChanges(next, p, owners)...)
		return out
	}
	out.Changes = append(out.Changes, keptChanges(now, next, p, owners)...)
	return out
}

// holderOf returns the owner who would lose the VF; an unknown owner if the record is damaged.
func holderOf(r journal.Record) vf.Owner {
	if r.Phase == vf.PhaseDamaged {
		return vf.Owner{Kind: "unknown owner (damaged record)"}
	}
	return r.Lease.Owner
}

func objectName(index int) string { return "VF " + strconv.Itoa(index) }

func heldBy(owners map[int]vf.Owner, index int) string {
	if w, ok := owners[index]; ok {
		return "held by " + w.String()
	}
	return ""
}

// remadeChanges returns the removal of all VFs of a PF and the addition of the new ones: the kernel
// removes all VFs of a PF before it makes another number.
func remadeChanges(next desired.Spec, p reconcile.PFPlan, owners map[int]vf.Owner) []api.Change {
	var out []api.Change
	for _, v := range p.PF.VFs {
		out = append(out, api.Change{
			Op: api.Remove, Object: objectName(v.ID.Index), From: v.PCI.String(), Note: heldBy(owners, v.ID.Index),
		})
	}
	for _, v := range vfsAfter(p) {
		i, note := v.ID.Index, "in no pool"
		if pool, ok := next.PoolOf(p.PF, i, v); ok {
			note = "pool " + pool.FullName()
		}
		out = append(out, api.Change{Op: api.Add, Object: objectName(i), To: vf.StableMAC(p.PF.ID, i).String(), Note: note})
	}
	return out
}

// keptChanges returns the changes of VFs that stay: those that reconcile planned, and changes of
// their pools.
func keptChanges(now, next desired.Spec, p reconcile.PFPlan, owners map[int]vf.Owner) []api.Change {
	var out []api.Change
	for _, v := range p.PF.VFs {
		i := v.ID.Index
		was, _ := now.PoolOf(p.PF, i, v)
		is, _ := next.PoolOf(p.PF, i, v)
		if from, to := was.FullName(), is.FullName(); from != to {
			out = append(out, api.Change{Op: api.Modify, Object: objectName(i), Attribute: "pool", From: cmp.Or(from, "none"), To: cmp.Or(to, "none"), Note: heldBy(owners, i)})
		}
		for _, c := range p.Changes {
			if c.VF == i {
				out = append(out, api.Change{Op: api.Modify, Object: objectName(i), Attribute: c.Attribute, From: c.From, To: c.To})
			}
		}
		if _, held := owners[i]; held && was.DriverFor(v.Driver) != is.DriverFor(v.Driver) {
			to := is.KindOf(v)
			if to == "" {
				to = desired.NetDevice
			}
			out = append(out, api.Change{
				Op: api.Modify, Object: objectName(i), Attribute: "driver", From: cmp.Or(v.Driver, "none"), To: to, Note: "once it is given back",
			})
		}
	}
	return out
}
