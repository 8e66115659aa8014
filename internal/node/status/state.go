package status

import (
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// State is one of few words for what a VF is used for.
type State string

// The states of VFs.
const (
	Free        State = "free"
	Used        State = "used"    // promised to, held by or being taken back from an owner
	Outside     State = "outside" // used outside Culvert
	Quarantined State = "quarantined"
	Making      State = "making"
	Unmanaged   State = "unmanaged"
)

// StateOf returns the state of a VF. A VF that is not on the bus does not count, nor does a free VF of
// a PF that cannot be read: culvertd gives it to no owner now.
func StateOf(v api.VF) (s State, counts bool) {
	if v.Missing || v.Unread && v.Phase == string(vf.PhaseFree) {
		return "", false
	}
	switch phase := vf.Phase(v.Phase); {
	case phase == vf.PhaseFree:
		return Free, true
	case phase.IsAside(v.Attempts), phase == vf.PhaseDamaged:
		return Quarantined, true
	case phase == vf.PhaseMaking, phase == vf.PhaseReleasing && v.Owner == nil: // a free VF is mended
		return Making, true
	case phase == api.PhaseUnmanaged:
		return Unmanaged, true
	case phase == api.PhaseOutside:
		return Outside, true
	}
	return Used, true
}
