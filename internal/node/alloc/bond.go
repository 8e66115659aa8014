package alloc

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// isOthers reports whether the request cannot have a VF because of the kubelet: the kubelet gave
// the VF to a pod, or it did not give it to the pod that must have it from the kubelet.
func (w Want) isOthers(c candidate) bool {
	pod := w.givenTo(c.rec.PCI)
	if w.OfPod {
		return pod != w.For.Name
	}
	return pod != ""
}

// whyNoMember returns the reason why a VF cannot be in the bond that the request is about, as the
// end of a sentence about that VF. It returns "" if the VF can be in it, or if there is no bond.
func (h Host) whyNoMember(c candidate, w Want) string {
	if w.Bond == nil {
		return ""
	}
	if len(w.Members) == 0 && !w.Bond.PrefersPF(c.pf) {
		return "is not on " + w.Bond.Primary + ", the primary PF of the bond"
	}
	if why := h.whyOtherSegment(c, w); why != "" {
		return why
	}
	for _, pf := range h.memberPFs(w) {
		if shared := w.Bond.AntiAffinity.SharedPart(pf, c.pf); shared != "" {
			return fmt.Sprintf("shares %s with another member of the bond", shared)
		}
	}
	return ""
}

// adviseBond returns the next step after whyNoMember of a candidate.
func (h Host) adviseBond(c candidate, w Want) string {
	switch {
	case h.whyOtherSegment(c, w) != "":
		return "give the bond VFs of PFs on one segment"
	case len(w.Members) == 0:
		return "leave primary out of the bond, or name a PF of the pool"
	case w.Given != nil && w.For.Kind == vf.OwnerPod:
		return fmt.Sprintf("the kubelet chose these VFs (antiAffinity %s): start the pod again, and let its pool have free VFs on more PFs of the pod's NUMA node", w.Bond.AntiAffinity)
	}
	return fmt.Sprintf("a bond with antiAffinity %s needs others: give the pool VFs of more PFs, or choose another antiAffinity", w.Bond.AntiAffinity)
}

// memberPFs returns the PFs of the members that a bond has so far.
func (h Host) memberPFs(w Want) (out []vf.PF) {
	for _, id := range w.Members {
		if i := slices.IndexFunc(h.PFs, func(pf vf.PF) bool { return pf.ID == id.PF }); i >= 0 {
			out = append(out, h.PFs[i])
		}
	}
	return out
}

// compareMembers orders two candidates for a bond. It prefers the candidate that has less in common
// with the members of the bond: another PF, then another card. Between equal candidates it prefers
// the one on the NUMA node of the first member. That node is near the pod if the kubelet chose the
// first member. It returns 0 for a VF of its own.
func (h Host) compareMembers(a, b candidate, w Want) int {
	if w.Bond == nil || len(w.Members) == 0 {
		return 0
	}
	members := h.memberPFs(w)
	count := func(shares func(vf.PF) bool) (n int) {
		for _, pf := range members {
			if shares(pf) {
				n++
			}
		}
		return n
	}
	common := func(c candidate, a vf.AntiAffinity) int {
		return count(func(pf vf.PF) bool { return a.SharedPart(pf, c.pf) != "" })
	}
	far := func(c candidate) int {
		return count(func(pf vf.PF) bool { return pf.ID == members[0].ID && pf.NUMA != c.pf.NUMA })
	}
	return cmp.Or(
		cmp.Compare(common(a, vf.ApartPF), common(b, vf.ApartPF)),
		cmp.Compare(common(a, vf.ApartNIC), common(b, vf.ApartNIC)),
		cmp.Compare(far(a), far(b)),
	)
}
