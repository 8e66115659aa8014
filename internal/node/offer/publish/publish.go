// Package publish keeps a node's ResourceSlices as package offer wants them. Views of the node enter,
// from intake/deviceplugin; the cluster's client (node/kube) compares and writes. daemon runs a
// Publisher where culvertd has a cluster.
package publish

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/node/offer"
)

// Rhythm of the writes: quiet is how long a state lasts before it is written, latest the longest delay
// of a change. A failed write is tried again after firstWait, then after twice as long, at most
// lastWait.
const (
	quiet     = 250 * time.Millisecond
	latest    = 750 * time.Millisecond
	firstWait = time.Second
	lastWait  = 30 * time.Second
)

// cluster is kube.Slices.
type cluster interface {
	// Follow keeps the node's slices in memory until ctx ends.
	Follow(ctx context.Context)
	// Changed has a value when they may have changed.
	Changed() <-chan struct{}
	// Put makes the node's slices those of the pools; it writes only the difference.
	Put(ctx context.Context, pools []offer.Pool) error
	// TakesTaints is whether the cluster keeps taints of devices, as far as the writes have shown.
	TakesTaints() bool
	// Delete deletes all slices of the node. It needs no Follow.
	Delete(ctx context.Context) error
}

// Publisher keeps the slices of one node.
type Publisher struct {
	node    string
	cluster cluster
	log     *slog.Logger

	woken change.Wake
	mu    sync.Mutex  // guards the rest
	view  *offer.View // nil until the first one
	err   error       // of the last try
}

// New returns a Publisher for the node of that name.
func New(node string, c cluster, log *slog.Logger) *Publisher {
	return &Publisher{node: node, cluster: c, log: log, woken: change.NewWake()}
}

// Show replaces the view of the node. It does not wait.
func (p *Publisher) Show(v offer.View) {
	p.mu.Lock()
	p.view = &v
	p.mu.Unlock()
	p.woken.Notify()
}

// Run publishes until ctx ends. The slices stay then. A node that never offered a VF to claims watches
// no slices: Run deletes once those that an earlier culvertd may have left.
func (p *Publisher) Run(ctx context.Context) {
	var g errgroup.Group
	w := worker{Publisher: p, follow: func() {
		g.Go(func() error { p.cluster.Follow(ctx); return nil })
	}}
	for p.waitForChange(ctx, w.retry()) {
		w.publishOnce(ctx)
	}
	_ = g.Wait() // they return nil
}

// waitForChange waits for a change, and then until it has lasted. retry is nil if there is nothing to
// try again. It returns false when ctx ended.
func (p *Publisher) waitForChange(ctx context.Context, retry <-chan time.Time) bool {
	select {
	case <-p.woken:
	case <-p.cluster.Changed():
	case <-retry:
		return true
	case <-ctx.Done():
		return false
	}
	first := time.Now()
	for {
		timer := time.NewTimer(untilWrite(first, time.Now()))
		select {
		case <-p.woken:
			timer.Stop()
		case <-timer.C:
			return true
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// untilWrite returns how long to wait for further changes after one at the time now, if the first one
// was seen at first.
func untilWrite(first, now time.Time) time.Duration {
	return max(0, min(quiet, first.Add(latest).Sub(now)))
}

// worker is the state of Run.
type worker struct {
	*Publisher
	follow   func()
	isFollow bool // follow was called
	isClear  bool // the node has no slice, by Delete
	last     []offer.Pool
	failures int
}

// retry returns a channel that has a value when the last try has to be repeated; nil if it succeeded.
func (w *worker) retry() <-chan time.Time {
	if w.failures == 0 {
		return nil
	}
	return time.After(retryAfter(w.failures))
}

// retryAfter returns how long to wait after so many failures in a row, at least 1.
func retryAfter(failures int) time.Duration {
	return min(lastWait, firstWait<<min(failures-1, 10))
}

// publishOnce makes the slices those of the present view.
func (w *worker) publishOnce(ctx context.Context) {
	w.mu.Lock()
	view := w.view
	w.mu.Unlock()
	// A partial Spec may lack pools of the cluster's policies, whose slices stay.
	if view == nil || view.Spec.Partial {
		return
	}
	now := *view
	now.NoTaints = !w.cluster.TakesTaints()
	pools, err := offer.Pools(w.node, now, w.last, time.Now())
	w.last = pools
	if putErr := w.put(ctx, pools); putErr != nil {
		err = putErr
	}
	if !now.NoTaints && !w.cluster.TakesTaints() {
		w.log.Warn("the cluster drops the taints of devices in ResourceSlices: VFs whose PF has no link leave the slices instead; Kubernetes 1.37 has taints by default")
		w.woken.Notify()
	}
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	w.err = err
	w.mu.Unlock()
	w.failures++
	if err == nil {
		w.failures = 0
		return
	}
	w.log.Warn("publish ResourceSlices", "err", err)
}

// put writes the pools. It begins to follow the slices when there are some.
func (w *worker) put(ctx context.Context, pools []offer.Pool) error {
	if len(pools) == 0 && !w.isFollow {
		if w.isClear {
			return nil
		}
		err := w.cluster.Delete(ctx)
		w.isClear = err == nil
		return err
	}
	if !w.isFollow {
		w.isFollow = true
		w.follow()
	}
	return w.cluster.Put(ctx, pools)
}

// Problems returns the reason why the slices are not as they should be.
func (p *Publisher) Problems() []api.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return nil
	}
	return []api.Problem{{Object: "ResourceSlices", Reason: p.err.Error(), Next: "culvertd tries again on its own"}}
}
