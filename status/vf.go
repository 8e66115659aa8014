package status

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/attach"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// vfsOf returns the VFs of a PF, those that only the ledger knows included.
func (p picture) vfsOf(pf vf.PF) []api.VF {
	var out []api.VF
	for _, st := range pf.VFs {
		out = append(out, p.onBus(pf, st))
	}
	for _, r := range p.Records {
		if _, ok := pf.VF(r.ID.Index); !ok && r.ID.PF == pf.ID {
			out = append(out, p.missing(pf.Label(), r))
		}
	}
	slices.SortFunc(out, func(a, b api.VF) int { return a.Index - b.Index })
	return out
}

// orphans are VFs in the ledger whose PF is not there.
func (p picture) orphans() []api.VF {
	var out []api.VF
	for _, r := range p.Records {
		if !slices.ContainsFunc(p.PFs, func(pf vf.PF) bool { return pf.ID == r.ID.PF }) {
			out = append(out, p.missing(r.ID.PF.String(), r))
		}
	}
	slices.SortFunc(out, func(a, b api.VF) int { return a.ID.Compare(b.ID) })
	return out
}

func name(pf string, index int) string { return pf + "#" + strconv.Itoa(index) }

func (p picture) missing(pf string, r journal.Record) api.VF {
	v := api.VF{
		Name: name(pf, r.ID.Index), ID: r.ID, PF: pf, Index: r.ID.Index, PCI: r.PCI,
		Missing: true, NUMA: -1, IOMMUGroup: -1,
	}
	p.lease(&v, r)
	return v
}

func (p picture) onBus(pf vf.PF, st vf.State) api.VF {
	if seen, ok := p.Seen[st.ID]; ok {
		st.Link = seen.Link
	}
	v := api.VF{
		Name: name(pf.Label(), st.ID.Index), ID: st.ID, PF: pf.Label(), Index: st.ID.Index, PCI: st.PCI,
		Vendor: st.Vendor, Device: st.Device, Driver: st.Driver, NUMA: st.NUMA, IOMMUGroup: st.IOMMUGroup,
		Phase: api.PhaseUnmanaged, MAC: st.Admin.MAC, Settings: vf.DriverOf(pf.Driver).Effective(st.Admin), Link: st.Link,
	}
	if pool, ok := p.Spec.PoolOf(pf, st.ID.Index, st); ok {
		v.Pool = pool.FullName()
	}
	r, known := p.records[st.ID]
	if known {
		p.lease(&v, r)
		v.OpenBy, v.Differences = p.Users[st.PCI], differences(r, st)
	}
	if pod := p.Given[st.PCI]; pod != "" && (!known || r.Phase == journal.Free) {
		v.Phase, v.Owner = api.PhaseGiven, &vf.Owner{Kind: vf.OwnerPod, Name: pod}
		v.Since, v.Differences = time.Time{}, nil // the pod may do with it what it likes
	}
	if st.Link != nil {
		v.Netdevice, v.MAC = st.Link.Name, st.Link.MAC
	}
	return v
}

// lease fills in what the ledger knows.
func (p picture) lease(v *api.VF, r journal.Record) {
	v.Phase, v.Since, v.Generation = string(r.Phase), r.Since, r.Generation
	v.Reason, v.Attempts, v.NextRetry = r.Reason, r.Attempts, r.NextRetry
	if r.Phase != journal.Making && r.Phase != journal.Damaged { // it has none
		v.Baseline = shownBaseline(r)
	}
	if !r.Lease.Owner.IsZero() {
		owner, wanted := r.Lease.Owner, r.Lease.Wanted
		v.Owner, v.Wanted = &owner, &wanted
		v.Network, v.Netns = r.Lease.AddressPoolName(), r.Lease.Netns
		v.Netdevice = wanted.Interface
	}
	if l := r.Lease.Lent; l != nil {
		v.Lent = &api.Lent{MaxTxRate: l.MaxTxRate, Until: l.Until}
	}
	if !r.Lease.LinkMAC.IsZero() {
		v.MAC = r.Lease.LinkMAC
	}
	v.Addresses = addresses(r.Lease.Wanted.Addresses, p.addresses[r.ID])
}

// addresses are those of the lease with their prefixes, and what the ledger
// of addresses holds beyond them.
func addresses(wanted []vf.Address, held []journal.Address) []string {
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

// differences are those of an attached VF to its lease and those of a free or
// quarantined one to its baseline. In between the kernel is being changed, and
// a difference says nothing.
func differences(r journal.Record, st vf.State) []vf.Difference {
	switch r.Phase {
	case journal.Free, journal.Quarantined:
		return r.Baseline.Diff(st)
	case journal.Attached:
		all := attach.LeaseDiff(r, st)
		if st.Link == nil && r.Lease.Netns != "" { // it is where nobody looked
			all = slices.DeleteFunc(all, func(d vf.Difference) bool { return d.Attribute == "interface" })
		}
		return all
	}
	return nil
}
