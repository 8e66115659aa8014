package cni

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// WhereaboutsMode says who gives out the addresses of networks with ipam of type whereabouts.
// It must be the same on all nodes: plugin and pools do not know of each other's addresses.
type WhereaboutsMode string

// The modes.
const (
	WhereaboutsAuto   WhereaboutsMode = "auto"   // the plugin where whereabouts is installed in the cluster, else Culvert
	WhereaboutsPlugin WhereaboutsMode = "plugin" // the plugin of that name
	WhereaboutsPools  WhereaboutsMode = "pools"  // Culvert
)

// ParseWhereaboutsMode reads the flag --whereabouts.
func ParseWhereaboutsMode(s string) (WhereaboutsMode, error) {
	switch m := WhereaboutsMode(s); m {
	case WhereaboutsAuto, WhereaboutsPlugin, WhereaboutsPools:
		return m, nil
	}
	return "", fmt.Errorf("--whereabouts %q: %w: want auto, plugin or pools", s, vf.ErrInvalid)
}

// whereaboutsGroup is the API group of whereabouts' own objects: where the cluster has it,
// whereabouts is installed, though its plugin may not have arrived on a new node.
const whereaboutsGroup = "whereabouts.cni.cncf.io"

// An answer of the cluster counts for whereaboutsLook, so that not every attach asks. Where none is
// known, a question that failed counts for whereaboutsRetry.
const (
	whereaboutsLook  = time.Minute
	whereaboutsRetry = 5 * time.Second
)

// Serves returns a function for Handler.ServesWhereabouts. hasGroup reports whether the cluster has
// an API group, within a bound of its own. Nil stands for no connection to a cluster: then auto is
// plugin, since pools of this node alone would give out the same addresses as other nodes.
func (m WhereaboutsMode) Serves(hasGroup func(ctx context.Context, group string) (bool, error)) func(context.Context) (bool, error) {
	if m != WhereaboutsAuto || hasGroup == nil {
		return func(context.Context) (bool, error) { return m == WhereaboutsPools, nil }
	}
	look := &groupLook{hasGroup: hasGroup, now: time.Now}
	return func(ctx context.Context) (bool, error) {
		installed, err := look.isInstalled(ctx)
		return err == nil && !installed, err
	}
}

// groupLook knows whether the cluster has the API group of whereabouts. It asks again now and then,
// and answers by what it knows meanwhile: the API server may hang for long.
type groupLook struct {
	hasGroup func(ctx context.Context, group string) (bool, error)
	now      func() time.Time

	mu        sync.Mutex // guards the rest
	known     bool       // installed is an answer
	installed bool
	err       error         // of the last question
	asked     time.Time     // when the last question ended
	asking    chan struct{} // closed when the question that is under way ends; nil if none is
}

// isInstalled waits for an answer only while none is known.
func (g *groupLook) isInstalled(ctx context.Context) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	every := whereaboutsRetry
	if g.known {
		every = whereaboutsLook
	}
	if age := g.now().Sub(g.asked); g.asking == nil && (g.asked.IsZero() || age < 0 || age >= every) {
		g.asking = make(chan struct{})
		go g.askCluster(context.WithoutCancel(ctx), g.asking)
	}
	if asking := g.asking; asking != nil && !g.known {
		g.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
		}
		g.mu.Lock()
	}
	switch {
	case g.known:
		return g.installed, nil
	case g.asking != nil:
		return false, fmt.Errorf("whether whereabouts is installed in the cluster: %w: the API server has not answered yet", vf.ErrNotReady)
	}
	return false, fmt.Errorf("whether whereabouts is installed in the cluster: %w", g.err)
}

func (g *groupLook) askCluster(ctx context.Context, done chan struct{}) {
	has, err := g.hasGroup(ctx, whereaboutsGroup)
	g.mu.Lock()
	defer g.mu.Unlock()
	defer close(done)
	g.asking, g.asked, g.err = nil, g.now(), err
	if err == nil {
		g.known, g.installed = true, has
	}
}
