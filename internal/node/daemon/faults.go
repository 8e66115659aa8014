package daemon

import (
	"context"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// pollEvery is the time between two reads of the counters of errors, of which the kernel has no
// events.
const pollEvery = time.Second

// followErrors reads the counters of errors of PFs and VFs each second until ctx ends. A new problem
// is written to the NodeState at once.
func (s *Server) followErrors(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	s.pollErrors(ctx, tick.C, s.kernel.NewErrorReader().Read, func() {
		if s.member != nil {
			s.member.WriteSoon()
		}
	})
}

// pollErrors reads the counters at each tick. When the problems have changed, it marks the PFs for
// all followers of the inventory, such as the device plugin, and calls changed.
func (s *Server) pollErrors(ctx context.Context, ticks <-chan time.Time, read func([]vf.PF) map[vf.PCIAddr]vf.ErrorCounts, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		pfs := s.node.Inventory.PFs()
		if s.faults.Add(pfs, read(pfs)) {
			s.node.Inventory.SetFaults(s.faults.Kinds())
			changed()
		}
	}
}
