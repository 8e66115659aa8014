package status

import (
	"slices"

	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Bounds on what the status lists of one VF. A pod with NET_ADMIN can give its interface thousands of
// addresses and routes, and any pod can start processes.
const (
	mostAddresses = 64 // of an interface, and as many routes
	mostEntries   = 16 // differences, and processes
)

// Seen is a part of what was read of an attached VF in its owner's network namespace.
type Seen struct {
	Link        *vf.Link // with at most mostAddresses addresses and routes
	Differences []vf.Difference
	More        int // differences that are left out
}

// See compares a VF with its record in the ledger, and drops what the status does not list.
func See(r journal.Record, st vf.State) (s Seen) {
	s.Differences, s.More = firstOf(findDifferences(r, st))
	if st.Link != nil {
		brief := st.Link.Brief(mostAddresses)
		s.Link = &brief
	}
	return s
}

// firstOf returns the first entries of a list, and how many more there are.
func firstOf[T any](all []T) (first []T, more int) {
	if len(all) <= mostEntries {
		return all, 0
	}
	return slices.Clone(all[:mostEntries]), len(all) - mostEntries
}

// findDifferences returns the differences of an attached VF to its lease, or of a free, prepared or
// quarantined VF to its baseline. In other phases the kernel's state is being changed, and a
// difference says nothing.
func findDifferences(r journal.Record, st vf.State) []vf.Difference {
	switch r.Phase {
	case vf.PhaseFree, vf.PhasePrepared, vf.PhaseQuarantined:
		return r.Baseline.Diff(st)
	case vf.PhaseAttached:
		all := lease.Diff(r, st)
		if st.Link == nil && r.Lease.Netns != "" { // it is in a netns that was not listed
			all = slices.DeleteFunc(all, func(d vf.Difference) bool { return d.Attribute == "interface" })
		}
		return all
	}
	return nil
}
