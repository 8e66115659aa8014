package daemon

import (
	"errors"
	"os"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/balance/filter"
	"github.com/culvert-net/culvert/internal/kernel/balance/socket"
	"github.com/culvert-net/culvert/internal/node/service/agent"
)

// followServices makes the agent that balances pods' connections to Services over VF
// networks.
func (s *Server) followServices() error {
	if err := s.cluster.FollowServices(); err != nil {
		return err
	}
	s.services = agent.New(agent.Config{Cluster: s.cluster, Ledger: s.node.Ledger, Mechanisms: s.listMechanisms(), Log: s.Log})
	s.status.Services = s.services.Status
	return nil
}

// listMechanisms returns the ways to balance, the better ones first.
func (s *Server) listMechanisms() []agent.Mechanism {
	return []agent.Mechanism{
		{Name: "eBPF", Supports: socket.Supports, Limit: socket.Limit(), Open: s.openSocket, Left: func() bool {
			_, err := os.Stat(balance.PinDir)
			return err == nil
		}},
		{Name: "nftables", Supports: filter.Supports, Limit: filter.Limit(), Open: openFilter, Left: func() bool { return false }},
	}
}

// openSocket opens eBPF. If that fails, it removes programs that an earlier culvertd left, since
// nftables balances in their place.
func (s *Server) openSocket() (agent.Balancer, error) {
	cgroup, err := socket.FindCgroup(s.ProcRoot)
	if err != nil {
		return nil, errors.Join(err, socket.Remove(balance.PinDir))
	}
	b, err := socket.Open(balance.PinDir, cgroup)
	if err != nil {
		return nil, errors.Join(err, socket.Remove(balance.PinDir))
	}
	return b, nil
}

func openFilter() (agent.Balancer, error) {
	b, err := filter.Open()
	if err != nil {
		return nil, err
	}
	return b, nil
}

// removeServices removes the tables and programs that balance connections from the kernel, when
// Culvert is uninstalled.
func (s *Server) removeServices() error {
	return errors.Join(s.services.Clear(), socket.Remove(balance.PinDir))
}

// serviceProblems returns the problems of balancing.
func (s *Server) serviceProblems() []api.Problem {
	if s.services == nil {
		return nil
	}
	return s.services.Problems()
}
