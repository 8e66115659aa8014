package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"time"

	"github.com/culvert-net/culvert/internal/api"
)

// Call sends a request to culvertd behind socket and waits for one answer, which it decodes into
// result (nil: not wanted). The request carries the deadline of ctx, and culvertd cancels it when
// ctx ends.
//
// The error wraps ErrNoDaemon when there is no answer, and the sentinel of package vf that
// culvertd's error wrapped; errors.As finds the *api.Error.
func Call(ctx context.Context, socket, method string, params, result any) error {
	c, err := sendCall(ctx, socket, api.RPCRequest{Method: method}, params)
	if err != nil {
		return err
	}
	defer c.close()
	resp, err := c.nextResponse(ctx)
	if err != nil {
		return err
	}
	return decodeAnswer("culvertd's answer to "+method, resp.Result, result)
}

// decodeAnswer decodes an answer into result; a nil result means that the caller does not want it.
func decodeAnswer(what string, answer json.RawMessage, result any) error {
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Stream sends a request to culvertd behind socket and passes every result to each. It returns when
// the server ends the stream (nil), ctx is done, or each returns an error, which Stream then
// returns. Other errors are as for Call.
func Stream(ctx context.Context, socket, method string, params any, each func(json.RawMessage) error) error {
	c, err := sendCall(ctx, socket, api.RPCRequest{Method: method}, params)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		resp, err := c.nextResponse(ctx)
		if err != nil {
			return err
		}
		if resp.Result != nil {
			if err := each(resp.Result); err != nil {
				return err
			}
		}
		if !resp.More {
			return nil
		}
	}
}

// call is one connection, its request sent.
type call struct {
	socket string
	method string
	conn   net.Conn
	limit  *io.LimitedReader
	dec    *json.Decoder
	close  func()
}

func sendCall(ctx context.Context, socket string, req api.RPCRequest, params any) (*call, error) {
	method := req.Method
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", method, err)
	}
	req.Params = raw
	if deadline, ok := ctx.Deadline(); ok {
		req.DeadlineMS = max(1, time.Until(deadline).Milliseconds())
	}
	msg, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", method, err)
	}
	if len(msg) > maxRequest {
		return nil, fmt.Errorf("call %s: the request has %d bytes, more than %d", method, len(msg), maxRequest)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w to use %s: it is root's; try sudo", ErrDenied, socket)
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("call %s: %w", method, context.Cause(ctx))
	case err != nil:
		return nil, &noDaemon{socket, err}
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c := &call{socket: socket, method: method, conn: conn, limit: &io.LimitedReader{R: conn}}
	c.dec = json.NewDecoder(bufio.NewReader(c.limit))
	c.close = func() { stop(); conn.Close() }
	// The server may answer a request that it refuses before it has read it. So the answer counts,
	// and not the error of the write.
	if _, err := conn.Write(append(msg, '\n')); err != nil && ctx.Err() != nil {
		c.close()
		return nil, fmt.Errorf("call %s: %w", method, context.Cause(ctx))
	}
	return c, nil
}

// nextResponse reads one response.
func (c *call) nextResponse(ctx context.Context) (api.RPCResponse, error) {
	var resp api.RPCResponse
	c.limit.N = maxResponse
	err := c.dec.Decode(&resp)
	var closed *net.OpError
	switch {
	case err != nil && ctx.Err() != nil:
		return resp, fmt.Errorf("culvertd did not answer %s in time: %w", c.method, context.Cause(ctx))
	case err != nil && c.limit.N == 0:
		return resp, fmt.Errorf("culvertd's answer to %s is longer than %d bytes", c.method, maxResponse)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &closed):
		return resp, &noDaemon{c.socket, fmt.Errorf("it closed the connection before it had answered %s: %w", c.method, err)}
	case err != nil:
		return resp, fmt.Errorf("culvertd's answer to %s: %w", c.method, err)
	case resp.Error != nil:
		return resp, remoteError{resp.Error}
	}
	return resp, nil
}
