package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
)

// errStopping ends a loan early.
var errStopping = errors.New("culvertd is stopping")

// lendRate lends an attached VF a rate. The loan ends when the client answers that it is done or
// disconnects, when the time is up, or when culvertd stops: no loan delays that. Then lendRate sets
// the VF's own rate again and reads it back, and answers with the outcome.
func (s *Server) lendRate(stopping context.Context) rpc.DialogHandler {
	return func(ctx context.Context, raw json.RawMessage, ask rpc.Ask) (any, error) {
		req, err := parseParams[api.LendRateRequest](raw)
		if err != nil {
			return nil, err
		}
		long := time.Duration(req.Seconds) * time.Second
		rec, err := s.node.Loans.Lend(ctx, req.VF, req.MaxTxRate, long)
		if err != nil {
			return nil, err
		}
		using, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(stopping, func() { end(errStopping) })()
		using, cancel := context.WithTimeout(using, long)
		defer cancel()
		gone := ask(using, api.MethodRateIsLent, api.LentRate{MaxTxRate: rec.Lease.Lent.MaxTxRate}, nil)
		return nil, errors.Join(s.node.Loans.GiveBack(ctx, rec), gone)
	}
}
