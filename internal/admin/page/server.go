package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

//go:embed web
var web embed.FS

// interval is the time between two looks at the source while a page is open.
const interval = 2 * time.Second

// Server serves the page of one source.
type Server struct {
	source Source
}

// NewServer returns a server of source's page.
func NewServer(source Source) *Server { return &Server{source} }

// Handler answers the requests of the package's documentation.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /data/overview", answer(func(r *http.Request) (any, error) { return s.source.ReadOverview(r.Context()) }))
	mux.HandleFunc("GET /data/node", answer(func(r *http.Request) (any, error) {
		return s.source.ReadNode(r.Context(), r.FormValue("name"))
	}))
	mux.HandleFunc("GET /data/history", answer(func(r *http.Request) (any, error) {
		return s.source.ReadHistory(r.Context(), r.FormValue("node"), r.FormValue("vf"))
	}))
	mux.HandleFunc("GET /data/events", answer(func(r *http.Request) (any, error) {
		limit, err := strconv.Atoi(r.FormValue("limit"))
		if err != nil || limit < 1 || limit > 1000 {
			limit = 100
		}
		return s.source.ReadEvents(r.Context(), r.FormValue("node"), limit)
	}))
	mux.HandleFunc("GET /data/plans", answer(func(r *http.Request) (any, error) { return s.source.ReadPlans(r.Context()) }))
	mux.HandleFunc("GET /stream", s.stream)
	return mux
}

// answer serves the value of read as JSON.
func answer(read func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := read(r)
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			code := http.StatusBadGateway
			if errors.Is(err, vf.ErrNotFound) {
				code = http.StatusNotFound
			}
			w.WriteHeader(code)
			v = map[string]string{"error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(v) // the page may have gone
	}
}

// stream sends what the page shows, again and again.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for tick := time.NewTicker(interval); ; {
		if err := s.send(r.Context(), w, r.FormValue("node")); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			tick.Stop()
			return
		}
	}
}

func (s *Server) send(ctx context.Context, w http.ResponseWriter, node string) error {
	o, err := s.source.ReadOverview(ctx)
	if err != nil {
		return sendEvent(w, "failure", map[string]string{"error": err.Error()})
	}
	if err := sendEvent(w, "overview", o); err != nil || node == "" {
		return err
	}
	n, err := s.source.ReadNode(ctx, node)
	if err != nil {
		return sendEvent(w, "failure", map[string]string{"error": err.Error()})
	}
	return sendEvent(w, "node", n)
}

func sendEvent(w http.ResponseWriter, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
