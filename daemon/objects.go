package daemon

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/ipam/blocks"
	"github.com/culvert-net/culvert/journal"
)

// wishes are all that say what is wanted of the node.
type wishes struct {
	mu       sync.Mutex // guards the rest
	host     desired.Spec
	policies []*v1alpha1.NodePolicy
	unread   map[string]error // policies that cannot be read
	merged   desired.Merged
}

func (w *wishes) setHost(s desired.Spec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = s
}

func (w *wishes) setPolicies(p []*v1alpha1.NodePolicy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.policies = p
}

// merge makes what host.yaml and the policies want the node's wish, and reports
// whether that is something else than before.
func (s *Server) merge() bool {
	w := &s.wishes
	w.mu.Lock()
	defer w.mu.Unlock()
	in := desired.Sources{Host: w.host}
	w.unread = map[string]error{}
	for _, p := range w.policies {
		content, err := p.Spec.HostYAML()
		var spec desired.Spec
		if err == nil {
			spec, err = desired.ParsePolicy(p.Name, content)
		}
		if err != nil {
			w.unread[p.Name] = err
			continue
		}
		in.Policies = append(in.Policies, desired.Policy{Name: p.Name, Priority: p.Spec.Priority, Spec: spec})
	}
	before := s.node.Spec()
	w.merged = desired.Merge(in, before, s.node.Inventory.PFs())
	if reflect.DeepEqual(before, w.merged.Spec) {
		return false
	}
	s.node.SetSpec(w.merged.Spec)
	return true
}

// joinPools has the addresses of networks given out of the node's blocks of the
// cluster's pools, from now on.
func (s *Server) joinPools() {
	s.tell = make(chan struct{}, 1)
	s.book = blocks.NewBook(s.Cluster.NodeName, func() {
		select {
		case s.tell <- struct{}{}:
		default:
		}
	})
	s.node.Engine.Blocks = s.book
}

// Waits between two writes of the NodeState: the usual one, and the longest
// while nothing changes, so that what was lost comes back.
const (
	stateWait = 3 * time.Second
	stateIdle = time.Minute
)

// followObjects follows the policies and the pools of addresses, and keeps the
// NodeState, until ctx ends. What somebody waits for is told at once, all else
// every few seconds at most, and only when it has changed.
func (s *Server) followObjects(ctx context.Context) {
	var written v1alpha1.NodeStateStatus
	next, dirty := time.Now(), true
	for {
		changed := s.node.Ledger.Changed()
		s.readObjects(ctx)
		if dirty && !time.Now().Before(next) {
			next, dirty = time.Now().Add(stateWait), false
			if err := s.tellState(ctx, &written); err != nil && ctx.Err() == nil {
				s.Log.Warn("tell the cluster of this node", "err", err)
				dirty = true
			}
		}
		wait := stateIdle
		if dirty {
			wait = max(time.Until(next), 50*time.Millisecond)
		}
		later := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			later.Stop()
			return
		case <-s.tell:
			next = time.Now()
		case <-s.cluster.ObjectsChanged():
		case <-changed:
		case <-later.C:
		}
		later.Stop()
		dirty = true
	}
}

// tellState writes the NodeState when it is not as it was written last.
func (s *Server) tellState(ctx context.Context, written *v1alpha1.NodeStateStatus) error {
	state, err := s.state(ctx)
	if err != nil || reflect.DeepEqual(state, *written) {
		return err
	}
	if err := s.cluster.WriteState(ctx, state); err != nil {
		return err
	}
	*written = state
	return nil
}

// readObjects follows what the cluster says at the moment.
func (s *Server) readObjects(ctx context.Context) {
	if policies, known := s.cluster.Policies(); known {
		s.wishes.setPolicies(policies)
		if s.merge() {
			if err := s.node.Reconciler.Pass(ctx, false); err != nil {
				s.Log.Error("follow the policies", "err", err)
			}
		}
	}
	pools, known := s.cluster.AddressPools()
	if !known {
		return
	}
	var views []blocks.View
	for _, o := range pools {
		p, err := blocks.FromObject(o)
		if err != nil {
			s.Log.Error("pool of addresses is not used", "err", err)
			continue
		}
		views = append(views, blocks.View{Pool: p, Starved: slices.Contains(o.Status.Starved, s.Cluster.NodeName)})
	}
	s.book.SetPools(views)
}

// state is what the NodeState should say.
func (s *Server) state(ctx context.Context) (v1alpha1.NodeStateStatus, error) {
	if _, known := s.cluster.AddressPools(); !known {
		return v1alpha1.NodeStateStatus{}, errors.New("the cluster's pools of addresses are not known yet: are Culvert's CRDs installed?")
	}
	status, err := s.nodeStatus(ctx)
	if err != nil {
		return v1alpha1.NodeStateStatus{}, err
	}
	out := stateOf(status)
	out.Policies = s.policyStates(status.PFs)
	requests, err := s.book.Requests(s.held)
	out.AddressRequests = blocks.ToObject(requests)
	return out, err
}

// held are the addresses of the ledger that are the cluster's.
func (s *Server) held() (out []blocks.Held, err error) {
	err = s.node.Ledger.View(func(tx *journal.Tx) error {
		all, err := tx.AddressesOf("")
		for _, a := range all {
			if !a.Local && a.Damage == "" {
				out = append(out, blocks.Held{Network: a.Network, Addr: a.Addr, Owner: a.Owner, Claim: a.Claim})
			}
		}
		return err
	})
	return out, err
}

// oneLine is an error for a column.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
