package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

func parseParams[T any](raw json.RawMessage) (v T, err error) {
	if len(raw) == 0 {
		return v, nil
	}
	if err := exactjson.Decode(raw, &v); err != nil {
		return v, fmt.Errorf("parameters: %w: %w", vf.ErrInvalid, err)
	}
	return v, nil
}

// answerStatus answers with the node's status.
func (s *Server) answerStatus(ctx context.Context, _ json.RawMessage) (any, error) {
	return s.status.Status(ctx)
}

// answerMetrics answers with the metrics as text, whether or not culvertd serves them at an address.
func (s *Server) answerMetrics(context.Context, json.RawMessage) (any, error) {
	var text strings.Builder
	if err := s.metrics.WriteText(&text); err != nil {
		return nil, err
	}
	return api.Metrics{Text: text.String()}, nil
}

// answerLedger answers with what is in the ledger besides the events, which MethodEvents streams.
func (s *Server) answerLedger(context.Context, json.RawMessage) (any, error) {
	c, err := s.status.Ledger()
	if err != nil {
		return nil, err
	}
	return status.LedgerAnswer(status.Ledger(s.Config.Ledger, c)), nil
}

// rebaseVF takes the baseline of a VF anew, or answers what that would change.
func (s *Server) rebaseVF(ctx context.Context, raw json.RawMessage) (any, error) {
	req, err := parseParams[api.RebaseRequest](raw)
	if err != nil {
		return nil, err
	}
	var out api.Rebased
	if req.Accept == nil {
		out.Differences, err = s.node.Upkeep.RebaseDiff(ctx, req.VF)
	} else {
		out.Differences, err = s.node.Upkeep.Rebase(ctx, req.VF, req.Accept)
	}
	return out, err
}
