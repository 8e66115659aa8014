package daemon

import (
	"context"
	"encoding/json"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/status"
)

// ledger answers with everything that is in the ledger.
func (s *Server) ledger(context.Context, json.RawMessage) (any, error) {
	c, err := s.content()
	if err != nil {
		return nil, err
	}
	return status.Ledger(s.Config.Ledger, c), nil
}

func (s *Server) content() (c journal.Content, err error) {
	err = s.node.Ledger.View(func(tx *journal.Tx) error {
		c = tx.Content()
		return nil
	})
	return c, err
}
