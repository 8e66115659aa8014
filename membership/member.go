// Package membership makes a node a member of its cluster. What the cluster says of the
// node (NodePolicies, the device plugin's ConfigMap, AddressPools, networks) goes in by
// package kube; the wanted Spec, the node's blocks of addresses, its NodeState and the
// events of its Node object come out. The daemon runs it.
package membership

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/change"
	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/ipam/blocks"
	"github.com/culvert-net/culvert/node"
	"github.com/culvert-net/culvert/status"
	"github.com/culvert-net/culvert/trouble"
	"github.com/culvert-net/culvert/wanted"
)

// cluster is what a node reads of its cluster and writes to it: kube.Client.
type cluster interface {
	reader
	// ObjectsChanged has a value when what is read may have changed.
	ObjectsChanged() <-chan struct{}
	// NodeUID returns the UID of the Node object, empty while there is none.
	NodeUID() string
	writer
}

type reader interface {
	Policies() (selected []*v1alpha1.NodePolicy, known bool)
	DevicePluginConfig() (data map[string]string, known bool)
	AddressPools() (pools []*v1alpha1.AddressPool, known bool)
	Networks() []api.NetworkDefinition
}

type writer interface {
	WriteState(context.Context, v1alpha1.NodeStateStatus) error
	NodeEvent(kind, reason, text string)
}

// Config is what New makes a Member of.
type Config struct {
	NodeName string
	Cluster  cluster
	Node     *node.Node
	Sources  *wanted.Sources
	Status   func(context.Context) (api.NodeStatus, error) // of the node
	Log      *slog.Logger
}

// Member is the node as a part of its cluster.
type Member struct {
	Config
	// The NodeState is written at most once in writeInterval, and after idleInterval
	// without a change it is written again.
	writeInterval, idleInterval time.Duration

	book        *blocks.Book
	urgent      change.Wake // an attach waits for an answer to the NodeState
	specChanged change.Wake
	followed    chan struct{} // closed when the cluster's Spec was followed once

	// Only keepState reads and writes these.
	policiesKnown bool
	nodeUID       string
	unusable      []api.Problem // AddressPools that cannot be read
	failing       bool          // the last write of the NodeState failed
	usable        usable
	written       *v1alpha1.NodeStateStatus
	hurry         bool // the next write does not wait for others
	pace          pace
	reported      trouble.Set
}

// Waits between two writes of the NodeState, see Member.
const (
	writeInterval = 3 * time.Second
	idleInterval  = time.Minute
)

// New returns a Member. From now on the node gives out addresses of its blocks of the
// cluster's pools.
func New(c Config) *Member {
	m := &Member{
		Config: c, writeInterval: writeInterval, idleInterval: idleInterval,
		pace: newPace(), urgent: change.NewWake(), specChanged: change.NewWake(), followed: make(chan struct{}),
	}
	m.book = blocks.NewBook(c.NodeName, m.WriteSoon)
	c.Node.Engine.Blocks = m.book
	return m
}

// WriteSoon makes the Member write the NodeState at once.
func (m *Member) WriteSoon() { m.urgent.Notify() }

// Followed returns a channel that is closed when the cluster's Spec was followed once.
func (m *Member) Followed() <-chan struct{} { return m.followed }

// Run follows the cluster's objects and keeps the NodeState, until ctx ends. A change
// that an attach waits for is written at once, every other one after writeInterval at
// the latest, but for attaches and detaches, which share a write (pace). Nothing is written before the AddressPools are known: the controller takes
// back the addresses that the requests of a NodeState do not name.
func (m *Member) Run(ctx context.Context) {
	var g errgroup.Group
	g.Go(func() error { m.followSpec(ctx); return nil })
	m.keepState(ctx)
	_ = g.Wait() // it returns nil
}

// followSpec reconciles the node each time that the wanted Spec changes. It runs beside
// keepState: a slow PF must not delay addresses (I7).
func (m *Member) followSpec(ctx context.Context) {
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case <-m.specChanged:
		}
		if err := m.Node.Reconciler.Pass(ctx, false); err != nil && ctx.Err() == nil {
			m.Log.Error("follow the cluster's wishes", "err", err)
		}
		if first {
			close(m.followed)
		}
	}
}

// keepState reads the cluster's objects and writes the NodeState.
func (m *Member) keepState(ctx context.Context) {
	next, dirty := time.Now(), true
	for {
		ledger := m.Node.Ledger.Changed()
		if m.readSpec() {
			m.specChanged.Notify()
		}
		known := m.readPools()
		if dirty && known && !time.Now().Before(next) {
			next = time.Now().Add(m.writeInterval)
			dirty = !m.tryWrite(ctx, time.Now())
		}
		wait := m.idleInterval
		if dirty && known {
			wait = max(time.Until(next), 0)
		}
		hardware := m.Node.Inventory.Changed() // after the listing by tryWrite, which is no change
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-m.urgent:
			next, m.hurry = time.Now(), true
		case <-m.Cluster.ObjectsChanged():
		case <-ledger:
		case <-hardware:
		case <-timer.C:
			if wait == m.idleInterval {
				m.written = nil // another writer may have changed the object
			}
		}
		timer.Stop()
		dirty = true
	}
}

// tryWrite writes the NodeState, and reports whether nothing is left to be written. The
// first of several failures is logged.
func (m *Member) tryWrite(ctx context.Context, now time.Time) bool {
	done, err := m.writeState(ctx, now)
	if err != nil && !m.failing && ctx.Err() == nil {
		m.Log.Warn("write the NodeState; tried again until it works", "err", err)
	}
	m.failing = err != nil
	return done && err == nil
}

// readSpec merges what the cluster wants of the node, and reports whether the wanted
// Spec changed or is known for the first time. The device plugin's pools come after
// those of policies and wait until these are known: a VF must not be offered under the
// wrong name.
func (m *Member) readSpec() bool {
	policies, known := m.Cluster.Policies()
	if !known {
		return false
	}
	m.Sources.SetPolicies(policies)
	if data, known := m.Cluster.DevicePluginConfig(); known {
		m.Sources.SetDevicePlugin(data)
	}
	first := !m.policiesKnown
	m.policiesKnown = true
	return m.Sources.Merge() || first
}

// readPools gives the AddressPools and the node's identity to the book, and reports
// whether both are known. While the Node object is deleted, its last UID stays.
func (m *Member) readPools() (known bool) {
	pools, known := m.Cluster.AddressPools()
	m.nodeUID = cmp.Or(m.Cluster.NodeUID(), m.nodeUID)
	if !known || m.nodeUID == "" {
		return false
	}
	m.book.SetNode(m.nodeUID)
	var views []blocks.View
	m.unusable = nil
	for _, o := range pools {
		p, err := blocks.FromObject(o)
		if err != nil {
			m.unusable = append(m.unusable, api.Problem{Object: "AddressPool " + o.Name, Reason: excerpt.Error(err), Next: "no pod gets addresses of it until it is corrected"})
			continue
		}
		views = append(views, blocks.View{Pool: p, Starved: slices.Contains(o.Status.Starved, m.NodeName)})
	}
	answered := m.book.RollCalls()
	m.book.SetPools(views)
	if !slices.Equal(m.book.RollCalls(), answered) {
		m.WriteSoon() // the controller waits for the answer
	}
	return true
}

// writeState writes the NodeState when it has changed and does not wait for more changes,
// and reports whether nothing is left to be written. Events come first: an event says what
// the change is.
func (m *Member) writeState(ctx context.Context, now time.Time) (done bool, err error) {
	n, err := m.Status(ctx)
	if err != nil {
		return false, err
	}
	n.Problems = slices.Concat(m.unusable, n.Problems)
	if n.Ready { // before, everything is under way
		found := findTroubles(n, slices.Concat(m.Sources.Problems(), m.unusable, m.Node.Problems()))
		trouble.Emit(m.reported, found, m.Cluster.NodeEvent)
		m.reported = found
	}
	state, err := m.buildState(n)
	if err != nil {
		return false, err
	}
	if reflect.DeepEqual(&state, m.written) {
		m.hurry, m.pace.waiting = false, nil
		return true, nil
	}
	if m.written != nil && !m.hurry && changesOwnersOnly(m.written, &state) && !m.needsBlocks(m.written, &state) && !m.pace.isDue(now, &state) {
		return false, nil
	}
	if err := m.Cluster.WriteState(ctx, state); err != nil {
		return false, err
	}
	if m.written != nil { // else there may have been nothing to write
		m.pace.written = now
	}
	m.written, m.hurry, m.pace.waiting = &state, false, nil
	return true, nil
}

// buildState returns what the NodeState should say.
func (m *Member) buildState(n api.NodeStatus) (v1alpha1.NodeStateStatus, error) {
	out := status.ToNodeState(n)
	out.NodeUID, out.Policies = m.nodeUID, m.Sources.PolicyStates()
	m.requestAhead(n.Pools)
	var (
		held   []blocks.Held
		unread int
	)
	out.RollCalls = m.book.RollCalls()
	requests, err := m.book.Requests(func() (_ []blocks.Held, err error) {
		held, unread, err = m.heldAddresses()
		return held, err
	})
	if err != nil {
		return out, err
	}
	out.AddressRequests, out.AddressesUnread = blocks.ToObject(requests), int32(min(unread, math.MaxInt32))
	out.Conditions = slices.Concat(out.Conditions, m.Sources.Conditions(out.Policies), []metav1.Condition{addressCondition(m.book.Disputed(held), unread)})
	return out, nil
}
