package step

import "github.com/culvert-net/culvert/vf"

// Target is the VF that a step changes. It is named by its own address, or as a VF of a PF. The zero
// value is no VF.
type Target struct {
	VF    vf.PCIAddr
	PF    vf.PCIAddr // zero where VF names it
	Index int
}

// TargetOf returns the VF that a step changes. Steps that wait, that announce, or that change a PF or
// a bond have none.
func TargetOf(s Step) Target {
	switch s := s.(type) {
	case SetVFMAC:
		return Target{PF: s.PF, Index: s.Index}
	case SetVFVLAN:
		return Target{PF: s.PF, Index: s.Index}
	case SetVFSwitch:
		return Target{PF: s.PF, Index: s.Index}
	case SetVFLinkState:
		return Target{PF: s.PF, Index: s.Index}
	case SetVFRate:
		return Target{PF: s.PF, Index: s.Index}
	case Bind:
		return Target{VF: s.VF}
	case Unbind:
		return Target{VF: s.VF}
	case Reset:
		return Target{VF: s.VF}
	case Move:
		return Target{VF: s.VF}
	case Rename:
		return Target{VF: s.VF}
	case SetMTU:
		return Target{VF: s.VF}
	case SetLinkMAC:
		return Target{VF: s.VF}
	case SetUp:
		return Target{VF: s.VF}
	case ClearPromisc:
		return Target{VF: s.VF}
	case AddAddress:
		return Target{VF: s.VF}
	case DelAddress:
		return Target{VF: s.VF}
	case AddRoute:
		return Target{VF: s.VF}
	case SetGuard:
		return Target{VF: s.VF}
	case DelGuard:
		return Target{VF: s.VF}
	case Enslave:
		return Target{VF: s.VF}
	case SetBondPrimary:
		return Target{VF: s.VF}
	case SetBondActive:
		return Target{VF: s.VF}
	}
	return Target{}
}
