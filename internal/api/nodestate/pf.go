package nodestate

import (
	"slices"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// maxAltNames bounds the alternative names of a PF in a NodeState.
const maxAltNames = 16

// FromPF converts a PF of a node's status to a PF of its NodeState.
func FromPF(pf api.PF) v1alpha1.PFState {
	o := v1alpha1.PFState{
		Name: pf.Name, ID: pf.ID.String(), PCI: pf.PCI.String(), Vendor: pf.Vendor, Device: pf.Device, Driver: pf.Driver, NUMA: int32(pf.NUMA),
		Carrier: pf.Carrier, Flapping: pf.Flapping, SpeedMbps: int32(pf.SpeedMbps), MTU: int32(pf.MTU), MaxMTU: int32(pf.MaxMTU), TotalVFs: int32(pf.TotalVFs),
		NumVFs: int32(pf.VFs.Total), RDMA: pf.RDMA, Segment: string(pf.Segment), Error: excerpt.Fit(pf.Err, MaxReason),
	}
	if len(pf.AltNames) > 0 {
		o.AltNames = slices.Clone(pf.AltNames[:min(len(pf.AltNames), maxAltNames)])
	}
	if pf.Flapping {
		o.Carrier, o.SpeedMbps = false, 0 // else each change of the link would be a write
	}
	for _, f := range pf.Faults {
		o.Faults = append(o.Faults, string(f))
	}
	if m := pf.Master; m != nil {
		o.Master = &v1alpha1.PFMaster{Name: m.Name, Kind: m.Kind, Mode: string(m.Mode)}
	}
	if pf.WantedVFs != nil {
		n := int32(*pf.WantedVFs)
		o.WantedVFs = &n
	}
	for _, setting := range vf.Settings() {
		if pf.Abilities[setting] == vf.No {
			o.Unable = append(o.Unable, string(setting))
		}
	}
	return o
}

// ToPF converts a PF of a NodeState to the PF that a network or a policy is
// compared with. An address that culvertd did not know stays zero.
func ToPF(s v1alpha1.PFState) vf.PF {
	pf := vf.PF{
		Name: s.Name, AltNames: slices.Clone(s.AltNames), Vendor: s.Vendor, Device: s.Device, Driver: s.Driver, NUMA: int(s.NUMA), IOMMUGroup: -1,
		Up: s.Carrier, Carrier: s.Carrier, Flapping: s.Flapping, SpeedMbps: int(s.SpeedMbps), MTU: int(s.MTU), MaxMTU: int(s.MaxMTU),
		TotalVFs: int(s.TotalVFs), NumVFs: int(s.NumVFs), RDMA: s.RDMA, Err: s.Error,
	}
	pf.PCI, _ = vf.ParsePCIAddr(s.PCI)
	pf.ID, _ = vf.ParsePFID(s.ID)
	for _, f := range s.Faults {
		pf.Faults = append(pf.Faults, vf.Fault(f))
	}
	if m := s.Master; m != nil {
		pf.Master = &vf.Master{Name: m.Name, Kind: m.Kind, Mode: vf.BondMode(m.Mode)}
	}
	for _, setting := range s.Unable {
		if pf.Abilities == nil {
			pf.Abilities = vf.Abilities{}
		}
		pf.Abilities[vf.Setting(setting)] = vf.No
	}
	return pf
}
