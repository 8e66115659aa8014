package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/api/nodestate"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

// PlanPolicies returns the changes on a node if the policies next selected it in place of now. It is the
// plan that the node's culvertd would make, as far as a NodeState shows. A NodeState has neither
// host.yaml nor the ledger, so this supposes that PFs and VFs are as the present policies want them, but
// for what the NodeState shows: numbers of VFs, MTUs, owners.
func PlanPolicies(s v1alpha1.NodeState, now, next []desired.Policy) api.Plan {
	shown := FromNodeState(s, time.Time{})
	pfs := guessPFs(s, shown)
	host := guessHost(s, pfs, now)
	is := desired.Merge(desired.Sources{Host: host, Policies: now}, desired.Spec{}, pfs)
	becomes := desired.Merge(desired.Sources{Host: host, Policies: next}, is.Spec, pfs)
	for i := range pfs {
		want, _ := is.Spec.ForPF(pfs[i])
		pfs[i].Addrs, pfs[i].OwnAddrs = want.Addresses, want.Addresses
	}
	records := guessRecords(shown, pfs, is.Spec)
	out := Plan(is.Spec, becomes.Spec, reconcile.Plan(becomes.Spec, pfs, records, nil), records)
	out.Notes = append(out.Notes, noteGuesses(shown, pfs, host, is.Spec, desired.Merge(desired.Sources{Policies: next}, desired.Spec{}, pfs))...)
	for _, c := range becomes.Conflicts {
		out.Notes = append(out.Notes, c.String())
	}
	if slices.ContainsFunc(out.PFs, func(p api.PFPlan) bool { return len(p.Hurts) > 0 }) {
		out.Notes = append(out.Notes, "before the number of VFs changes, culvert-controller cordons the node and evicts the pods with VFs of that PF, one node at a time (controller.drainNodes); the change waits for guests and other owners")
	}
	return out
}

// guessPFs returns the PFs of a NodeState with VFs whose drivers and MAC addresses are those that culvertd
// gives them.
func guessPFs(s v1alpha1.NodeState, shown api.NodeStatus) (out []vf.PF) {
	kinds := map[string]string{}
	for _, p := range shown.Pools {
		kinds[p.Name] = p.DeviceType
	}
	for _, state := range s.Status.PFs {
		pf := nodestate.ToPF(state)
		pf.Up = true
		driver := "netdevice"
		if all := vf.DriverOf(pf.Driver).VFDrivers; len(all) > 0 {
			driver = all[0]
		}
		for _, v := range shown.VFs {
			if v.PF != pf.Name || v.Missing {
				continue
			}
			seen := vf.State{ID: vf.ID{PF: pf.ID, Index: v.Index}, PCI: v.PCI, Vendor: pf.Vendor, Driver: driver, NUMA: pf.NUMA, IOMMUGroup: -1}
			seen.Admin.MAC = vf.StableMAC(pf.ID, v.Index)
			if kinds[v.Pool] == desired.VFIO {
				seen.Driver = vf.DriverVFIO
			}
			pf.VFs = append(pf.VFs, seen)
		}
		out = append(out, pf)
	}
	return out
}

// guessHost returns what host.yaml wants: something is wanted of a PF, and no policy of now wants it.
func guessHost(s v1alpha1.NodeState, pfs []vf.PF, now []desired.Policy) (out desired.Spec) {
	decided := desired.Merge(desired.Sources{Policies: now}, desired.Spec{}, pfs)
	for i, pf := range pfs {
		wanted := s.Status.PFs[i].WantedVFs
		isContested := slices.ContainsFunc(decided.Spec.Contested, func(c desired.Contested) bool { return c.PCI == pf.PCI })
		if _, byPolicy := decided.PFs[pf.PCI]; wanted != nil && !byPolicy && !isContested {
			out.PFs = append(out.PFs, desired.PFRule{PCI: pf.PCI, Want: desired.PFSpec{VFs: int(*wanted), Autoprobe: true, From: "host.yaml of the node"}})
		}
	}
	return out
}

// guessRecords returns the ledger's records of the VFs: those of owners and other users, and free ones.
func guessRecords(shown api.NodeStatus, pfs []vf.PF, is desired.Spec) (out []journal.Record) {
	for _, pf := range pfs {
		for _, seen := range pf.VFs {
			at := slices.IndexFunc(shown.VFs, func(v api.VF) bool { return v.PF == pf.Name && v.Index == seen.ID.Index })
			v := shown.VFs[at]
			r := journal.Record{ID: seen.ID, PCI: seen.PCI, Phase: vf.Phase(v.Phase)}
			switch {
			case v.Owner != nil:
				r.Lease = journal.Lease{Owner: *v.Owner, Network: v.Network, Pool: v.Pool}
			case v.UsedBy != "" || v.Phase == api.PhaseGiven:
				r.Phase, r.Lease.Owner.Name = vf.PhaseAttached, cmp.Or(v.UsedBy, "a pod to which the kubelet gave it")
			case v.Phase == api.PhaseUnmanaged:
				continue
			case r.Phase == vf.PhaseFree:
				r.Baseline.Name, r.Baseline.MTU = "netdevice", cmp.Or(is.MTUOfVF(pf, seen.ID.Index, seen), pf.MTU)
			}
			out = append(out, r)
		}
	}
	return out
}

// noteGuesses returns notes about what a NodeState does not show. wanted is what the policies would want
// without a host.yaml.
func noteGuesses(shown api.NodeStatus, pfs []vf.PF, host, is desired.Spec, wanted desired.Merged) (out []string) {
	for _, r := range host.PFs {
		if _, ok := wanted.PFs[r.PCI]; ok {
			out = append(out, fmt.Sprintf("PF %s: the node's host.yaml has it, which comes before every NodePolicy", r.PCI))
		}
	}
	other := 0
	for _, pf := range pfs {
		for _, seen := range pf.VFs {
			pool, _ := is.PoolOf(pf, seen.ID.Index, seen)
			at := slices.IndexFunc(shown.VFs, func(v api.VF) bool { return v.PF == pf.Name && v.Index == seen.ID.Index })
			if pool.FullName() != shown.VFs[at].Pool {
				other++
			}
		}
	}
	if other > 0 {
		out = append(out, fmt.Sprintf("the present policies do not explain the pools of %d VFs: host.yaml, a device plugin's ConfigMap, or the IDs and drivers of VFs decide there, which a NodeState does not have; culvert status on the node shows its pools", other))
	}
	return out
}
