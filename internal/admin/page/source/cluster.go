package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/admin/clusterview"
	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

// sharedEvery is the time between two reads of policies, pools and culvertd's pods.
const sharedEvery = 15 * time.Second

// Cluster is a cluster, as its objects show it to the user of a kubeconfig. It implements page.Source.
type Cluster struct {
	cluster *clusterview.Cluster
	plans   []string // files of NodePolicies
	states  *clusterview.StateWatch
	read    change.Signal // the objects, or an error

	mu        sync.Mutex // guards the rest
	nodes     map[string]*v1alpha1.NodeState
	summaries map[string]summary
	shared    clusterview.Objects
	hasNodes  bool // the NodeStates have been read
	hasShared bool
	nodesErr  error // of the last try
	sharedErr error
	overview  *page.Overview // nil: out of date
}

// NewCluster returns the cluster of a kubeconfig. plans names files of NodePolicies whose effect the page
// shows.
func NewCluster(cluster *clusterview.Cluster, plans []string) *Cluster {
	return &Cluster{cluster: cluster, plans: plans, nodes: map[string]*v1alpha1.NodeState{}, summaries: map[string]summary{}}
}

// Follow watches the NodeStates, and reads the other objects more slowly. Calls do not overlap.
func (c *Cluster) Follow(ctx context.Context, changed func()) error {
	notify := func() {
		c.read.Notify()
		changed()
	}
	if c.states == nil {
		c.states = &clusterview.StateWatch{Cluster: c.cluster}
	}
	c.states.Changed = func(name string, s *v1alpha1.NodeState) {
		if c.setNode(name, s) {
			notify()
		}
	}
	c.states.Read = func(err error) {
		c.setRead(func() { c.hasNodes, c.nodesErr = c.hasNodes || err == nil, err })
		notify()
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.states.Run(ctx) })
	g.Go(func() error {
		for ctx.Err() == nil {
			c.readShared(ctx)
			notify()
			select {
			case <-ctx.Done():
			case <-time.After(sharedEvery):
			}
		}
		return ctx.Err()
	})
	return g.Wait()
}

// setRead changes what was read.
func (c *Cluster) setRead(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	c.overview = nil
}

// setNode keeps a NodeState, or drops it if it is nil. shown is false before all of them have been read.
func (c *Cluster) setNode(name string, s *v1alpha1.NodeState) (shown bool) {
	var sum summary
	if s != nil {
		sum = summariseNode(status.FromNodeState(*s, clusterview.ReportTime(s)))
	}
	c.setRead(func() {
		shown = c.hasNodes
		if s == nil {
			delete(c.nodes, name)
			delete(c.summaries, name)
			return
		}
		c.nodes[name], c.summaries[name] = s, sum
	})
	return shown
}

func (c *Cluster) readShared(ctx context.Context) {
	o, err := c.cluster.ReadShared(ctx)
	if ctx.Err() != nil {
		return
	}
	c.setRead(func() {
		if c.sharedErr = err; err == nil {
			c.shared, c.hasShared = o, true
		}
	})
}

// awaitObjects waits until everything has been read once, and returns the error of the last try. It holds c.mu
// unless there is an error.
func (c *Cluster) awaitObjects(ctx context.Context) error {
	for {
		next := c.read.Next()
		c.mu.Lock()
		for _, err := range []error{c.nodesErr, c.sharedErr} {
			if err != nil {
				c.mu.Unlock()
				return err
			}
		}
		if c.hasNodes && c.hasShared {
			return nil
		}
		c.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("read cluster %s: %w", c.cluster.Name, ctx.Err())
		}
	}
}

// ReadOverview implements page.Source.
func (c *Cluster) ReadOverview(ctx context.Context) (page.Overview, error) {
	if err := c.awaitObjects(ctx); err != nil {
		return page.Overview{}, err
	}
	defer c.mu.Unlock()
	if c.overview == nil {
		states := make([]v1alpha1.NodeState, 0, len(c.nodes))
		for _, s := range c.nodes {
			without := *s
			without.Status.VFs = nil // the summaries have what is shown of them
			states = append(states, without)
		}
		o := makeOverview(c.assembleNodes(states), c.summaries)
		o.Cluster, o.Plans = true, len(c.plans) > 0
		c.overview = &o
	}
	o := *c.overview
	o.Time = time.Now()
	return o, nil
}

// assembleNodes makes the status of some nodes. The caller holds c.mu.
func (c *Cluster) assembleNodes(states []v1alpha1.NodeState) api.ClusterStatus {
	return status.AssembleCluster(status.Cluster{
		Name: c.cluster.Name, Now: time.Now(), States: states, Policies: c.shared.Policies, Pools: c.shared.Pools, Daemons: c.shared.Daemons,
	})
}

// ReadNodes implements page.Source.
func (c *Cluster) ReadNodes(ctx context.Context, name string, visit func(api.NodeStatus) bool) error {
	if err := c.awaitObjects(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	names := []string{name}
	if name == "" {
		names = slices.Sorted(maps.Keys(c.nodes))
	}
	for _, n := range names {
		s := c.nodes[n]
		if s == nil {
			return fmt.Errorf("node %s: %w: there is no NodeState of that name in cluster %s", n, vf.ErrNotFound, c.cluster.Name)
		}
		node := c.assembleNodes([]v1alpha1.NodeState{*s}).Nodes[0]
		node.Time = clusterview.ReportTime(s)
		if !visit(node) {
			break
		}
	}
	return nil
}

// ReadHistory implements page.Source: a cluster's objects have no history, and the command shows it.
func (c *Cluster) ReadHistory(ctx context.Context, node, name string) (page.History, error) {
	if err := c.awaitObjects(ctx); err != nil {
		return page.History{}, err
	}
	defer c.mu.Unlock()
	out := page.History{Spans: []api.Span{}, Events: []api.Event{}}
	at := slices.IndexFunc(c.shared.Daemons, func(d api.DaemonPod) bool { return d.Node == node })
	if at < 0 {
		out.Command = fmt.Sprintf("culvert vf history %s    # on node %s", quoteWord(name), quoteWord(node))
		return out, nil
	}
	d := c.shared.Daemons[at]
	out.Command = fmt.Sprintf("kubectl -n %s exec %s -- culvert vf history %s", d.Namespace, d.Name, quoteWord(name))
	return out, nil
}

// quoteWord quotes a word for a shell unless it needs no quotes.
func quoteWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/#", r)
	}
	if word != "" && !strings.HasPrefix(word, "#") && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ReadEvents implements page.Source.
func (c *Cluster) ReadEvents(ctx context.Context, node string, limit int) ([]api.Event, error) {
	return c.cluster.ListEvents(ctx, node, limit)
}
