// Package nodestate reads parts of a NodeState as values of the domain. culvert-controller, which
// compares networks and policies with the PFs of nodes, and package status call it.
package nodestate

import (
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

// ToPF converts a PF of a NodeState to the PF that a network or a policy is
// compared with. An address that culvertd did not know stays zero.
func ToPF(s v1alpha1.PFState) vf.PF {
	pf := vf.PF{
		Name: s.Name, Vendor: s.Vendor, Device: s.Device, Driver: s.Driver, NUMA: int(s.NUMA), IOMMUGroup: -1,
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

// CountAiling counts the VFs of each PF, by the PF's name, that are in quarantine, and those without
// carrier although their PF has a link.
func CountAiling(vfs []v1alpha1.VFState) (aside, dark map[string]int) {
	aside, dark = map[string]int{}, map[string]int{}
	for _, v := range vfs {
		pf := v.Name[:max(0, strings.LastIndexByte(v.Name, '#'))]
		if v.Phase == string(vf.PhaseQuarantined) {
			aside[pf]++
		}
		if v.NoCarrier {
			dark[pf]++
		}
	}
	return aside, dark
}
