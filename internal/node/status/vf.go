package status

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

// vfsOf returns the VFs of a PF, also those that only the ledger has.
func (p picture) vfsOf(pf vf.PF) []api.VF {
	var out []api.VF
	for _, st := range pf.VFs {
		out = append(out, p.onBus(pf, st))
	}
	for _, r := range p.Records {
		if _, ok := pf.VF(r.ID.Index); !ok && r.ID.PF == pf.ID {
			out = append(out, p.unlistedVF(pf.Label(), r))
		}
	}
	slices.SortFunc(out, func(a, b api.VF) int { return a.Index - b.Index })
	return out
}

// findOrphans returns VFs in the ledger whose PF is not there.
func (p picture) findOrphans() []api.VF {
	var out []api.VF
	for _, r := range p.Records {
		if !slices.ContainsFunc(p.PFs, func(pf vf.PF) bool { return pf.ID == r.ID.PF }) {
			out = append(out, p.unlistedVF(r.ID.PF.String(), r))
		}
	}
	slices.SortFunc(out, func(a, b api.VF) int { return a.ID.Compare(b.ID) })
	return out
}

func vfName(pf string, index int) string { return pf + "#" + strconv.Itoa(index) }

// unlistedVF returns a VF that only the ledger has: it is missing, or its PF could not be read.
func (p picture) unlistedVF(pf string, r journal.Record) api.VF {
	unread := p.isUnread(r.ID.PF)
	v := api.VF{
		Name: vfName(pf, r.ID.Index), ID: r.ID, PF: pf, Index: r.ID.Index, PCI: r.PCI,
		Missing: !unread, Unread: unread, NUMA: -1, IOMMUGroup: -1,
	}
	if unread {
		v.Pool = r.Lease.Pool
	}
	p.fillLease(&v, r)
	return v
}

// isUnread reports whether the listing may lack VFs of a PF because parts of it could not be read.
// A listed PF whose identity is unknown may be any PF that is not listed.
func (p picture) isUnread(id vf.PFID) bool {
	listed, unknown := false, false
	for _, pf := range p.PFs {
		if pf.ID == id {
			if pf.Err != "" {
				return true
			}
			listed = true
		}
		unknown = unknown || pf.ID.IsZero() && pf.Err != ""
	}
	return !listed && unknown
}

func (p picture) onBus(pf vf.PF, st vf.State) api.VF {
	seen, isSeen := p.Seen[st.ID]
	if isSeen {
		st.Link = seen.Link
	}
	v := api.VF{
		Name: vfName(pf.Label(), st.ID.Index), ID: st.ID, PF: pf.Label(), Index: st.ID.Index, PCI: st.PCI,
		Vendor: st.Vendor, Device: st.Device, Driver: st.Driver, NUMA: st.NUMA, IOMMUGroup: st.IOMMUGroup,
		Phase: api.PhaseUnmanaged, MAC: st.Admin.MAC, Settings: vf.DriverOf(pf.Driver).Effective(st.Admin), Link: st.Link,
	}
	if st.RDMA != nil {
		v.RDMA = st.RDMA.Device
	}
	if pool, ok := p.Spec.PoolOf(pf, st.ID.Index, st); ok {
		v.Pool = pool.FullName()
	}
	r, known := p.records[st.ID]
	if known {
		p.fillLease(&v, r)
		v.OpenBy, v.MoreOpenBy = firstOf(p.Users[st.PCI])
		v.Guard = guardOf(r, st)
		if !isSeen {
			seen = See(r, st)
		}
		if !p.Changed[st.ID] && pf.Err == "" { // else parts of st were not read
			v.Differences, v.MoreDifferences = seen.Differences, seen.More
		}
	}
	if pod := p.Given[st.PCI]; pod != "" && (!known || r.Phase == vf.PhaseFree) {
		v.Phase, v.Owner = api.PhaseGiven, &vf.Owner{Kind: vf.OwnerPod, Name: pod}
		v.Since, v.Differences, v.MoreDifferences = time.Time{}, nil, 0 // the pod may change it as it likes
	}
	if st.Link != nil {
		v.Netdevice, v.MAC = st.Link.Name, st.Link.MAC
	}
	if v.UsedBy = p.findUser(pf, st); v.UsedBy != "" && v.Phase == string(vf.PhaseFree) {
		v.Phase, v.Since, v.Differences, v.MoreDifferences = api.PhaseOutside, time.Time{}, nil, 0 // the user may change it as it likes
	}
	v.NoCarrier = p.Dark[st.ID] && r.Phase == vf.PhaseAttached
	v.Rates = ratesOf(v, st.Admin)
	return v
}

// findUser describes the use of a VF without an owner outside Culvert. It returns "" if there is
// none.
func (p picture) findUser(pf vf.PF, st vf.State) string {
	r, known := p.records[st.ID]
	if !r.OwnerOrClaim().IsZero() || p.Given[st.PCI] != "" || p.GivenUnknown { // else a pod would count as a user outside Culvert
		return ""
	}
	if use, used := p.Uses[st.PCI]; used {
		return use.String()
	}
	if want, ok := p.Spec.ForPF(pf); ok && want.VFs != pf.NumVFs && !known {
		return reconcile.DescribePlans(st)
	}
	return ""
}

// fillLease fills in the fields that the ledger has.
func (p picture) fillLease(v *api.VF, r journal.Record) {
	v.Phase, v.Since, v.Generation = string(r.Phase), r.Since, r.Generation
	v.Readback = r.Readback
	v.Reason, v.Attempts, v.NextRetry = r.Reason, r.Attempts, r.NextRetry
	if r.Phase != vf.PhaseMaking && r.Phase != vf.PhaseDamaged { // then it has a baseline
		v.Baseline = shownBaseline(r)
	}
	if !r.Lease.Owner.IsZero() {
		owner, wanted := r.Lease.Owner, r.Lease.Wanted
		v.Owner, v.Wanted = &owner, &wanted
		v.Network, v.Netns, v.Bond = r.Lease.AddressPoolName(), r.Lease.Netns, r.Lease.Bond
		if v1alpha1.IsDeclaredPool(v.Network) { // which several networks may name
			v.Network = r.Lease.Network
		}
		v.Netdevice = wanted.Interface
	}
	if c := r.Claim; c != nil {
		v.Claim = shownClaim(*c)
		if v.Owner == nil {
			owner := c.Owner()
			v.Owner = &owner
		}
	}
	if l := r.Lease.Lent; l != nil {
		v.Lent = &api.Lent{MaxTxRate: l.MaxTxRate, Until: l.Until}
	}
	if !r.Lease.LinkMAC.IsZero() {
		v.MAC = r.Lease.LinkMAC
	}
	v.Addresses = mergeAddresses(r.Lease.Wanted.Addresses, p.addresses[r.ID])
}

// ratesOf returns the rates of a VF that has a limit, or whose owner asked for one.
func ratesOf(v api.VF, accepted vf.Admin) []api.Rate {
	var asked vf.Spec
	if v.Wanted != nil {
		asked = *v.Wanted
	}
	var out []api.Rate
	for _, r := range []api.Rate{
		{Setting: vf.SetMinTxRate, Asked: asked.MinTxRate, Accepted: accepted.MinTxRate, Effective: v.Settings.MinTxRate},
		{Setting: vf.SetMaxTxRate, Asked: asked.MaxTxRate, Accepted: accepted.MaxTxRate, Effective: v.Settings.MaxTxRate},
	} {
		if r.Asked != nil || r.Accepted != 0 || r.Effective != 0 {
			out = append(out, r)
		}
	}
	return out
}

// guardOf returns the guard of an attached VF and how far it holds; nil for a lease without one.
func guardOf(r journal.Record, st vf.State) *api.Guard {
	w := r.Lease.Wanted
	if w.Guard == "" || r.Phase != vf.PhaseAttached {
		return nil
	}
	g := &api.Guard{Mode: w.Guard, Allow: w.GuardAllow, Degree: vf.GuardNot}
	switch {
	case st.Link == nil || st.Link.Guard == nil:
		g.Reason = "culvertd cannot read it in the pod's network namespace"
	case len(w.GuardDiff(r.Baseline, *st.Link)) > 0:
		g.Reason = "its rules are missing or altered; culvertd sets them again where the pool's drift is mend"
	default:
		g.Degree, g.Reason = vf.GuardDegree(r.Lease.Power, st.RDMA != nil)
	}
	return g
}

// mergeAddresses returns the addresses of the lease with their prefixes, and further addresses of
// the VF in the ledger of addresses.
func mergeAddresses(wanted []vf.Address, held []journal.Address) []string {
	var out []string
	var known []netip.Addr
	for _, a := range wanted {
		out = append(out, a.Prefix.String())
		known = append(known, a.Prefix.Addr())
	}
	for _, h := range held {
		if !slices.Contains(known, h.Addr) {
			out = append(out, h.Addr.String())
		}
	}
	return out
}

// shownClaim returns the claim of a VF without its configuration, which may have 10 KiB.
func shownClaim(c journal.Claim) *api.Claim {
	out := &api.Claim{Name: c.Namespace + "/" + c.Name, UID: c.UID, Request: c.Request, Since: c.Since}
	for _, p := range c.Pods {
		out.Pods = append(out.Pods, c.Namespace+"/"+p.Name)
	}
	return out
}
