package daemon

import (
	"context"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/beacon"
	"github.com/culvert-net/culvert/internal/node/segment"
)

// followSegments makes the Watcher of segments, unless a flag switches it off.
func (s *Server) followSegments(id segment.NodeID) {
	if !s.SegmentDiscovery {
		return
	}
	s.segments = segment.New(segment.Config{
		Node: id, PFs: s.node.Inventory.PFs, Spec: s.node.Spec, Log: s.Log,
		Open: func(name string) (segment.Port, error) { return beacon.Open(name) },
		Changed: func() {
			if s.member != nil {
				s.member.WriteSoon()
			}
		},
	})
}

// runSegments waits until the VFs are made, and then sends and listens on the PFs until ctx ends.
func (s *Server) runSegments(ctx context.Context) {
	if s.segments == nil || !s.awaitVFs(ctx) {
		return
	}
	tick := time.NewTicker(segment.Period)
	defer tick.Stop()
	s.segments.Run(ctx, tick.C)
}

// segmentProblems returns the pools over PFs that do not receive each other's frames.
func (s *Server) segmentProblems() []api.Problem {
	if s.segments == nil {
		return nil
	}
	return s.segments.Problems()
}
