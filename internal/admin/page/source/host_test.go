package source

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/rpcserver"
)

// culvertd answers a Host.
type culvertd struct {
	mu       sync.Mutex // guards the rest
	status   api.NodeStatus
	asked    int // for the status
	events   []api.Event
	newEvent chan api.Event
}

func (c *culvertd) handle(srv *rpc.Server) {
	srv.Handle(api.MethodStatus, func(context.Context, json.RawMessage) (any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		st := c.status
		st.Time = time.Now()
		return st, nil
	})
	srv.HandleStream(api.MethodEvents, func(ctx context.Context, raw json.RawMessage, send func(any) error) error {
		var req api.EventsRequest
		if err := json.Unmarshal(raw, &req); err != nil {
			return err
		}
		for _, e := range c.events {
			if e.Seq > req.After {
				if err := send(e); err != nil {
					return err
				}
			}
		}
		for req.Follow {
			select {
			case <-ctx.Done():
				return nil
			case e := <-c.newEvent:
				if err := send(e); err != nil {
					return err
				}
			}
		}
		return nil
	})
	srv.Handle(api.MethodHostPlan, func(_ context.Context, raw json.RawMessage) (any, error) {
		var req api.HostRequest
		if err := json.Unmarshal(raw, &req); err != nil {
			return nil, err
		}
		if strings.Contains(req.Content, "max") {
			return nil, errors.New("culvertd refuses it")
		}
		return api.Plan{PFs: []api.PFPlan{{PF: "enp1s0", Changes: []api.Change{{Op: api.Modify, Attribute: "sriov_numvfs", To: "2"}}}}}, nil
	})
}

func serveHost(t *testing.T, plans ...string) (*culvertd, *Host) {
	id := vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 1}}}
	owner := vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	c := &culvertd{
		status: api.NodeStatus{Node: "host1", Ready: true, Problems: []api.Problem{{Object: "PF enp1s0", Reason: "no link"}},
			PFs:   []api.PF{{PF: vf.PF{Name: "enp1s0", ID: id.PF}, VFs: api.Counts{Total: 1, Used: 1}}},
			Pools: []api.Pool{{Name: "culvert.dev/a", VFs: api.Counts{Total: 1, Used: 1}}},
			VFs:   []api.VF{{Name: "enp1s0#0", ID: id, PF: "enp1s0", Phase: "attached", Owner: &owner, Network: "default/net"}}},
		events: []api.Event{
			{Seq: 1, Time: at, Type: "Normal", Reason: reasons.Attached, VF: id, Phase: vf.PhaseAttached, Owner: owner},
			{Seq: 2, Time: at.Add(time.Minute), Type: "Normal", Reason: "Other", Object: "PF x"},
			{Seq: 3, Time: at.Add(2 * time.Minute), Type: "Normal", Reason: reasons.Detached, VF: id, Phase: vf.PhaseFree, Owner: owner},
		},
		newEvent: make(chan api.Event),
	}
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, c.handle)
	return c, NewHost(socket, plans)
}

// A host is an overview of one node. All who ask within a second share one status, until an event comes.
func TestHost(t *testing.T) {
	c, h := serveHost(t)
	o, err := h.ReadOverview(t.Context())
	if err != nil || o.Cluster || o.Name != "host1" || !o.HasRates || o.Plans || len(o.Nodes) != 1 || o.Nodes[0].LinkDown != 1 || o.Nodes[0].Problems != 1 || o.Nodes[0].VFs.Used != 1 ||
		len(o.Pools) != 1 || len(o.Networks) != 1 || o.Networks[0].Owners[0] != "pod default/a" || len(o.Problems) != 1 || o.Problems[0].Node != "host1" || o.Policies == nil || o.Segments == nil {
		t.Errorf("%v %+v", err, o)
	}
	for _, name := range []string{"", "host1"} {
		seen := 0
		if err := h.ReadNodes(t.Context(), name, func(api.NodeStatus) bool { seen++; return true }); err != nil || seen != 1 {
			t.Errorf("%q: %d nodes, %v", name, seen, err)
		}
	}
	if err := h.ReadNodes(t.Context(), "host2", nil); !errors.Is(err, vf.ErrNotFound) || !strings.Contains(err.Error(), "this host is host1") {
		t.Error(err)
	}
	if c.asked != 1 {
		t.Errorf("culvertd was asked %d times", c.asked)
	}
	changed, stop := follow(t, h)
	defer stop()
	<-changed // by the events that there were
	c.mu.Lock()
	c.status.Ready = false
	c.mu.Unlock()
	c.newEvent <- api.Event{Seq: 4}
	await(t, h, changed, func(o page.Overview) bool { return !o.Nodes[0].Ready })
}

// The events come newest first, and the history of a VF as culvert vf history has it.
func TestHostHistory(t *testing.T) {
	_, h := serveHost(t)
	events, err := h.ReadEvents(t.Context(), "", 2)
	if err != nil || len(events) != 2 || events[0].Seq != 3 || events[1].Seq != 2 {
		t.Error(events, err)
	}
	past, err := h.ReadHistory(t.Context(), "host1", "enp1s0#0")
	if err != nil || len(past.Spans) != 1 || past.Spans[0].Owner.Name != "default/a" || past.Spans[0].To.Sub(past.Spans[0].From) != 2*time.Minute || len(past.Events) != 2 || past.Command != "" {
		t.Errorf("%v %+v", err, past)
	}
	if _, err := h.ReadHistory(t.Context(), "host1", "enp9s0#0"); !errors.Is(err, vf.ErrNotFound) {
		t.Error(err)
	}
}

// A file's plan is culvertd's. It is read anew, and its mistakes are the plan's error.
func TestHostPlans(t *testing.T) {
	file := filepath.Join(t.TempDir(), "host.yaml")
	_, h := serveHost(t, file)
	for text, want := range map[string]string{
		"pfs: [{name: enp1s0, vfs: 2}]": "", "pfs: [{name: enp1s0, vfs: max}]": "culvertd refuses it", "pfs: [{nam: enp1s0}]": file + ":1",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		plans, err := h.ReadPlans(t.Context())
		if err != nil || len(plans) != 1 || plans[0].File != file || !strings.Contains(plans[0].Error, want) || (want == "") != (len(plans[0].Plan.PFs) == 1) {
			t.Errorf("%s: %v %+v", text, err, plans)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if plans, err := h.ReadPlans(t.Context()); err != nil || !strings.Contains(plans[0].Error, "name a file that is there") {
		t.Errorf("%v %+v", err, plans)
	}
}
