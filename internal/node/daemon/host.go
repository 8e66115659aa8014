package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

// hostPlan answers with the changes that a host.yaml would make.
func (s *Server) hostPlan(ctx context.Context, raw json.RawMessage) (any, error) {
	req, err := parseParams[api.HostRequest](raw)
	if err != nil {
		return nil, err
	}
	plan, plans, err := s.planHost(ctx, req.File, req.Content)
	if err == nil && req.ForTrial {
		plan.Stays = s.trials.Stays(plans)
	}
	return plan, err
}

// hostApply writes host.yaml and applies it, if no owner loses a VF by that or force is set.
func (s *Server) hostApply(ctx context.Context, raw json.RawMessage) (any, error) {
	req, err := parseParams[api.HostRequest](raw)
	if err != nil {
		return nil, err
	}
	if err := s.trials.CheckFree(); err != nil {
		return nil, err
	}
	plan, _, err := s.planHost(ctx, req.File, req.Content)
	if err != nil {
		return nil, err
	}
	if isStopped(plan, req.Force) {
		return api.ApplyResult{Plan: plan}, nil
	}
	free, err := s.trials.Drop()
	if err != nil {
		return nil, err
	}
	defer free()
	if err := s.hostFile.Write([]byte(req.Content)); err != nil {
		return nil, err
	}
	if err := s.node.Reconciler.Apply(context.WithoutCancel(ctx), req.Force); err != nil {
		s.Log.Error("apply", "file", s.HostFile, "err", err)
	}
	return api.ApplyResult{Plan: plan, Applied: true, Problems: s.listProblems()}, nil
}

// isStopped reports whether a plan is not applied: a PF cannot have it, or an owner would lose a VF
// without force.
func isStopped(plan api.Plan, force bool) bool {
	for _, p := range plan.PFs {
		if p.Refused != "" || len(p.Hurts) > 0 && !force {
			return true
		}
	}
	return false
}

// longestTrial bounds the time in which an administrator has to confirm a host.yaml.
const longestTrial = 24 * time.Hour

// hostTry puts a host.yaml on trial. It takes no VF from an owner, since going back could not give it
// back.
func (s *Server) hostTry(ctx context.Context, raw json.RawMessage) (any, error) {
	req, err := parseParams[api.HostTryRequest](raw)
	if err != nil {
		return nil, err
	}
	window := time.Duration(req.Seconds) * time.Second
	if req.Seconds < 1 || req.Seconds > int(longestTrial/time.Second) {
		return nil, fmt.Errorf("a trial of %d s: %w: want 1 s to %s", req.Seconds, vf.ErrInvalid, longestTrial)
	}
	if err := s.trials.CheckFree(); err != nil {
		return nil, err
	}
	plan, plans, err := s.planHost(ctx, req.File, req.Content)
	if err != nil {
		return nil, err
	}
	if isStopped(plan, false) {
		return api.ApplyResult{Plan: plan}, nil
	}
	plan.Stays = s.trials.Stays(plans)
	if err := s.trials.Begin(ctx, req.Content, window, plans); err != nil {
		return nil, err
	}
	return api.ApplyResult{Plan: plan, Applied: true, Problems: s.listProblems(), Trial: s.trials.Status()}, nil
}

// hostConfirm ends the trial, and host.yaml stays.
func (s *Server) hostConfirm(context.Context, json.RawMessage) (any, error) {
	return s.trials.Confirm()
}

// hostRevert goes back to the host.yaml before the trial.
func (s *Server) hostRevert(ctx context.Context, _ json.RawMessage) (any, error) {
	if _, err := s.trials.Revert(ctx); err != nil {
		return nil, err
	}
	return api.ApplyResult{Plan: api.Plan{PFs: []api.PFPlan{}}, Applied: true, Problems: s.listProblems(), Trial: s.trials.Status()}, nil
}

func (s *Server) planHost(ctx context.Context, file, content string) (api.Plan, []reconcile.PFPlan, error) {
	spec, err := desired.Parse(file, []byte(content))
	if err != nil {
		return api.Plan{}, nil, err
	}
	spec = s.sources.PreviewHost(spec)
	plans, err := s.node.Reconciler.PlanFor(ctx, spec)
	if err != nil {
		return api.Plan{}, nil, err
	}
	records, err := s.node.Records()
	if err != nil {
		return api.Plan{}, nil, err
	}
	return status.Plan(s.node.Spec(), spec, plans, records), plans, nil
}
