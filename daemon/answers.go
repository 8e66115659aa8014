package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	pfs, err := s.node.Inventory.Refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the NICs: %w", err)
	}
	in := status.Input{
		Node: hostname(), Version: s.Version, Now: time.Now(), Ready: s.ready.Load(),
		Spec: s.node.Spec(), PFs: pfs, Conditions: s.conditions(),
	}
	err = s.node.Ledger.View(func(tx *journal.Tx) (err error) {
		if in.Records, err = tx.Records(); err != nil {
			return err
		}
		in.Addresses, err = tx.AddressesOf("")
		return err
	})
	if err != nil {
		return nil, err
	}
	in.Seen = s.seen(ctx, in.Records)
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
		events, err := tx.Events(seq)
		for _, e := range events {
			out = append(out, api.Event(e))
		}
		return err
	})
	return out, err
}

// hostPlan answers with what a host.yaml would change.
func (s *Server) hostPlan(ctx context.Context, raw json.RawMessage) (any, error) {
	_, plan, _, err := s.planOf(ctx, raw)
	return plan, err
}

// hostApply writes host.yaml and follows it, when that hurts nobody or is
// forced.
func (s *Server) hostApply(ctx context.Context, raw json.RawMessage) (any, error) {
	req, plan, spec, err := s.planOf(ctx, raw)
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
	s.fileProblem.Store(nil)
	s.node.SetSpec(spec)
	if err := s.node.Reconciler.Pass(context.WithoutCancel(ctx), req.Force); err != nil {
		s.Log.Error("apply", "err", err)
	}
	return api.ApplyResult{Plan: plan, Applied: true, Problems: s.conditions()}, nil
}

func (s *Server) planOf(ctx context.Context, raw json.RawMessage) (req api.HostRequest, plan api.Plan, spec desired.Spec, err error) {
	if req, err = params[api.HostRequest](raw); err != nil {
		return req, plan, spec, err
	}
	if spec, err = desired.Parse(req.File, []byte(req.Content)); err != nil {
		return req, plan, spec, err
	}
	plans, err := s.node.Reconciler.PlanFor(ctx, spec)
	if err != nil {
		return req, plan, spec, err
	}
	return req, describe(plans, spec), spec, nil
}

// writeFile replaces a file as a whole or not at all, durably.
func writeFile(path string, content []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".host-*.yaml")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
