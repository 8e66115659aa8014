package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/api"
)

// errGone: the client of a dialog left before it had answered.
var errGone = errors.New("the client went away before it had answered")

// dialog is the server's side of the questions of one connection.
type dialog struct {
	c    *connection
	able bool          // the client's request has Dialog set, so it answers questions
	gone chan struct{} // closed when the client sends nothing more

	slots chan struct{} // one for each question that is open

	mu   sync.Mutex // guards the fields below
	last uint64
	open map[uint64]chan api.RPCReply
}

func newDialog(c *connection, able bool) *dialog {
	return &dialog{c: c, able: able, gone: make(chan struct{}), slots: make(chan struct{}, maxQuestions), open: map[uint64]chan api.RPCReply{}}
}

// listenForReplies hands the client's answers to the callers that wait for them, until the
// client goes away, or answers a question that was not asked.
func (d *dialog) listenForReplies() {
	defer close(d.gone)
	for d.able {
		var reply api.RPCReply
		d.c.limit.N = maxReply + 2
		if err := d.c.dec.Decode(&reply); err != nil {
			return
		}
		d.mu.Lock()
		waiting, asked := d.open[reply.ID]
		delete(d.open, reply.ID)
		d.mu.Unlock()
		if !asked {
			return
		}
		waiting <- reply
	}
}

// askClient is an Ask. After the caller gives up, the question stays open: the client works on
// it, and will answer.
func (d *dialog) askClient(ctx context.Context, method string, params, result any) error {
	if !d.able {
		return fmt.Errorf("ask the client for %s: it cannot be asked, so it is older than this culvertd: install the culvert-cni that came with it", method)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("ask the client for %s: %w", method, err)
	}
	if len(raw) > maxQuestion {
		return fmt.Errorf("ask the client for %s: the question has %d bytes, more than %d", method, len(raw), maxQuestion)
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return fmt.Errorf("ask the client for %s: %w", method, context.Cause(ctx))
	}
	q, answer := d.newQuestion(method, raw)
	if deadline, ok := ctx.Deadline(); ok {
		q.DeadlineMS = max(1, time.Until(deadline).Milliseconds())
	}
	if err := d.c.writeResponse(response{Ask: q}); err != nil {
		return fmt.Errorf("ask the client for %s: %w: %w", method, errGone, err)
	}
	select {
	case reply := <-answer:
		if reply.Error != nil {
			return remoteError{reply.Error}
		}
		return decodeAnswer("the client's answer to "+method, reply.Result, result)
	case <-d.gone:
		return fmt.Errorf("ask the client for %s: %w", method, errGone)
	case <-ctx.Done():
		return fmt.Errorf("ask the client for %s: %w", method, context.Cause(ctx))
	}
}

func (d *dialog) newQuestion(method string, params json.RawMessage) (*api.RPCQuestion, <-chan api.RPCReply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	answer := make(chan api.RPCReply, 1) // the caller may have given up
	d.open[d.last] = answer
	return &api.RPCQuestion{ID: d.last, Method: method, Params: params}, answer
}
