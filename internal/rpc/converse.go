package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
)

// QuestionHandler answers one question of culvertd. ctx ends at the question's deadline and when the dialog
// ends. All work that QuestionHandler has begun must be over when it returns.
type QuestionHandler func(ctx context.Context, method string, params json.RawMessage) (any, error)

// Converse calls culvertd like Call, and answers culvertd's questions while it waits, several at
// once. It returns when every call of answer has ended.
func Converse(ctx context.Context, socket, method string, params, result any, answer QuestionHandler) (err error) {
	c, err := sendCall(ctx, socket, api.RPCRequest{Method: method, Dialog: true}, params)
	if err != nil {
		return err
	}
	defer c.close()
	asked, end := context.WithCancel(ctx)
	var answers errgroup.Group
	answers.SetLimit(maxQuestions)
	defer func() {
		end()
		_ = answers.Wait() // each reports to culvertd, or the connection is gone
	}()
	var writing sync.Mutex // guards writes to the connection
	for {
		resp, err := c.nextResponse(ctx)
		switch {
		case err != nil:
			return err
		case resp.Ask == nil:
			return decodeAnswer("culvertd's answer to "+method, resp.Result, result)
		}
		answers.Go(func() error {
			line := encodeReply(asked, *resp.Ask, answer)
			writing.Lock()
			defer writing.Unlock()
			_, err := c.conn.Write(line)
			return err
		})
	}
}

// encodeReply returns the answer to a question as it goes over the wire.
func encodeReply(ctx context.Context, q api.RPCQuestion, answer QuestionHandler) []byte {
	if q.DeadlineMS > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, time.Duration(q.DeadlineMS)*time.Millisecond)
		defer cancel()
	}
	r := api.RPCReply{ID: q.ID}
	v, err := answer(ctx, q.Method, q.Params)
	if err == nil {
		r.Result, err = json.Marshal(v)
	}
	if err == nil && len(r.Result) > maxReply-100 { // room for the braces, ID and keys
		err = fmt.Errorf("the answer to %s has %d bytes, more than %d", q.Method, len(r.Result), maxReply)
	}
	if err != nil {
		r = api.RPCReply{ID: q.ID, Error: wireError(err)}
	}
	line, _ := json.Marshal(r) // cannot fail: two texts, and a result that is JSON already
	return append(line, '\n')
}
