package deviceplugin

import (
	"cmp"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/vf"
)

// viewClaims returns the VFs of pools with offer: claims and those that claims hold. devices are the
// judged ones of all pools. A VF that the kubelet gave to a pod, or is giving, is not free for claims.
// waits is whether only that keeps a VF from them: its pod may end without an event that culvertd sees.
func (h host) viewClaims(devices map[string][]device, isGiven func(vf.PCIAddr) bool) (out offer.View, waits bool) {
	free := map[vf.PCIAddr]bool{}
	for _, all := range devices {
		for _, d := range all {
			free[d.pci] = d.freeApartFromLink
		}
	}
	claimed := map[vf.ID]journal.Record{}
	for _, r := range h.records {
		if r.Claim != nil {
			claimed[r.ID] = r
		}
	}
	out.Spec = h.spec
	for _, pf := range slices.Concat(h.pfs, h.unread) {
		for _, st := range pf.VFs {
			rec, isClaimed := claimed[st.ID]
			delete(claimed, st.ID)
			pool, _ := h.spec.PoolOf(pf, st.ID.Index, st)
			if !isClaimed && pool.Offer != desired.OfferClaims {
				continue
			}
			given := isGiven(st.PCI)
			waits = waits || !isClaimed && free[st.PCI] && given
			v := offer.VF{PF: &pf, State: st, IsFree: !isClaimed && free[st.PCI] && !given, IsClaimed: isClaimed}
			if isClaimed {
				v.ClaimPool, v.Problem = rec.Claim.Pool, h.describeDark(rec)
				v.State.Driver = cmp.Or(rec.Baseline.Driver, st.Driver) // the claim's pod may have another one bound
			}
			out.VFs = append(out.VFs, v)
		}
	}
	for _, r := range claimed { // a PF that culvertd has not read yet, or one that has gone
		out.VFs = append(out.VFs, offer.VF{State: vf.State{ID: r.ID, PCI: r.PCI, NUMA: -1}, IsClaimed: true, ClaimPool: r.Claim.Pool})
	}
	return out, waits
}

// offersClaims reports whether a pool is offered to claims.
func offersClaims(spec desired.Spec) bool {
	return slices.ContainsFunc(spec.Pools, func(p desired.Pool) bool { return p.Offer == desired.OfferClaims })
}

// isGiven reports whether the kubelet gave a VF to a pod, or is giving it right now. The caller holds mu.
func (p *Plugin) isGiven(a vf.PCIAddr) bool {
	at, promised := p.promised[a]
	return p.given[a] != "" || promised && time.Since(at) < promiseFor
}

// showClaims passes the VFs for claims on. again is true if the kubelet has to be asked again for them.
func (p *Plugin) showClaims(h host, devices map[string][]device) (again bool) {
	if p.ForClaims == nil {
		return false
	}
	p.mu.Lock()
	view, again := h.viewClaims(devices, p.isGiven)
	p.mu.Unlock()
	p.ForClaims(view)
	return again
}
