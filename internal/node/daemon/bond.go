package daemon

import (
	"context"

	"github.com/culvert-net/culvert/internal/node/bond"
	"github.com/culvert-net/culvert/internal/vf"
)

// findBond returns the bond of a network whose resource is a pool, nil if none has one.
func (s *Server) findBond(pool string) *vf.Bond {
	for _, d := range s.cluster.NetworksOf(pool) {
		if b := s.definitions.Read(d).Bond(); b != nil {
			return b
		}
	}
	return nil
}

// followBonds moves the bonds of pods away from PFs that lose their carrier, until ctx ends.
func (s *Server) followBonds(ctx context.Context) error {
	f := bond.New(s.kernel, s.node.Ledger, s.node.Inventory, s.Log)
	f.FailedOver = s.metrics.CountFailOver
	return f.Run(ctx)
}
