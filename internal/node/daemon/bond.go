package daemon

import (
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/vf"
)

// findBond returns the bond of a network whose resource is a pool, nil if none has one.
func (s *Server) findBond(pool string) *vf.Bond {
	for _, d := range s.cluster.NetworksOf(pool) {
		if l, err := config.ParseDefinition(d); err == nil {
			if b := config.BondOf(l); b != nil {
				return b
			}
		}
	}
	return nil
}
