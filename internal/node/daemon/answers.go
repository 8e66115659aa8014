package daemon

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/node/journal"
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

// answerLedger answers with everything that is in the ledger.
func (s *Server) answerLedger(context.Context, json.RawMessage) (any, error) {
	c, err := s.status.Ledger()
	if err != nil {
		return nil, err
	}
	return status.Ledger(s.Config.Ledger, c), nil
}

// streamEvents sends the events after a number. If the request says so, it then sends further
// events as they come.
func (s *Server) streamEvents(ctx context.Context, raw json.RawMessage, send func(any) error) error {
	req, err := parseParams[api.EventsRequest](raw)
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
