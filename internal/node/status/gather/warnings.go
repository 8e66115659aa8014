package gather

import (
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// addWarnings adds to each VF the warnings of network/config about the configuration in its lease, and
// a warning if its guard does not hold whole.
func addWarnings(vfs []api.VF, records []journal.Record) {
	requests := map[vf.ID][]byte{}
	for _, r := range records {
		if r.Held() && (r.Lease.Owner.Kind == vf.OwnerPod || r.Lease.Owner.Kind == vf.OwnerContainer) {
			requests[r.ID] = r.Lease.Request
		}
	}
	for i := range vfs {
		if request := requests[vfs[i].ID]; len(request) > 0 {
			if c, err := config.Parse(request); err == nil {
				vfs[i].Warnings = c.Warnings
			}
		}
		if g := vfs[i].Guard; g != nil && g.Reason != "" {
			vfs[i].Warnings = append(slices.Clone(vfs[i].Warnings), vf.DescribeGuard(g.Name(), g.Degree, g.Reason))
		}
	}
}
