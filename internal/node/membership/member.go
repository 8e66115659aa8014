// Package membership makes a node a member of its cluster. The cluster's objects for the node
// (NodePolicies, the device plugin's ConfigMap, AddressPools, networks) go in by package kube;
// the wanted Spec, the node's blocks of addresses, its NodeState and the events of its Node
// object come out. The daemon runs it.
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

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/node/trouble"
)

// cluster is kube.Client, by which a node reads its cluster.
type cluster interface {
	Policies() (selected []sources.Policy, known bool)
	DevicePluginConfig() (data map[string]string, known bool)
	AddressPools() (pools []*v1alpha1.AddressPool, known bool)
	Networks() []api.NetworkDefinition
	// ObjectsChanged returns a channel that has a value when the objects that a node reads may
	// have changed.
	ObjectsChanged() <-chan struct{}
	// NodeUID returns the UID of the Node object, or "" while there is none.
	NodeUID() string
}

// writer is kube.Client, by which a node writes to its cluster.
type writer interface {
	WriteState(context.Context, v1alpha1.NodeStateStatus) error
	// LastConfirmation returns when the last pod's annotation Confirmed was written.
	LastConfirmation() time.Time
	NodeEvent(kind, reason, text string)
}

// Config has the parts of a Member.
type Config struct {
	NodeName string
	Cluster  cluster
	Writer   writer
	Node     *node.Node
	Sources  *sources.Set
	Status   func(context.Context) (api.NodeStatus, error) // of the node
	// Segments returns the pools over PFs that do not hear each other; nil: nothing listens.
	Segments func() []api.Problem
	// Faults returns the devices that had errors lately; nil: there are none.
	Faults func() []api.Problem
	Log    *slog.Logger
	// Definitions keeps the networks that were parsed; nil keeps none.
	Definitions *config.Definitions
	// ReadPool reads an AddressPool; nil stands for blocks.FromObject. A simulation of a
	// cluster reads each version once for all of its nodes, which have processors of their own.
	ReadPool func(*v1alpha1.AddressPool) (blocks.Pool, error)
}

// Member is the node as a part of its cluster.
type Member struct {
	Config
	// The NodeState is written at most once in writeInterval, and after idleInterval
	// without a change it is written again.
	writeInterval, idleInterval time.Duration

	book        *blocks.NodeBlocks
	urgent      change.Wake // an attach waits for an answer to the NodeState
	specChanged change.Wake
	followed    chan struct{} // closed when the cluster's Spec was followed once

	// Only keepState reads and writes these.
	policiesKnown bool
	nodeUID       string
	parsed        []parsedPool
	unusable      []api.Problem // AddressPools that cannot be read
	failing       bool          // the last write of the NodeState failed
	usable        usable
	grants        []blocks.Kept // of the ledger, as it was last read
	written       *v1alpha1.NodeStateStatus
	observed      time.Time // of written
	verify        bool      // another writer may have changed the object
	hurry         bool      // the next write does not wait for others
	pace          pace
	reported      trouble.Set
	networkNames  networkNames // of the VFs in the last NodeState
	health        health       // as hasNewHealth last saw it
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
	if m.ReadPool == nil {
		m.ReadPool = blocks.FromObject
	}
	m.book = blocks.NewBook(c.NodeName, m.WriteSoon)
	c.Node.Engine.Blocks = m.book
	return m
}

// WriteSoon makes the Member write the NodeState at once.
func (m *Member) WriteSoon() { m.urgent.Notify() }

// Followed returns a channel that is closed when the cluster's Spec was followed once.
func (m *Member) Followed() <-chan struct{} { return m.followed }

// Run follows the cluster's objects and writes the NodeState, until ctx ends. Run writes a change
// that an attach waits for at once, and every other change after writeInterval at the latest.
// Attaches and detaches of pods with a Confirmation share a write (pace). Run writes nothing before
// the AddressPools are known, since the controller takes back the addresses that the requests of a
// NodeState do not name.
func (m *Member) Run(ctx context.Context) {
	var g errgroup.Group
	g.Go(func() error { m.followSpec(ctx); return nil })
	m.keepState(ctx)
	_ = g.Wait() // always nil
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
		if err := m.Node.Reconciler.Pass(ctx); err != nil && ctx.Err() == nil {
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
		paced := false
		if dirty && known && !time.Now().Before(next) {
			next = time.Now().Add(m.writeInterval)
			m.hasNewHealth() // this status has the changes until now
			done := m.tryWrite(ctx, time.Now())
			paced = !done && !m.failing
			dirty = !done && m.failing
		}
		hardware := m.Node.Inventory.Changed() // after the listing by tryWrite, which is no change
		wait := m.idleInterval
		switch {
		case m.hasNewHealth(): // the status may be older than the change
			next, wait = time.Now(), 0
		case dirty && known:
			wait = max(time.Until(next), 0)
		case paced: // and an event may come before
			wait = min(wait, max(time.Until(m.pace.nextWrite()), time.Until(next)))
		}
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
			m.verify = m.verify || wait == m.idleInterval
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

// readSpec merges the cluster's objects into the wanted Spec of the node, and reports whether the
// Spec changed or is known for the first time. The device plugin's pools come after those of
// policies and wait until these are known: a VF must not be offered under the wrong name.
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
	if !m.parsePools(pools) {
		return true
	}
	var views []blocks.View
	m.unusable = nil
	for _, one := range m.parsed {
		o := one.object
		if one.err != nil {
			m.unusable = append(m.unusable, api.Problem{Object: "AddressPool " + o.Name, Reason: excerpt.Error(one.err), Next: "no pod gets addresses of it until it is corrected"})
			continue
		}
		if d := one.pool.Declared; d != nil && d.Err != nil {
			m.unusable = append(m.unusable, api.Problem{Object: "AddressPool " + o.Name, Reason: excerpt.Error(d.Err), Next: "correct its subnets; until then no pod gets an address of it anew"})
		}
		views = append(views, blocks.View{
			Pool: one.pool, Name: o.Name, Version: blocks.Version{UID: string(o.UID), Number: o.Generation}, Starved: slices.Contains(o.Status.Starved, m.NodeName), Exhausted: len(o.Status.Starved) > 0, ClusterNodes: int(o.Status.ClusterNodes),
		})
	}
	answered := m.book.RollCalls()
	m.book.SetPools(views)
	if !slices.Equal(m.book.RollCalls(), answered) || m.book.WantsAny() {
		m.WriteSoon() // the controller waits for an answer to a roll call, or for an address
	}
	return true
}

// parsedPool is an AddressPool as it was read last. The pool of a large cluster has thousands of
// blocks, and keepState runs after each attach.
type parsedPool struct {
	object  *v1alpha1.AddressPool
	version string
	pool    blocks.Pool
	err     error
}

// parsePools reads the AddressPools that have changed, and reports whether any has.
func (m *Member) parsePools(pools []*v1alpha1.AddressPool) (changed bool) {
	before := map[string]parsedPool{}
	for _, one := range m.parsed {
		before[one.object.Name] = one
	}
	changed = m.parsed == nil || len(pools) != len(m.parsed)
	m.parsed = make([]parsedPool, 0, len(pools))
	for _, o := range pools {
		one, known := before[o.Name]
		if !known || one.object != o || one.version != o.ResourceVersion || o.ResourceVersion == "" {
			one, changed = parsedPool{object: o, version: o.ResourceVersion}, true
			one.pool, one.err = m.ReadPool(o)
		}
		m.parsed = append(m.parsed, one)
	}
	return changed
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
	if n.Ready { // until then, all VFs and PFs are still being set up
		found := findTroubles(n, slices.Concat(m.Sources.Problems(), m.unusable, m.Node.Problems()))
		findLinkTroubles(found, n.PFs, m.reported)
		if m.Faults != nil {
			addFaults(found, m.Faults())
		}
		if m.Segments != nil {
			addSegments(found, m.Segments())
		}
		trouble.Emit(m.reported, found, m.Writer.NodeEvent)
		m.reported = found
	}
	state, err := m.buildState(n, now)
	if err != nil {
		return false, err
	}
	// A pod that came and went since the last write has a Confirmation that only a later
	// NodeState ends.
	same := reflect.DeepEqual(&state, m.written) && !m.Writer.LastConfirmation().After(m.observed)
	if same && !m.verify {
		m.hurry, m.pace.waiting = false, nil
		return true, nil
	}
	if !same && m.written != nil && !m.hurry && !m.mustHurry(&state) && !m.pace.isDue(now, &state, m.hasUnconfirmed(&state)) {
		return false, nil
	}
	seen := state
	seen.Observed = &metav1.MicroTime{Time: now}
	if err := m.Writer.WriteState(ctx, seen); err != nil {
		return false, err
	}
	m.verify = false
	if same { // the object still has the time of the last write, unless another writer changed it
		return true, nil
	}
	if m.written != nil { // else there may have been nothing to write
		m.pace.written = now
	}
	m.written, m.observed, m.hurry, m.pace.waiting = &state, now, false, nil
	return true, nil
}

// mustHurry reports whether other programs wait for what has changed since the last write.
func (m *Member) mustHurry(state *v1alpha1.NodeStateStatus) bool {
	return !changesOwnersOnly(m.written, state) || m.needsBlocks(m.written, state)
}

// buildState returns the wanted content of the NodeState.
func (m *Member) buildState(n api.NodeStatus, now time.Time) (v1alpha1.NodeStateStatus, error) {
	out := status.ToNodeState(n)
	out.NodeUID, out.Policies = m.nodeUID, m.Sources.PolicyStates()
	m.requestAhead(n.Pools)
	if err := m.keepGrants(n, now); err != nil {
		return out, err
	}
	var (
		l      blocks.Ledger
		unread int
	)
	out.RollCalls, out.RollCallsBehind = m.book.RollCalls(), m.book.Behind()
	// The read includes the addresses of attachments that are under way. They may have taken an
	// address of a block that the pool has lost (RollCalls).
	requests, err := m.book.Requests(func() (blocks.Ledger, error) {
		err := m.Node.Ledger.ViewLatest(func(tx *journal.Tx) error {
			l, unread = ledgerOf(tx), tx.UnreadAddresses()
			records := tx.Records()
			namePods(out.VFs, records)
			m.networkNames.fillIn(out.VFs, records, tx)
			l.Strangers, l.Aside = hasStrangers(n), m.Node.AddressesAside()
			return nil
		})
		return l, err
	})
	if err != nil {
		return out, err
	}
	out.AddressRequests, out.AddressesUnread = blocks.ToObject(requests), int32(min(unread, math.MaxInt32))
	out.Problems = append(out.Problems, omittedProblems(m.book.Omitted())...)
	out.Conditions = slices.Concat(out.Conditions, m.Sources.Conditions(out.Policies), []metav1.Condition{addressCondition(m.book.Disputed(l.Held), unread)})
	return out, nil
}
