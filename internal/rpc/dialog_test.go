package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// add answers questions by adding one.
func add(_ context.Context, method string, params json.RawMessage) (any, error) {
	var n int
	if err := json.Unmarshal(params, &n); err != nil {
		return nil, err
	}
	if method != "add" {
		return nil, fmt.Errorf("%s: %w", method, vf.ErrNotFound)
	}
	return n + 1, nil
}

func TestDialog(t *testing.T) {
	s := newServer()
	s.HandleDialog("sum", func(ctx context.Context, _ json.RawMessage, ask Ask) (any, error) {
		var sum atomic.Int64
		var g errgroup.Group
		for i := range 3 * maxQuestions { // more than may be open at once
			g.Go(func() error {
				var n int64
				err := ask(ctx, "add", i, &n)
				sum.Add(n)
				return err
			})
		}
		return sum.Load(), errors.Join(g.Wait(), ask(ctx, "add", 0, nil))
	})
	s.HandleDialog("fail", func(ctx context.Context, _ json.RawMessage, ask Ask) (any, error) {
		err := ask(ctx, "other", 1, nil)
		if !errors.Is(err, vf.ErrNotFound) {
			t.Errorf("the client's error is %v", err)
		}
		return nil, err
	})
	socket, _ := start(t, s)
	var got int
	if err := Converse(t.Context(), socket, "sum", nil, &got, add); err != nil {
		t.Error(err)
	}
	if err := Converse(t.Context(), socket, "fail", nil, nil, add); !errors.Is(err, vf.ErrNotFound) {
		t.Error(err)
	}
	// A client that cannot answer questions gets an error and no question.
	if err := Call(t.Context(), socket, "sum", nil, &got); err == nil || !strings.Contains(err.Error(), "older than this culvertd") {
		t.Error(err)
	}
}

// A client that answers questions may also call methods that ask none.
func TestConverseWithoutQuestions(t *testing.T) {
	s := newServer()
	s.Handle("seven", func(context.Context, json.RawMessage) (any, error) { return 7, nil })
	socket, _ := start(t, s)
	var got int
	if err := Converse(t.Context(), socket, "seven", nil, &got, add); err != nil || got != 7 {
		t.Errorf("%d, %v", got, err)
	}
}

// When the client leaves, ask returns an error at once, and the handler's context ends.
func TestClientLeavesADialog(t *testing.T) {
	s := newServer()
	told := make(chan error, 1)
	s.HandleDialog("ask", func(ctx context.Context, _ json.RawMessage, ask Ask) (any, error) {
		err := ask(context.WithoutCancel(ctx), "add", 1, nil)
		<-ctx.Done()
		told <- err
		return nil, err
	})
	socket, _ := start(t, s)
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan struct{})
	err := Converse(ctx, socket, "ask", nil, nil, func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
		leave()
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	if err == nil {
		t.Error("an answer")
	}
	select {
	case <-ended: // Converse has waited for it
	default:
		t.Error("the answer was still at work")
	}
	if err := <-told; !errors.Is(err, errGone) && !errors.Is(err, context.Canceled) { // the latter when its answer was faster
		t.Errorf("the handler was told %v", err)
	}
}

// The context of an Answer has the question's deadline.
func TestQuestionHasADeadline(t *testing.T) {
	s := newServer()
	asked := make(chan struct{}, 100)
	s.HandleDialog("ask", func(ctx context.Context, _ json.RawMessage, ask Ask) (any, error) {
		// A deadline may pass before the question is put: then a longer one is tried.
		for within := 20 * time.Millisecond; len(asked) == 0 && within < time.Minute; within *= 2 {
			short, cancel := context.WithTimeout(ctx, within)
			if err := ask(short, "late", 1, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a late answer: %v", err)
			}
			cancel()
		}
		var n int
		return n, ask(ctx, "add", 1, &n) // the late answer is not taken for this one
	})
	socket, _ := start(t, s)
	err := Converse(t.Context(), socket, "ask", nil, nil, func(ctx context.Context, method string, _ json.RawMessage) (any, error) {
		if method == "late" {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return 2, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDialogIsBounded(t *testing.T) {
	s := newServer()
	s.HandleDialog("ask", func(ctx context.Context, _ json.RawMessage, ask Ask) (any, error) {
		if err := ask(ctx, "add", strings.Repeat("x", maxQuestion), nil); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("a question that is too long: %v", err)
		}
		return nil, ask(ctx, "add", 1, nil)
	})
	socket, _ := start(t, s)
	err := Converse(t.Context(), socket, "ask", nil, nil, func(context.Context, string, json.RawMessage) (any, error) {
		return strings.Repeat("x", maxReply), nil
	})
	if err == nil || !strings.Contains(err.Error(), "more than 1048576") {
		t.Errorf("an answer that is too long: %v", err)
	}
}

// FuzzReply shows that a client gets one answer to its request, for any bytes that it sends in
// reply to a question.
func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":5}`))
	f.Add([]byte(`{"id":1,"error":{"code":"held","message":"m"}}{"id":1}`))
	f.Add([]byte(`{"id":2}{"id":1}`))
	f.Add([]byte(`{"id":1,"result":"x"}` + "\n"))
	f.Add([]byte(`[[[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 64<<10 {
			return
		}
		s := newServer()
		s.HandleDialog("ask", func(ctx context.Context, _ json.RawMessage, ask Ask) (any, error) {
			var n int
			return n, ask(ctx, "add", 1, &n)
		})
		client, server := socketPair(t)
		defer client.Close()
		var g errgroup.Group
		g.Go(func() error { newConnection(s, server).serveRequest(t.Context(), t.Context()); return nil })
		if _, err := client.Write(append([]byte(`{"method":"ask","dialog":true}`+"\n"), raw...)); err != nil {
			t.Fatal(err)
		}
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(client)
		answers := 0
		for {
			var resp api.RPCResponse
			if err := dec.Decode(&resp); err != nil {
				break
			}
			if resp.Ask == nil {
				answers++
			}
		}
		_ = g.Wait()
		if answers != 1 {
			t.Errorf("%q gets %d answers", raw, answers)
		}
	})
}

// FuzzQuestion shows that Converse returns for any bytes that a server sends, and answers only
// questions that it was asked.
func FuzzQuestion(f *testing.F) {
	f.Add([]byte(`{"ask":{"id":1,"method":"add","params":1}}{"result":5}`))
	f.Add([]byte(`{"ask":{"id":1,"deadlineMS":-1}}{"ask":{"id":1}}{"error":{}}`))
	f.Add([]byte(`{"ask":null}`))
	f.Add([]byte(`{}{}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 64<<10 {
			return
		}
		socket := filepath.Join(dir, "q.sock")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var g errgroup.Group
		g.Go(func() error {
			c, err := l.AcceptUnix()
			if err != nil {
				return err
			}
			defer c.Close()
			if err := json.NewDecoder(c).Decode(new(api.RPCRequest)); err != nil {
				return err
			}
			if _, err := c.Write(raw); err != nil {
				return nil
			}
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			return nil
		})
		_ = Converse(t.Context(), socket, "m", nil, new(any), add)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}
