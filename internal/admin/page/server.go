package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

//go:embed web
var web embed.FS

// limits bound the times of a connection.
type limits struct {
	header, request, answer, idle time.Duration
}

// Server serves the page of one source to the user who has the URL.
type Server struct {
	source   Source
	listener net.Listener
	gate     *gate
	feed     *feed
	streams  chan struct{} // one for each open page
	limits   limits
}

// NewServer returns a server of source's page on a listener of Listen.
func NewServer(source Source, listener net.Listener) *Server {
	return &Server{
		source: source, listener: listener, gate: newGate(listener.Addr().String()), feed: newFeed(source), streams: make(chan struct{}, mostStreams),
		limits: limits{header: 5 * time.Second, request: 10 * time.Second, answer: time.Minute, idle: 2 * time.Minute},
	}
}

// Listen listens on loopback only, on a free port if port is 0: on 127.0.0.1, or on ::1 on a host without
// IPv4.
func Listen(port int) (net.Listener, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
		listener, err = net.Listen("tcp", net.JoinHostPort("::1", strconv.Itoa(port)))
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d: %w: name another one with --port, or none for a free one", port, err)
	}
	return listener, err
}

// NewURL returns a URL that opens the page once. The URL before it no longer does.
func (s *Server) NewURL() string {
	return "http://" + s.gate.host + "/?token=" + s.gate.newToken()
}

// Serve serves the page until ctx ends. It refuses a listener that others than this host can reach.
func (s *Server) Serve(ctx context.Context) error {
	if a, ok := s.listener.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return fmt.Errorf("listen on %s: %w: the page is for this host alone", s.listener.Addr(), vf.ErrInvalid)
	}
	routes, err := s.makeRoutes()
	if err != nil {
		return err
	}
	defer s.feed.endReading()
	srv := &http.Server{
		Handler:           s.gate.protectPage(routes),
		ReadHeaderTimeout: s.limits.header, ReadTimeout: s.limits.request, WriteTimeout: s.limits.answer, IdleTimeout: s.limits.idle,
		MaxHeaderBytes: 16 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // requests that break off
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() }) // streams have no end of their own
	defer stop()
	if err := srv.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

// makeRoutes returns the answers to the requests of the package's documentation, without any protection.
func (s *Server) makeRoutes() (http.Handler, error) {
	mux := http.NewServeMux()
	files, err := fs.Sub(web, "web")
	if err != nil {
		return nil, fmt.Errorf("files of the page: %w", err)
	}
	mux.Handle("GET /", http.FileServerFS(files))
	for path, read := range map[string]func(*http.Request) (any, error){
		"overview": func(r *http.Request) (any, error) { return s.source.ReadOverview(r.Context()) },
		"node":     func(r *http.Request) (any, error) { return readNode(r.Context(), s.source, r.FormValue("name")) },
		"find":     func(r *http.Request) (any, error) { return findVFs(r.Context(), s.source, r.FormValue("q")) },
		"events":   s.readEvents,
		"history": func(r *http.Request) (any, error) {
			return s.source.ReadHistory(r.Context(), r.FormValue("node"), r.FormValue("vf"))
		},
		"plans": func(r *http.Request) (any, error) { return s.source.ReadPlans(r.Context()) },
	} {
		mux.HandleFunc("GET /data/"+path, s.answerWith(read))
	}
	mux.HandleFunc("GET /stream", s.serveStream)
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }) // browsers ask for it
	return mux, nil
}

// answerWith serves the value of read as JSON. The source is followed for a while, since more requests come.
func (s *Server) answerWith(read func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.feed.beginUse()
		defer s.feed.endUse()
		value, err := read(r)
		if err != nil {
			code := http.StatusBadGateway
			if errors.Is(err, vf.ErrNotFound) {
				code = http.StatusNotFound
			}
			refuseRequest(w, r, code, err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value) // the page may have gone
	}
}

func (s *Server) readEvents(r *http.Request) (any, error) {
	limit, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil || limit < 1 || limit > 1000 {
		limit = 100
	}
	return s.source.ReadEvents(r.Context(), r.FormValue("node"), limit)
}

// readNode returns one node whole.
func readNode(ctx context.Context, source Source, name string) (node api.NodeStatus, err error) {
	if name == "" {
		return node, fmt.Errorf("the request names no node: %w", vf.ErrNotFound)
	}
	err = source.ReadNodes(ctx, name, func(n api.NodeStatus) bool {
		node = n
		return false
	})
	return node, err
}
