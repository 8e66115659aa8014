package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/intake/pod"
	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/ipam/blocks"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/netannotation"
)

// objects is what a node sees of its cluster and tells it: kube.Client.
type objects interface {
	said
	// ObjectsChanged has a value when what is said may be something else.
	ObjectsChanged() <-chan struct{}
	teller
}

type said interface {
	Policies() (selected []*v1alpha1.NodePolicy, known bool)
	DevicePluginConfig() (data map[string]string, known bool)
	AddressPools() (pools []*v1alpha1.AddressPool, known bool)
	Networks() []api.NetworkDefinition
}

type teller interface {
	WriteState(context.Context, v1alpha1.NodeStateStatus) error
	NodeEvent(kind, reason, text string)
}

// member is the node as a part of its cluster: it follows what the cluster wishes
// and which addresses are the node's, and tells how the node is.
type member struct {
	name    string // of the node
	cluster objects
	node    *Node
	wishes  *wishes
	status  func(context.Context) (api.NodeStatus, error)
	log     *slog.Logger
	// How often the NodeState is written at most, and looked after at least:
	// stateWait, stateIdle.
	pace, idle time.Duration

	book     *blocks.Book
	tell     chan struct{} // one token: somebody waits for what the NodeState asks for
	wished   chan struct{} // one token: something else is wanted of the node
	followed chan struct{} // closed when what the cluster wishes was followed once

	// What follow alone looks at.
	heard   bool          // the policies have been known
	unused  []api.Problem // pools of addresses that cannot be read
	failing bool          // the last write of the NodeState failed
	usable  usable
	written *v1alpha1.NodeStateStatus
	told    troubles
}

// newMember has the addresses of networks given out of the node's blocks of the
// cluster's pools, from now on.
func newMember(name string, cluster objects, node *Node, wishes *wishes, status func(context.Context) (api.NodeStatus, error), log *slog.Logger) *member {
	m := &member{
		name: name, cluster: cluster, node: node, wishes: wishes, status: status, log: log, pace: stateWait, idle: stateIdle,
		tell: make(chan struct{}, 1), wished: make(chan struct{}, 1), followed: make(chan struct{}),
	}
	m.book = blocks.NewBook(name, func() { ring(m.tell) })
	node.Engine.Blocks = m.book
	return m
}

// ring puts a token into a channel that has room for one.
func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// Waits between two writes of the NodeState: the usual one, and how long nothing
// may change until it is looked whether what was written is still there.
const (
	stateWait = 3 * time.Second
	stateIdle = time.Minute
)

// follow follows the cluster's objects and keeps the NodeState, until ctx ends.
// What somebody waits for is told at once, all else every few seconds at most,
// and only when it has changed. Before the pools of addresses are known nothing
// is told: what is not in the requests of a NodeState is taken back.
func (m *member) follow(ctx context.Context) {
	var g errgroup.Group
	g.Go(func() error { m.obey(ctx); return nil })
	m.keep(ctx)
	_ = g.Wait() // it returns nil
}

// obey makes the node what is wanted of it each time that is something else. It is
// beside the rest: a PF may take its time, and addresses do not wait for it (I7).
func (m *member) obey(ctx context.Context) {
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case <-m.wished:
		}
		if err := m.node.Reconciler.Pass(ctx, false); err != nil && ctx.Err() == nil {
			m.log.Error("follow the cluster's wishes", "err", err)
		}
		if first {
			close(m.followed)
		}
	}
}

// keep is the rest of follow.
func (m *member) keep(ctx context.Context) {
	next, dirty := time.Now(), true
	for {
		changed := m.node.Ledger.Changed()
		if m.readWishes() {
			ring(m.wished)
		}
		known := m.readPools()
		if dirty && known && !time.Now().Before(next) {
			next = time.Now().Add(m.pace)
			err := m.write(ctx)
			if err != nil && !m.failing && ctx.Err() == nil {
				m.log.Warn("tell the cluster of this node; tried again until it works", "err", err)
			}
			dirty, m.failing = err != nil, err != nil
		}
		wait := m.idle
		if dirty && known {
			wait = max(time.Until(next), 0)
		}
		hardware := m.node.Inventory.Changed() // after the listing of our own, which is no news
		later := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			later.Stop()
			return
		case <-m.tell:
			next = time.Now()
		case <-m.cluster.ObjectsChanged():
		case <-changed:
		case <-hardware:
		case <-later.C:
			if wait == m.idle {
				m.written = nil // whatever became of it
			}
		}
		later.Stop()
		dirty = true
	}
}

// readWishes reports whether something else is wanted of the node, or it is known
// for the first time. The device plugin's pools come after those of policies, so
// they wait until these are known: a VF must not be offered under a name that is
// not its own.
func (m *member) readWishes() bool {
	policies, known := m.cluster.Policies()
	if !known {
		return false
	}
	m.wishes.setPolicies(policies)
	if data, known := m.cluster.DevicePluginConfig(); known {
		m.wishes.setDevicePlugin(data)
	}
	first := !m.heard
	m.heard = true
	return m.wishes.merge() || first
}

// readPools takes note of the pools of addresses, and reports whether they are
// known.
func (m *member) readPools() (known bool) {
	pools, known := m.cluster.AddressPools()
	if !known {
		return false
	}
	var views []blocks.View
	m.unused = nil
	for _, o := range pools {
		p, err := blocks.FromObject(o)
		if err != nil {
			m.unused = append(m.unused, api.Problem{Object: "AddressPool " + o.Name, Reason: oneLine(err), Next: "nobody is given addresses of it until it is mended"})
			continue
		}
		views = append(views, blocks.View{Pool: p, Starved: slices.Contains(o.Status.Starved, m.name)})
	}
	m.book.SetPools(views)
	return true
}

// write makes the NodeState say how the node is, when it does not.
func (m *member) write(ctx context.Context) error {
	status, err := m.status(ctx)
	if err != nil {
		return err
	}
	status.Problems = slices.Concat(m.unused, status.Problems)
	if status.Ready { // before, everything is under way
		now := troublesOf(status, slices.Concat(m.wishes.problems(), m.unused, m.node.problems()))
		news(m.told, now, m.cluster.NodeEvent)
		m.told = now
	}
	state, err := m.state(status)
	if err != nil || reflect.DeepEqual(&state, m.written) {
		return err
	}
	if err := m.cluster.WriteState(ctx, state); err != nil {
		return err
	}
	m.written = &state
	return nil
}

// state is what the NodeState should say.
func (m *member) state(status api.NodeStatus) (v1alpha1.NodeStateStatus, error) {
	out := stateOf(status)
	out.Policies = m.wishes.policyStates()
	m.ahead(status.Pools)
	requests, err := m.book.Requests(m.held)
	if err != nil {
		return out, err
	}
	out.AddressRequests = blocks.ToObject(requests)
	held, err := m.held()
	out.Conditions = slices.Concat(out.Conditions, m.wishes.conditions(out.Policies), []metav1.Condition{owned(m.book.Disputed(held))})
	return out, err
}

// usable is what decides which networks pods of this node can have: those there
// are, and of which resources there are VFs.
type usable struct {
	networks  []api.NetworkDefinition
	resources []string
}

// ahead has blocks asked for of the networks that can be used. They are anybody's
// texts, so they are read again only when something changed.
func (m *member) ahead(pools []api.Pool) {
	now := usable{networks: m.cluster.Networks()}
	for _, p := range pools {
		if p.VFs.Total > 0 {
			now.resources = append(now.resources, p.Name)
		}
	}
	if !reflect.DeepEqual(now, m.usable) {
		m.usable = now
		m.book.SetNetworks(now.shared())
	}
}

// mostRuns is how many runs of addresses are asked for ahead: whoever writes
// networks must not make a NodeState larger than an object may be. Those that are
// left out are asked for when they are used.
const mostRuns = 1024

// shared are the networks whose addresses are the whole cluster's and of whose
// resource the node has VFs. One that cannot be read is told to whoever asks for
// it.
func (u usable) shared() map[string]ipam.Config {
	out, left := map[string]ipam.Config{}, mostRuns
	for _, n := range u.networks {
		configs, err := pod.Own(n)
		if err != nil {
			continue
		}
		for _, c := range configs {
			resource := cmp.Or(n.Annotations[netannotation.ResourceName], c.Pool)
			here := slices.ContainsFunc(u.resources, func(name string) bool {
				_, bare, _ := strings.Cut(name, "/")
				return resource == "" || resource == name || resource == bare
			})
			if _, twice := out[c.Name]; !here || twice || c.IPAM.Scope == ipam.ScopeNode || len(c.IPAM.Sets) == 0 {
				continue
			}
			runs := 0
			for _, set := range c.IPAM.Usable() {
				runs += len(set)
			}
			if runs <= left {
				left -= runs
				out[c.Name] = c.IPAM
			}
		}
	}
	return out
}

// held are the addresses of the ledger that are the cluster's.
func (m *member) held() (out []blocks.Held, err error) {
	err = m.node.Ledger.View(func(tx *journal.Tx) error {
		all := tx.AddressesOf("")
		for _, a := range all {
			if !a.Local && a.Damage == "" {
				out = append(out, blocks.Held{Network: a.Network, Addr: a.Addr, Owner: a.Owner, Claim: a.Claim})
			}
		}
		return nil
	})
	return out, err
}

// oneLine is an error for a column.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
