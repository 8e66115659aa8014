package source

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/status/pick"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

const (
	// fresh is how long a status serves all who ask: one read of the feed and what the page asks then.
	fresh = time.Second
	// again is the time until culvertd is asked again for events after it went away.
	again = 2 * time.Second
)

// Host is this host, as its culvertd shows it. It implements page.Source.
type Host struct {
	socket string
	plans  []string // files of the form of host.yaml

	mu     sync.Mutex // guards the rest, and is held while the status is read: others want the same one
	status api.NodeStatus
	readAt time.Time // zero: the status is out of date
}

// NewHost returns the host whose culvertd listens on a socket. plans names files whose effect the page
// shows.
func NewHost(socket string, plans []string) *Host { return &Host{socket: socket, plans: plans} }

// Follow reports each event of culvertd as a change.
func (h *Host) Follow(ctx context.Context, changed func()) error {
	var after uint64
	for ctx.Err() == nil {
		_ = h.streamEvents(ctx, api.EventsRequest{After: after, Follow: true}, func(e api.Event) { // reads report that culvertd is away
			after = e.Seq
			h.mu.Lock()
			h.readAt = time.Time{}
			h.mu.Unlock()
			changed()
		})
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
	return ctx.Err()
}

func (h *Host) streamEvents(ctx context.Context, req api.EventsRequest, visit func(api.Event)) error {
	return rpc.Stream(ctx, h.socket, api.MethodEvents, req, func(raw json.RawMessage) error {
		var e api.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("culvertd's answer to events: %w", err)
		}
		visit(e)
		return nil
	})
}

// readStatus returns the status, which is at most a second old and has all events.
func (h *Host) readStatus(ctx context.Context) (api.NodeStatus, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.readAt.IsZero() && time.Since(h.readAt) < fresh {
		return h.status, nil
	}
	var st api.NodeStatus
	if err := rpc.Call(ctx, h.socket, api.MethodStatus, nil, &st); err != nil {
		return st, err
	}
	h.status, h.readAt = st, time.Now()
	return st, nil
}

// ReadOverview implements page.Source.
func (h *Host) ReadOverview(ctx context.Context) (page.Overview, error) {
	st, err := h.readStatus(ctx)
	if err != nil {
		return page.Overview{}, err
	}
	o := makeOverview(api.ClusterStatus{Cluster: st.Node, Time: st.Time, Nodes: []api.NodeStatus{st}, Policies: []api.ClusterPolicy{}},
		map[string]summary{st.Node: summariseNode(st)})
	o.HasRates, o.Plans = true, len(h.plans) > 0
	return o, nil
}

// ReadNodes implements page.Source.
func (h *Host) ReadNodes(ctx context.Context, name string, visit func(api.NodeStatus) bool) error {
	st, err := h.readStatus(ctx)
	if err != nil {
		return err
	}
	if name != "" && name != st.Node {
		return fmt.Errorf("node %s: %w: this host is %s", name, vf.ErrNotFound, st.Node)
	}
	visit(st)
	return nil
}

// ReadHistory implements page.Source.
func (h *Host) ReadHistory(ctx context.Context, _, name string) (page.History, error) {
	st, err := h.readStatus(ctx)
	if err != nil {
		return page.History{}, err
	}
	filter, err := pick.NewHistory(st, pick.Events{}, name, "")
	if err != nil {
		return page.History{}, err
	}
	events, err := h.listEvents(ctx)
	if err != nil {
		return page.History{}, err
	}
	return page.History{Spans: filter.MakeSpans(st, events), Events: filter.SelectEvents(st, events)}, nil
}

// listEvents returns all events that culvertd has, oldest first.
func (h *Host) listEvents(ctx context.Context) ([]api.Event, error) {
	events := []api.Event{}
	err := h.streamEvents(ctx, api.EventsRequest{}, func(e api.Event) { events = append(events, e) })
	return events, err
}

// ReadEvents implements page.Source.
func (h *Host) ReadEvents(ctx context.Context, _ string, limit int) ([]api.Event, error) {
	events, err := h.listEvents(ctx)
	events = events[max(0, len(events)-limit):]
	slices.Reverse(events)
	return events, err
}

// ReadPlans implements page.Source. It reads the files anew, so that the page shows edits.
func (h *Host) ReadPlans(ctx context.Context) ([]page.Plan, error) {
	out := []page.Plan{}
	for _, file := range h.plans {
		p := page.Plan{File: file}
		if err := h.planFile(ctx, file, &p.Plan); err != nil {
			p.Error = err.Error()
		}
		out = append(out, p)
	}
	return out, nil
}

func (h *Host) planFile(ctx context.Context, file string, plan *api.Plan) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return cli.ExplainFile(file, err)
	}
	if _, err := desired.Parse(file, content); err != nil {
		return err
	}
	return rpc.Call(ctx, h.socket, api.MethodHostPlan, api.HostRequest{File: file, Content: string(content)}, plan)
}
