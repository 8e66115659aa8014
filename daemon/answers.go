package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/status"
	"github.com/culvert-net/culvert/vf"
)

func params[T any](raw json.RawMessage) (v T, err error) {
	if len(raw) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("parameters: %w: %w", vf.ErrInvalid, err)
	}
	return v, nil
}

// status answers with everything: the hardware read now, the ledger, and what
// is wrong.
func (s *Server) status(ctx context.Context, _ json.RawMessage) (any, error) {
	return s.nodeStatus(ctx)
}

func (s *Server) nodeStatus(ctx context.Context) (api.NodeStatus, error) {
	pfs, err := s.node.Inventory.Refresh(ctx)
	if err != nil {
		return api.NodeStatus{}, fmt.Errorf("list the NICs: %w", err)
	}
	in := status.Input{
		Node: hostname(), Version: s.Version, Now: time.Now(), Ready: s.ready.Load(),
		Spec: s.node.Spec(), PFs: pfs, Conditions: append(s.conditions(), s.claimed(pfs)...),
	}
	c, err := s.content()
	if err != nil {
		return api.NodeStatus{}, err
	}
	in.Records, in.Addresses = c.Records, c.Addresses
	in.Conditions = append(in.Conditions, status.LedgerConditions(c)...)
	in.Seen, in.Given, in.Users = s.seen(ctx, in.Records), s.given(ctx), s.users(ctx, in.Records)
	return status.Assemble(in), nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}

// streamEvents sends the events after a number, and goes on with those that
// come when asked to.
func (s *Server) streamEvents(ctx context.Context, raw json.RawMessage, send func(any) error) error {
	req, err := params[api.EventsRequest](raw)
	if err != nil {
		return err
	}
	for {
		changed := s.node.Ledger.Changed()
		events, err := s.eventsAfter(req.After)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := send(e); err != nil {
				return err
			}
			req.After = e.Seq
		}
		if !req.Follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (s *Server) eventsAfter(seq uint64) ([]api.Event, error) {
	out := []api.Event{}
	err := s.node.Ledger.View(func(tx *journal.Tx) error {
		events := tx.Events(seq)
		for _, e := range events {
			out = append(out, api.Event(e))
		}
		return nil
	})
	return out, err
}

// hostPlan answers with what a host.yaml would change.
func (s *Server) hostPlan(ctx context.Context, raw json.RawMessage) (any, error) {
	req, err := params[api.HostRequest](raw)
	if err != nil {
		return nil, err
	}
	return s.plan(ctx, req)
}

// hostApply writes host.yaml and follows it, when that hurts nobody or is
// forced.
func (s *Server) hostApply(ctx context.Context, raw json.RawMessage) (any, error) {
	req, err := params[api.HostRequest](raw)
	if err != nil {
		return nil, err
	}
	plan, err := s.plan(ctx, req)
	if err != nil {
		return nil, err
	}
	for _, p := range plan.PFs {
		if p.Refused != "" || len(p.Hurts) > 0 && !req.Force {
			return api.ApplyResult{Plan: plan}, nil
		}
	}
	if err := writeFile(s.HostFile, []byte(req.Content)); err != nil {
		return nil, err
	}
	s.readHostFile()
	if err := s.node.Reconciler.Pass(context.WithoutCancel(ctx), req.Force); err != nil {
		s.Log.Error("apply", "file", s.HostFile, "err", err)
	}
	return api.ApplyResult{Plan: plan, Applied: true, Problems: s.conditions()}, nil
}

func (s *Server) plan(ctx context.Context, req api.HostRequest) (api.Plan, error) {
	spec, err := desired.Parse(req.File, []byte(req.Content))
	if err != nil {
		return api.Plan{}, err
	}
	spec = s.wishes.ifHost(spec)
	plans, err := s.node.Reconciler.PlanFor(ctx, spec)
	if err != nil {
		return api.Plan{}, err
	}
	records, err := s.node.records()
	if err != nil {
		return api.Plan{}, err
	}
	return status.Plan(s.node.Spec(), spec, plans, records), nil
}
