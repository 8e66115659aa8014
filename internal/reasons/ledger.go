package reasons

// Event is a kind of event: its type, Normal or Warning, and its reason.
type Event struct{ Type, Reason string }

// LedgerEvents returns the kinds of event that culvertd writes to the ledger, for counters that begin
// at 0. TestLedgerEventsAreThoseOfTheComments compares it with the comments of the reasons.
func LedgerEvents() (out []Event) {
	for _, reason := range []string{
		Attached, Prepared, Unprepared, HostTrial, HostConfirmed, Detached, Collected, Adopted, VFsMade, PFTaken, PFReturned, BondMovedBack, RateLent, RateGivenBack,
		GuestInOrder, LedgerCompacted, CommandRun, Recovered, UseEnded, LinkUp, NoDeviceErrors, VFCarrier,
	} {
		out = append(out, Event{"Normal", reason})
	}
	for _, reason := range []string{
		DuplicateAddress, Quarantined, UsedOutside, LinkDown, LinkFlapping, DeviceErrors, VFNoCarrier, HostWentBack, HostTrialReplaced, Detached, Unprepared,
		Undone, AttachFailed, GuestEnded, PodGone, Rebased, Drifted, DriftMended, BondFailedOver, GuestContradicts, LeaseEnded,
		LedgerNotCompacted, LedgerRepaired,
	} {
		out = append(out, Event{"Warning", reason})
	}
	return out
}
