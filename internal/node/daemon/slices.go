package daemon

import (
	"context"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/offer/publish"
)

// offerClaims makes the Publisher of the VFs that the node offers to ResourceClaims. The device plugin
// judges them, so that a VF is either free for both or for neither.
func (s *Server) offerClaims() {
	s.offers = publish.New(s.Cluster.NodeName, s.cluster.Slices, s.Log)
	s.pods.ForClaims = s.offers.Show
}

// sliceProblems returns the problems of the ResourceSlices.
func (s *Server) sliceProblems() []api.Problem {
	if s.offers == nil {
		return nil
	}
	return s.offers.Problems()
}

// withdrawOffers deletes the node's ResourceSlices, when Culvert is uninstalled. The kubelet deletes
// them, too, 30 s after the driver has gone, and so does the garbage collector with the Node.
func (s *Server) withdrawOffers(ctx context.Context) error { return s.cluster.Slices.Delete(ctx) }
