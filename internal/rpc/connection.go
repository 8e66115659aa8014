package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
)

// connection is one client and its one request.
type connection struct {
	server  *Server
	conn    *net.UnixConn
	limit   *io.LimitedReader // of dec: how much of the next message it may read
	dec     *json.Decoder
	writing sync.Mutex // guards writes to conn
}

func newConnection(s *Server, c *net.UnixConn) *connection {
	limit := &io.LimitedReader{R: c}
	return &connection{server: s, conn: c, limit: limit, dec: json.NewDecoder(limit)}
}

// serveRequest answers the request. accepting ends when the shutdown begins, running when the
// shutdown stops waiting for requests.
func (c *connection) serveRequest(accepting, running context.Context) {
	defer c.conn.Close()
	if err := c.server.authorize(c.conn); err != nil {
		c.server.log.Warn("connection refused", "err", err)
		if !errors.Is(err, ErrDenied) {
			err = fmt.Errorf("%w: %w", ErrDenied, err)
		}
		if err := c.writeResponse(response{Error: wireError(err)}); err != nil {
			c.server.log.Debug("the refused client went before its answer", "err", err)
		}
		return
	}
	req, err := c.readRequest(accepting)
	if err != nil {
		refusal := &api.Error{Code: CodeBadRequest, Message: err.Error(), Details: hintOlder(err)}
		if err := c.writeResponse(response{Error: refusal}); err == nil {
			c.drainInput()
		}
		return
	}
	ctx, cancel := context.WithCancel(running)
	defer cancel()
	if req.DeadlineMS > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(req.DeadlineMS)*time.Millisecond)
		defer cancel()
	}
	talk := newDialog(c, req.Dialog)
	var watch errgroup.Group
	watch.Go(func() error {
		talk.listenForReplies()
		c.drainInput() // the client sends nothing more: this ends when it goes
		cancel()
		return nil
	})
	if err := c.writeResponse(c.answerRequest(accepting, ctx, req, talk)); err != nil {
		c.server.log.Debug("the client went before its answer", "method", req.Method, "err", err)
	}
	c.conn.Close()
	watch.Wait() //nolint:errcheck // its function returns nil
}

// readRequest reads the request. An idle client does not hold up a shutdown.
func (c *connection) readRequest(accepting context.Context) (api.RPCRequest, error) {
	var req api.RPCRequest
	if err := c.conn.SetReadDeadline(time.Now().Add(c.server.patience)); err != nil {
		return req, err
	}
	stop := context.AfterFunc(accepting, func() { c.conn.SetReadDeadline(time.Now()) }) //nolint:errcheck // then the connection is closed, which ends the read too
	c.limit.N = maxRequest + 2
	var raw json.RawMessage // the decoder reads the replies of a dialog, too, which may have new fields
	err := c.dec.Decode(&raw)
	if err == nil {
		err = exactjson.Decode(raw, &req)
	}
	switch {
	case !stop():
		return req, errors.New("culvertd is stopping; try again in a moment")
	case c.limit.N == 0:
		return req, fmt.Errorf("the request is longer than %d bytes", maxRequest)
	case err != nil:
		return req, fmt.Errorf("read the request: %w", err)
	}
	return req, c.conn.SetReadDeadline(time.Time{})
}

// drainInput reads the rest of the client's input until the client closes the connection: a
// close with unread bytes would drop culvertd's answer. No client sends more than a few
// requests.
func (c *connection) drainInput() {
	io.CopyN(io.Discard, c.conn, 8*maxRequest) //nolint:errcheck // how it ends does not matter
}

// answerRequest runs the handler; a panic there is an error of this request only.
func (c *connection) answerRequest(accepting, ctx context.Context, req api.RPCRequest, talk *dialog) (resp response) {
	defer func() {
		if p := recover(); p != nil {
			c.server.log.Error("panic in a handler", "method", req.Method, "panic", p, "stack", string(debug.Stack()))
			resp = response{Error: &api.Error{
				Code:    CodeInternal,
				Message: fmt.Sprintf("culvertd hit a defect in %s: %v", req.Method, p),
				Details: "please report it with the output of: journalctl -u culvertd",
			}}
		}
	}()
	if stream, ok := c.server.streams[req.Method]; ok {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(accepting, cancel)()
		err := stream(ctx, req.Params, func(v any) error { return c.sendResult(ctx, v) })
		if err != nil && !(errors.Is(err, context.Canceled) && accepting.Err() != nil) {
			return response{Error: wireError(err)}
		}
		return response{}
	}
	handle, ok := c.server.handlers[req.Method]
	if with, dialog := c.server.dialogs[req.Method]; dialog {
		handle, ok = func(ctx context.Context, params json.RawMessage, _ *net.UnixConn) (any, error) {
			return with(ctx, params, talk.askClient)
		}, true
	}
	if !ok {
		return response{Error: &api.Error{Code: CodeUnknownMethod, Message: fmt.Sprintf("culvertd has no method %q", req.Method),
			Details: olderDaemon}}
	}
	v, err := handle(ctx, req.Params, c.conn)
	if err != nil {
		return response{Error: wireError(err)}
	}
	return response{Result: orNull(v)}
}

// sendResult sends one result of a stream.
func (c *connection) sendResult(ctx context.Context, v any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.writeResponse(response{Result: orNull(v), More: true})
}

// response is an api.RPCResponse whose result is encoded only once, as a part of the message: an answer
// may have megabytes.
type response struct {
	Result any              `json:"result,omitempty"`
	Error  *api.Error       `json:"error,omitempty"`
	More   bool             `json:"more,omitempty"`
	Ask    *api.RPCQuestion `json:"ask,omitempty"`
}

// orNull keeps a result of nil in the message.
func orNull(v any) any {
	if v == nil {
		return json.RawMessage("null")
	}
	return v
}

func (c *connection) writeResponse(r response) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(responseTime)); err != nil {
		return err
	}
	w := &counter{to: c.conn}
	err := c.encodeTo(w, r)
	if err != nil && w.bytes == 0 { // it could not be encoded, or the client has gone
		unsent := response{Error: &api.Error{Code: CodeInternal, Message: fmt.Sprintf("encode the answer: %v", err)}}
		err = errors.Join(err, c.encodeTo(w, unsent))
	}
	return err
}

// encodeTo writes a response; a panic of a type's own encoder is an error of this response only.
func (c *connection) encodeTo(w io.Writer, r response) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.server.log.Error("panic in an encoder", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("culvertd hit a defect: %v", p)
		}
	}()
	parts, ok := r.Result.(PartsWriter)
	if !ok || r.Error != nil || r.More {
		return json.NewEncoder(w).Encode(r)
	}
	out := bufio.NewWriter(w)
	out.WriteString(`{"result":`) //nolint:errcheck // Flush returns the error of any write
	if err := parts.WriteParts(out); err != nil {
		return err
	}
	out.WriteString("}\n") //nolint:errcheck // Flush returns the error of any write
	return out.Flush()
}

// PartsWriter is a result that writes itself as JSON part by part, since the whole would need too much
// memory. An error after the first bytes ends the connection, and the client reports that.
type PartsWriter interface {
	WriteParts(w io.Writer) error
}

// counter counts the bytes that it writes.
type counter struct {
	to    io.Writer
	bytes int
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.bytes += n
	return n, err
}
