package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
)

// Handler answers one request: the server encodes its return value as the result. ctx ends when the
// client disconnects, at the client's deadline, and when a shutdown stops waiting for requests
// (Grace).
type Handler func(ctx context.Context, params json.RawMessage) (any, error)

// StreamHandler answers one request with any number of results. send returns an error when the
// client has disconnected. ctx ends as for a Handler, and as soon as a shutdown begins.
type StreamHandler func(ctx context.Context, params json.RawMessage, send func(result any) error) error

// Ask sends a question to the client of a dialog and waits for the answer, which it decodes into
// result (nil: not wanted). The question carries the deadline of ctx. The error is the client's (as
// for Call), ctx's, or says that the client disconnected or cannot answer questions.
type Ask func(ctx context.Context, method string, params, result any) error

// DialogHandler is a Handler that may ask its client. It may have several questions open at
// once; after it has returned it asks no more.
type DialogHandler func(ctx context.Context, params json.RawMessage, ask Ask) (any, error)

// ClientHandler is a Handler that looks at its client, such as for the user that it runs as. It
// neither reads from client nor writes to it.
type ClientHandler func(ctx context.Context, params json.RawMessage, client *net.UnixConn) (any, error)

// Server answers requests. Its methods that begin with Handle come before Serve.
type Server struct {
	authorize func(*net.UnixConn) error
	log       *slog.Logger
	handlers  map[string]ClientHandler
	streams   map[string]StreamHandler
	dialogs   map[string]DialogHandler
	patience  time.Duration // how long a client may take to send its request

	// Grace is how long a shutdown waits for running requests before it
	// cancels them; NewServer sets 30 s.
	Grace time.Duration
}

// NewServer makes a server that answers a connection only after authorize has
// returned nil for it.
func NewServer(authorize func(*net.UnixConn) error, log *slog.Logger) *Server {
	return &Server{authorize: authorize, log: log, handlers: map[string]ClientHandler{}, streams: map[string]StreamHandler{}, dialogs: map[string]DialogHandler{}, patience: requestTime, Grace: 30 * time.Second}
}

// Handle registers a method with one result.
func (s *Server) Handle(method string, h Handler) {
	s.HandleClient(method, func(ctx context.Context, params json.RawMessage, _ *net.UnixConn) (any, error) { return h(ctx, params) })
}

// HandleClient registers a method with one result, whose handler looks at its client.
func (s *Server) HandleClient(method string, h ClientHandler) { s.handlers[method] = h }

// HandleStream registers a method with a stream of results.
func (s *Server) HandleStream(method string, h StreamHandler) { s.streams[method] = h }

// HandleDialog registers a method with one result, whose handler may ask its client questions.
func (s *Server) HandleDialog(method string, h DialogHandler) { s.dialogs[method] = h }

// Serve answers connections of l until ctx is done. It then closes l, lets
// running requests finish within Grace, ends streams, and returns nil. It returns an error if the
// listener breaks.
func (s *Server) Serve(ctx context.Context, l *Listener) error {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var conns errgroup.Group
	conns.SetLimit(maxConnections)
	stop := context.AfterFunc(ctx, func() {
		if err := l.Close(); err != nil {
			s.log.Warn("close the socket", "err", err)
		}
		time.AfterFunc(s.Grace, cancel)
	})
	defer stop()
	err := s.acceptConns(ctx, l, func(c *net.UnixConn) {
		conns.Go(func() error {
			newConnection(s, c).serveRequest(ctx, running)
			return nil
		})
	})
	if err != nil {
		cancel()
	}
	return errors.Join(err, conns.Wait())
}

// acceptConns accepts connections and passes them to handle. It goes on after an error of a single
// connection (the client was gone already, no file descriptor is left).
func (s *Server) acceptConns(ctx context.Context, l *Listener, handle func(*net.UnixConn)) error {
	for {
		c, err := l.AcceptUnix()
		var ne net.Error
		switch {
		case err == nil:
			handle(c)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the listener was closed for the shutdown
		case errors.Is(err, net.ErrClosed), !errors.As(err, &ne):
			return fmt.Errorf("accept on %s: %w", l.path, err)
		default:
			s.log.Warn("accept", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}
