package browser

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// simulated is a source that a test steers: it has the methods of page.Source.
type simulated struct {
	mu       sync.Mutex // guards the rest
	changed  chan struct{}
	overview page.Overview
	nodes    map[string]*api.NodeStatus
	megabits map[string]float64 // that a VF receives
	history  page.History
	events   []api.Event
	plans    []page.Plan
	failure  error
	began    time.Time
}

func newSimulated(name string, isCluster bool) *simulated {
	return &simulated{
		changed: make(chan struct{}), nodes: map[string]*api.NodeStatus{}, megabits: map[string]float64{}, began: time.Now().Add(-time.Hour),
		overview: page.Overview{Name: name, Cluster: isCluster, HasRates: !isCluster, Time: time.Now(), Problems: []page.NodeProblem{}},
	}
}

// change changes the source, and has the pages notice.
func (s *simulated) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// next is closed at the next change.
func (s *simulated) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Follow calls changed after each change, until ctx ends.
func (s *simulated) Follow(ctx context.Context, changed func()) error {
	for {
		select {
		case <-s.next():
			changed()
		case <-ctx.Done():
			return nil
		}
	}
}

// ReadOverview returns the nodes in short, or the failure that a test has set.
func (s *simulated) ReadOverview(context.Context) (page.Overview, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.overview
	o.Nodes = slices.Clone(o.Nodes)
	return o, s.failure
}

// ReadNodes visits nodes, with the counters of their VFs as of now.
func (s *simulated) ReadNodes(_ context.Context, name string, visit func(api.NodeStatus) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return s.failure
	}
	if name != "" && s.nodes[name] == nil {
		return fmt.Errorf("node %s: %w", name, vf.ErrNotFound)
	}
	for _, n := range s.nodes {
		if name == "" || n.Node == name {
			if !visit(s.count(*n)) {
				return nil
			}
		}
	}
	return nil
}

// count sets the counters of a node's VFs.
func (s *simulated) count(n api.NodeStatus) api.NodeStatus {
	n.Time = time.Now()
	n.VFs = slices.Clone(n.VFs)
	for i, v := range n.VFs {
		if v.Owner != nil && s.overview.HasRates && v.Driver != vf.DriverVFIO {
			seconds := n.Time.Sub(s.began).Seconds()
			bytes := uint64(s.megabits[v.Name] * (seconds + 0.3*math.Sin(1.7*seconds+float64(i))) * 1e6 / 8) // it swings
			n.VFs[i].Traffic = &vf.Traffic{RxBytes: bytes, RxPackets: bytes / 1200, TxBytes: bytes / 9, TxPackets: bytes / 2200, RxDropped: uint64(s.megabits[v.Name]/20000) * bytes / 3e6}
		}
	}
	return n
}

// ReadHistory returns the same history for each VF.
func (s *simulated) ReadHistory(context.Context, string, string) (page.History, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history, nil
}

// ReadEvents returns the events.
func (s *simulated) ReadEvents(context.Context, string, int) ([]api.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events, nil
}

// ReadPlans returns the plans.
func (s *simulated) ReadPlans(context.Context) ([]page.Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plans, nil
}

// addNode adds a node, and its row to the overview.
func (s *simulated) addNode(n *api.NodeStatus) {
	for i := range n.PFs {
		n.PFs[i].VFs = countVFs(n.VFs, func(v api.VF) bool { return v.PF == n.PFs[i].Name })
	}
	s.nodes[n.Node] = n
	row := page.NodeRow{Name: n.Node, Ready: n.Ready, Version: n.Version, Time: n.Time, PFs: len(n.PFs), VFs: countVFs(n.VFs, func(api.VF) bool { return true }), Problems: len(n.Problems)}
	for _, pf := range n.PFs {
		if !pf.Carrier {
			row.LinkDown++
		}
	}
	s.overview.Nodes = append(s.overview.Nodes, row)
	for _, p := range n.Problems {
		if len(s.overview.Problems) < 200 {
			s.overview.Problems = append(s.overview.Problems, page.NodeProblem{Node: n.Node, Problem: p})
		} else {
			s.overview.MoreProblems++
		}
	}
}

func countVFs(vfs []api.VF, isCounted func(api.VF) bool) (c api.Counts) {
	for _, v := range vfs {
		if !isCounted(v) {
			continue
		}
		c.Total++
		switch v.Phase {
		case "free":
			c.Free++
		case "quarantined":
			c.Quarantined++
		case "making":
			c.Making++
		case api.PhaseUnmanaged:
			c.Unmanaged++
		default:
			c.Used++
		}
	}
	return c
}

// errUnreachable is a failure of a source as a person sees it.
var errUnreachable = errors.New(`culvertd does not answer on /run/culvert/culvert.sock: run "systemctl status culvertd" to see why`)
