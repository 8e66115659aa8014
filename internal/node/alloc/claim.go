package alloc

import (
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// ErrEnding says that a VF is being given back: its last claim is ending, or its reset runs. The scheduler
// allocates a VF anew as soon as the API server has no other claim with it, which may be before this node
// has the VF back. Errors with it are vf.ErrHeld too.
var ErrEnding = errors.New("it is being given back")

// FindClaimable returns a VF that a claim was allocated, if the VF is free or the claim has it already.
// given is as Want.Given.
//
// Errors: vf.ErrNotFound (no such VF), vf.ErrHeld (another owner has it, or the kubelet gave it to a
// pod), ErrEnding (another claim has it still), vf.ErrNotReady (it is being made, in quarantine, or its PF cannot be read).
func (h Host) FindClaimable(id vf.ID, claim journal.Claim, given func(vf.PCIAddr) string) (Choice, error) {
	for _, c := range h.listCandidates() {
		if c.rec.ID != id {
			continue
		}
		if c.rec.Claim != nil && c.rec.Claim.UID == claim.UID {
			return c.toChoice(), nil
		}
		return c.toChoice(), c.refuseClaimed(Want{VF: c.rec.PCI, Given: given})
	}
	for _, pf := range h.PFs {
		switch _, there := pf.VF(id.Index); {
		case pf.ID != id.PF:
		case pf.Err != "":
			return Choice{}, fmt.Errorf("VF %d of PF %s: %w: the PF could not be read: %s", id.Index, pf.Label(), vf.ErrNotReady, pf.Err)
		case there:
			return Choice{}, fmt.Errorf("VF %d of PF %s: %w: culvertd has not taken it over yet: try again", id.Index, pf.Label(), vf.ErrNotReady)
		default:
			return Choice{}, fmt.Errorf("VF %d of PF %s: %w: the PF has %d VFs: the scheduler allocates again when the claim is made anew: delete the pod",
				id.Index, pf.Label(), vf.ErrNotFound, pf.NumVFs)
		}
	}
	return Choice{}, fmt.Errorf("VF %d of PF %s: %w: the PF is not on this node now: delete the pod if it does not come back", id.Index, id.PF, vf.ErrNotFound)
}

// refuseClaimed returns why no claim gets a VF now, or nil.
func (c candidate) refuseClaimed(w Want) error {
	what := fmt.Sprintf("VF %s on %s", c.rec.PCI, c.pf.Label())
	if pod := w.givenTo(c.rec.PCI); pod != "" {
		return fmt.Errorf("%s: %w by pod %s, to which the kubelet gave it as a device of a plugin", what, vf.ErrHeld, pod)
	}
	switch c.rec.Phase {
	case vf.PhaseFree:
		return nil
	case vf.PhaseMaking:
		return fmt.Errorf("%s: %w: it is being made: try again", what, vf.ErrNotReady)
	case vf.PhaseQuarantined:
		return fmt.Errorf("%s: %w: it went into quarantine after it was allocated (%s): culvertd resets it and tries again; "+
			"delete the pod to get another VF", what, vf.ErrNotReady, c.rec.Reason)
	case vf.PhaseDamaged:
		return fmt.Errorf("%s: %w: its record in the ledger is damaged (%s): culvert ledger check says more", what, vf.ErrHeld, c.rec.Reason)
	}
	if c.rec.Claim != nil || c.rec.Phase == vf.PhaseReleasing {
		return fmt.Errorf("%s: %w by %s: %w: the kubelet tries again", what, vf.ErrHeld, c.rec.Holder(), ErrEnding)
	}
	return fmt.Errorf("%s: %w by %s: delete the pod to get another VF", what, vf.ErrHeld, c.rec.Holder())
}
