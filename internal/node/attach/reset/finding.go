package reset

import (
	"cmp"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// finding collects what the last owner of a VF changed, while the VF is reset.
type finding struct {
	rec     journal.Record // when the reset began
	changes []vf.Difference
	unknown string // why there may be other changes
}

// noteChanges adds the changes that a state shows, which was read before the driver was bound anew. A read
// in the owner's netns shows fewer attributes than a read after the VF is back on the host.
func (f *finding) noteChanges(st vf.State) {
	changes, unknown := lease.OwnerChanges(f.rec, st)
	f.unknown = cmp.Or(f.unknown, unknown)
	for _, d := range changes {
		if !slices.ContainsFunc(f.changes, func(o vf.Difference) bool { return o.Attribute == d.Attribute }) {
			f.changes = append(f.changes, d)
		}
	}
}

// noteRebind notes that the driver is bound anew, which makes a new netdevice, after a state was read.
func (f *finding) noteRebind(st vf.State) {
	if st.Link != nil && st.Link.Netns != "" {
		f.unknown = cmp.Or(f.unknown, "its driver was bound anew, and its owner's network namespace does not show all attributes")
	}
}

// isReadBack reports whether a VF equals its baseline, and then writes the readback into the record.
func (f *finding) isReadBack(rec *journal.Record, st vf.State, now time.Time) bool {
	left, compared := rec.Baseline.Compare(st)
	if len(left) > 0 {
		return false
	}
	out := vf.Readback{Time: now, Attributes: compared}
	if !f.rec.Lease.Owner.IsZero() || !f.rec.Released.IsZero() {
		out.Unknown = f.unknown
		out = out.WithChanges(f.changes)
	}
	rec.Readback = &out
	return true
}
