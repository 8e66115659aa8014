package hold

import (
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// GCGrace is how old an attachment must be before CNI GC takes it. A runtime makes its list before it
// sends GC, and may begin or end an ADD in between: containerd lists a sandbox when its ADD has ended.
const GCGrace = 10 * time.Second

// IsYoung reports whether less than GCGrace lies between two times. They may be in any order, since
// the clock may have been set back.
func IsYoung(since, now time.Time) bool { return now.Sub(since).Abs() < GCGrace }

// YoungOwners returns the owners of the leases of a network that are being attached, or whose attach ended
// within GCGrace.
func (h *VFs) YoungOwners(network string) (owners []vf.Owner, err error) {
	records, err := h.ReadRecords()
	for _, r := range records {
		isUnderWay := r.Phase == vf.PhaseConfiguring && h.Locks.Holder(r.ID) != nil
		isNew := (r.Phase == vf.PhaseConfiguring || r.Phase == vf.PhaseAttached) && IsYoung(r.Since, h.Now())
		if r.Lease.Network == network && (isUnderWay || isNew) {
			owners = append(owners, r.Lease.Owner)
		}
	}
	return owners, err
}
