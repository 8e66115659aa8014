package vf

// Phase is the phase of a VF's life. A VF in any phase but PhaseMaking and PhaseFree has an owner, or
// waits to be cleaned after its last owner.
//
//	PhaseMaking -> PhaseFree
//	PhaseFree -> PhaseConfiguring -> PhaseAttached -> PhaseReleasing -> PhaseFree
//	PhaseFree -> PhasePrepared -> PhaseConfiguring -> PhaseAttached -> PhaseReleasing -> PhasePrepared
//	             PhasePrepared -> PhaseFree
//	     any of these          -> PhaseQuarantined -> PhaseReleasing -> PhaseFree
type Phase string

// The phases.
const (
	PhaseMaking      Phase = "making"      // being prepared: it has no baseline yet
	PhaseFree        Phase = "free"        // clean, read back, without an owner
	PhasePrepared    Phase = "prepared"    // clean, read back; a ResourceClaim has it, and no pod yet, or none any more
	PhaseConfiguring Phase = "configuring" // promised to an owner; the kernel is being changed for it
	PhaseAttached    Phase = "attached"    // the owner has it, read back
	PhaseReleasing   Phase = "releasing"   // being reset to its baseline
	PhaseQuarantined Phase = "quarantined" // could not be reset; the reason is beside the phase
)

// PhaseDamaged is the phase of a VF whose record in the ledger cannot be read, or not be trusted. Only
// a repair of the ledger writes it, for a record that is lost. The VF may have an unknown owner:
// culvertd does not give it out, does not touch it, and counts it as held.
const PhaseDamaged Phase = "damaged"

// IsKnown reports whether this version of Culvert works with VFs in the phase. It is false for
// PhaseDamaged.
func (p Phase) IsKnown() bool {
	switch p {
	case PhaseMaking, PhaseFree, PhasePrepared, PhaseConfiguring, PhaseAttached, PhaseReleasing, PhaseQuarantined:
		return true
	}
	return false
}

// IsAside reports whether a VF in the phase is in quarantine, also while culvertd retries the reset.
// attempts is how often the VF has been in quarantine since it was last free.
func (p Phase) IsAside(attempts int) bool {
	return p == PhaseQuarantined || p == PhaseReleasing && attempts > 0
}
