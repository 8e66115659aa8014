package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

func everybody(*net.UnixConn) error { return nil }

// start serves s on a socket of the test's own. stop begins the shutdown and returns the error of
// Serve.
func start(t *testing.T, s *Server) (socket string, stop func() error) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "d.sock")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return s.Serve(ctx, l) })
	stop = func() error { cancel(); return g.Wait() }
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return socket, stop
}

// newServer returns a server that gives clients as long as a busy machine needs.
func newServer() *Server {
	s := NewServer(everybody, slog.New(slog.DiscardHandler))
	s.patience = 5 * time.Minute
	return s
}

type echo struct{ Text string }

func TestCall(t *testing.T) {
	s := newServer()
	s.Handle("echo", func(_ context.Context, params json.RawMessage) (any, error) {
		var e echo
		return &e, json.Unmarshal(params, &e)
	})
	socket, _ := start(t, s)
	var got echo
	want := echo{strings.Repeat("x", 100_000)}
	if err := Call(t.Context(), socket, "echo", want, &got); err != nil || got != want {
		t.Errorf("%v, %d bytes back", err, len(got.Text))
	}
	if err := Call(t.Context(), socket, "echo", want, nil); err != nil {
		t.Errorf("a result that is not wanted: %v", err)
	}
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v (%v), want 0600", info.Mode(), err)
	}
}

// parts is a string that writes itself in pieces, and fails after them if it has an error.
type parts struct {
	pieces int
	err    error
}

func (p parts) WriteParts(w io.Writer) error {
	_, err := io.WriteString(w, `"`)
	for range p.pieces {
		_, wrong := io.WriteString(w, "xxxxxxxxxx")
		err = errors.Join(err, wrong)
	}
	_, wrong := io.WriteString(w, `"`)
	return errors.Join(err, wrong, p.err)
}

// A result that writes itself in parts arrives whole. A failure among the parts is an error, whether
// bytes were sent or not.
func TestResultInParts(t *testing.T) {
	s := newServer()
	broken := errors.New("the disk has gone")
	for name, p := range map[string]parts{"empty": {}, "long": {pieces: 100_000}, "broken": {err: broken}, "long and broken": {100_000, broken}} {
		s.Handle(name, func(context.Context, json.RawMessage) (any, error) { return p, nil })
	}
	socket, _ := start(t, s)
	for name, want := range map[string]int{"empty": 0, "long": 1_000_000} {
		var got string
		if err := Call(t.Context(), socket, name, nil, &got); err != nil || len(got) != want {
			t.Errorf("%s: %v, %d bytes", name, err, len(got))
		}
	}
	if err := Call(t.Context(), socket, "broken", nil, nil); err == nil || !strings.Contains(err.Error(), "the disk has gone") {
		t.Errorf("broken: %v", err)
	}
	if err := Call(t.Context(), socket, "long and broken", nil, nil); err == nil {
		t.Error("half a result is no error")
	}
}

func TestErrorsCrossTheSocket(t *testing.T) {
	plain := errors.New("disk full")
	s := newServer()
	failures := map[string]error{
		"held":    fmt.Errorf("VF 3: %w by pod default/a", vf.ErrHeld),
		"nothing": fmt.Errorf("pool a: %w", vf.ErrNothingFree),
		"ready":   fmt.Errorf("pool a: %w", vf.ErrNotReady),
		"invalid": fmt.Errorf("pool a: %w", vf.ErrInvalid),
		"plain":   plain,
		"own":     &api.Error{Code: "own", Message: "m", Details: "d"},
	}
	for name, err := range failures {
		s.Handle(name, func(context.Context, json.RawMessage) (any, error) { return nil, err })
	}
	s.Handle("panic", func(context.Context, json.RawMessage) (any, error) { panic("oh") })
	s.Handle("unencodable", func(context.Context, json.RawMessage) (any, error) { return func() {}, nil })
	s.Handle("broken", func(context.Context, json.RawMessage) (any, error) { return brokenEncoder{}, nil })
	socket, _ := start(t, s)
	for _, tc := range []struct {
		method, code, message string
		is                    error
	}{
		{"held", "held", "VF 3: held by pod default/a", vf.ErrHeld},
		{"nothing", "nothing-free", "pool a: nothing free", vf.ErrNothingFree},
		{"ready", "not-ready", "pool a: not ready", vf.ErrNotReady},
		{"invalid", "invalid", "pool a: invalid", vf.ErrInvalid},
		{"plain", CodeInternal, "disk full", nil},
		{"own", "own", "m", nil},
		{"panic", CodeInternal, "culvertd hit a defect in panic: oh", nil},
		{"unencodable", CodeInternal, "encode the answer: json: unsupported type: func()", nil},
		{"broken", CodeInternal, "encode the answer: culvertd hit a defect: ah", nil},
		{"nonsense", CodeUnknownMethod, `culvertd has no method "nonsense"`, nil},
	} {
		err := Call(t.Context(), socket, tc.method, nil, nil)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != tc.code || e.Message != tc.message {
			t.Errorf("%s: %#v", tc.method, err)
		}
		for _, c := range codes {
			if errors.Is(err, c.err) != errors.Is(tc.is, c.err) {
				t.Errorf("%s: errors.Is(%v, %v) is wrong", tc.method, err, c.err)
			}
		}
	}
}

// brokenEncoder panics when it is encoded.
type brokenEncoder struct{}

func (brokenEncoder) MarshalJSON() ([]byte, error) { panic("ah") }

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	absent, stale, mute := filepath.Join(dir, "absent"), filepath.Join(dir, "stale"), filepath.Join(dir, "mute")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	m, err := net.ListenUnix("unix", &net.UnixAddr{Name: mute})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var g errgroup.Group
	g.Go(func() error {
		c, err := m.Accept()
		if err != nil {
			return err
		}
		return c.Close()
	})
	for _, socket := range []string{absent, stale, mute} {
		err := Call(t.Context(), socket, "echo", nil, nil)
		if want := "culvertd does not answer on " + socket + ": systemctl status culvertd"; !errors.Is(err, ErrNoDaemon) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestPeerIsRefused(t *testing.T) {
	s := NewServer(func(*net.UnixConn) error { return errors.New("uid 1000 is not root") }, slog.New(slog.DiscardHandler))
	s.Handle("echo", func(context.Context, json.RawMessage) (any, error) {
		t.Error("the handler ran")
		return nil, nil
	})
	socket, _ := start(t, s)
	err := Call(t.Context(), socket, "echo", nil, nil)
	if !errors.Is(err, ErrDenied) || err.Error() != "not allowed: uid 1000 is not root" {
		t.Errorf("got %v", err)
	}
}

func TestHandlerEndsWithItsClient(t *testing.T) {
	for name, call := range map[string]func(socket string, entered <-chan struct{}) error{
		"deadline": func(socket string, entered <-chan struct{}) (err error) {
			// A deadline may pass before the handler begins: then a longer one is tried.
			for within := 50 * time.Millisecond; len(entered) == 0 && within < time.Minute; within *= 2 {
				ctx, cancel := context.WithTimeout(context.Background(), within)
				err = Call(ctx, socket, "wait", nil, nil)
				cancel()
			}
			return err
		},
		"gone": func(socket string, entered <-chan struct{}) error {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() { <-entered; cancel() }()
			return Call(ctx, socket, "wait", nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			entered, ended := make(chan struct{}, 100), make(chan error, 100)
			s := newServer()
			s.Handle("wait", func(ctx context.Context, _ json.RawMessage) (any, error) {
				entered <- struct{}{}
				<-ctx.Done()
				ended <- ctx.Err()
				return nil, ctx.Err()
			})
			socket, _ := start(t, s)
			if err := call(socket, entered); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.Errorf("the client got %v", err)
			}
			select {
			case <-ended:
			case <-time.After(5 * time.Minute):
				t.Error("the handler runs on")
			}
		})
	}
}

func TestShutdownWaitsForRequests(t *testing.T) {
	s := newServer()
	entered, release := make(chan struct{}), make(chan struct{})
	s.Handle("slow", func(ctx context.Context, _ json.RawMessage) (any, error) {
		close(entered)
		<-release
		return "done", ctx.Err()
	})
	s.HandleStream("follow", func(ctx context.Context, _ json.RawMessage, send func(any) error) error {
		if err := send(1); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	socket, stop := start(t, s)
	idle, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	var g errgroup.Group
	var got string
	g.Go(func() error { return Call(context.Background(), socket, "slow", nil, &got) })
	streaming := make(chan struct{})
	g.Go(func() error {
		return Stream(context.Background(), socket, "follow", nil, func(json.RawMessage) error { close(streaming); return nil })
	})
	<-entered
	<-streaming
	var finished atomic.Bool
	g.Go(func() error { err := stop(); finished.Store(true); return err })
	time.Sleep(50 * time.Millisecond)
	if finished.Load() {
		t.Error("the server did not wait")
	}
	close(release)
	if err := g.Wait(); err != nil || got != "done" {
		t.Errorf("%v, result %q", err, got)
	}
	if err := Call(t.Context(), socket, "slow", nil, nil); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("after the shutdown: %v", err)
	}
}

func TestShutdownLosesPatience(t *testing.T) {
	s := newServer()
	s.Grace = 20 * time.Millisecond
	entered := make(chan struct{})
	s.Handle("stuck", func(ctx context.Context, _ json.RawMessage) (any, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	socket, stop := start(t, s)
	var g errgroup.Group
	g.Go(func() error { return Call(context.Background(), socket, "stuck", nil, nil) })
	<-entered
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
}

func TestStream(t *testing.T) {
	s := newServer()
	s.HandleStream("count", func(_ context.Context, _ json.RawMessage, send func(any) error) error {
		for i := range 3 {
			if err := send(i); err != nil {
				return err
			}
		}
		return nil
	})
	s.HandleStream("break", func(_ context.Context, _ json.RawMessage, send func(any) error) error {
		return errors.Join(send(1), fmt.Errorf("ledger: %w", vf.ErrNotFound))
	})
	s.HandleStream("forever", func(ctx context.Context, _ json.RawMessage, send func(any) error) error {
		for {
			if err := send(0); err != nil {
				return err
			}
		}
	})
	socket, _ := start(t, s)
	collect := func(method string) (out string, err error) {
		err = Stream(t.Context(), socket, method, nil, func(raw json.RawMessage) error { out += string(raw); return nil })
		return out, err
	}
	if out, err := collect("count"); out != "012" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := collect("break"); out != "1" || !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("%q, %v", out, err)
	}
	if err := Stream(t.Context(), socket, "forever", nil, func(json.RawMessage) error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("the reader's error became %v", err)
	}
}

func TestBadRequests(t *testing.T) {
	s := newServer()
	socket, _ := start(t, s)
	for name, tc := range map[string]struct{ send, want string }{
		"not JSON": {"hello\n", "read the request: invalid character 'h' looking for beginning of value"},
		"too long": {`{"method":"` + strings.Repeat("x", 2*maxRequest) + `"}`, "the request is longer than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte(tc.send)); err != nil {
				t.Fatal(err)
			}
			var resp api.RPCResponse
			if err := json.NewDecoder(c).Decode(&resp); err != nil || resp.Error == nil || resp.Error.Message != tc.want {
				t.Errorf("%v, %+v", err, resp.Error)
			}
		})
	}
	err := Call(t.Context(), socket, "echo", strings.Repeat("x", maxRequest), nil)
	if err == nil || !strings.Contains(err.Error(), "more than 1048576") {
		t.Errorf("the client sent it: %v", err)
	}
	// The server accepts the longest request that the client sends.
	overhead := len(`{"method":"echo","params":""}`)
	err = Call(t.Context(), socket, "echo", strings.Repeat("x", maxRequest-overhead), nil)
	var e *api.Error
	if !errors.As(err, &e) || e.Code != CodeUnknownMethod {
		t.Errorf("a request of the greatest length: %v", err)
	}
}

func BenchmarkCall(b *testing.B) {
	s := newServer()
	s.Handle("echo", func(_ context.Context, params json.RawMessage) (any, error) { return params, nil })
	socket := filepath.Join(b.TempDir(), "d.sock")
	l, err := Listen(socket)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var g errgroup.Group
	g.Go(func() error { return s.Serve(ctx, l) })
	for b.Loop() {
		if err := Call(ctx, socket, "echo", echo{"x"}, nil); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}
