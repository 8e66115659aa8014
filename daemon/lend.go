package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/rpc"
)

// lendRate lends an attached VF a rate until the client answers that it is done, leaves, or
// the time is up; then the VF's own rate is set again and read back, and that is the result.
func (s *Server) lendRate(ctx context.Context, raw json.RawMessage, ask rpc.Ask) (any, error) {
	req, err := params[api.LendRateRequest](raw)
	if err != nil {
		return nil, err
	}
	long := time.Duration(req.Seconds) * time.Second
	rec, err := s.node.Engine.Lend(ctx, req.VF, req.MaxTxRate, long)
	if err != nil {
		return nil, err
	}
	using, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	gone := ask(using, api.RateIsLent, api.LentRate{MaxTxRate: rec.Lease.Lent.MaxTxRate}, nil)
	return nil, errors.Join(s.node.Engine.GiveBack(ctx, rec), gone)
}
