package nodestate

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// maxAddresses is how many addresses of a VF a NodeState lists.
const maxAddresses = 16

// firstAddresses returns the addresses that a NodeState lists, and says how many more there are.
func firstAddresses(addresses []string) []string {
	if len(addresses) <= maxAddresses {
		return addresses
	}
	return append(slices.Clone(addresses[:maxAddresses]), excerpt.More(len(addresses)-maxAddresses))
}

// FromVF converts a VF of a node's status to a VF of its NodeState.
func FromVF(v api.VF) v1alpha1.VFState {
	o := v1alpha1.VFState{Name: v.Name, PCI: v.PCI.String(), Phase: v.Phase, Pool: v.Pool, Network: v.Network, Addresses: firstAddresses(v.Addresses), Reason: excerpt.Fit(v.Reason, MaxReason), NoCarrier: v.NoCarrier}
	if vf.Phase(v.Phase).IsAside(v.Attempts) { // each retry would be a write otherwise
		o.Phase = string(vf.PhaseQuarantined)
	}
	if v.Missing {
		o.Phase = api.PhaseMissing
	}
	if v.Owner != nil && !v.Owner.IsZero() {
		o.Owner = &v1alpha1.Owner{Kind: v.Owner.Kind, Name: v.Owner.Name, UID: v.Owner.UID, Interface: v.Owner.Interface}
	}
	if v.Claim != nil {
		o.Claim = v.Claim.Name
	}
	o.UsedBy = excerpt.Fit(v.UsedBy, MaxReason)
	if v.Bond != nil {
		o.Bond = &v1alpha1.Bond{Mode: string(v.Bond.Mode), Links: int32(v.Bond.Links)}
	}
	return o
}

// ToVF converts a VF of a NodeState back to a VF of a node's status. pfs has the identities of the
// node's PFs by their names.
func ToVF(node string, v v1alpha1.VFState, pfs map[string]vf.PFID) api.VF {
	o := api.VF{
		Node: node, Name: v.Name, Phase: v.Phase, Pool: v.Pool, Network: v.Network, Addresses: v.Addresses, Reason: v.Reason, NoCarrier: v.NoCarrier, UsedBy: v.UsedBy,
		Missing: v.Phase == api.PhaseMissing, NUMA: -1, IOMMUGroup: -1,
	}
	o.PCI, _ = vf.ParsePCIAddr(v.PCI)
	at := max(0, strings.LastIndexByte(v.Name, '#'))
	o.PF = v.Name[:at]
	if id, err := vf.ParseID("#" + v.Name[min(at+1, len(v.Name)):]); err == nil {
		o.Index = id.Index
	}
	o.ID = vf.ID{PF: pfs[o.PF], Index: o.Index}
	if v.Owner != nil {
		o.Owner = &vf.Owner{Kind: v.Owner.Kind, Name: v.Owner.Name, UID: v.Owner.UID, Interface: v.Owner.Interface}
		o.Netdevice = v.Owner.Interface
	}
	if v.Claim != "" {
		o.Claim = &api.Claim{Name: v.Claim}
	}
	if v.Bond != nil { // the names of its members are not in a NodeState
		o.Bond, o.Netdevice = &vf.Bond{Mode: vf.BondMode(v.Bond.Mode), Links: int(v.Bond.Links)}, ""
	}
	return o
}
