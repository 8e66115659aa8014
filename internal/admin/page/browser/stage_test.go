package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status/flow"
)

// policy is the Content-Security-Policy that the page must live with.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"

// stage serves the page of a simulated source, as package page documents it.
type stage struct {
	source      *simulated
	url, origin string
	listener    *cutter
}

func newStage(t *testing.T, source *simulated) *stage {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{source: source, origin: "http://" + l.Addr().String(), listener: &cutter{Listener: l}}
	s.url = s.origin + "/"
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(os.DirFS("../web")))
	reply := func(path string, read func(*http.Request) (any, error)) {
		mux.HandleFunc("GET /data/"+path, func(w http.ResponseWriter, r *http.Request) {
			value, err := read(r)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				value = map[string]string{"error": err.Error()}
			}
			_ = json.NewEncoder(w).Encode(value)
		})
	}
	reply("find", func(r *http.Request) (any, error) { return source.find(r.FormValue("q")), nil })
	reply("events", func(r *http.Request) (any, error) { return source.ReadEvents(r.Context(), r.FormValue("node"), 50) })
	reply("history", func(r *http.Request) (any, error) {
		return source.ReadHistory(r.Context(), r.FormValue("node"), r.FormValue("vf"))
	})
	reply("plans", func(r *http.Request) (any, error) { return source.ReadPlans(r.Context()) })
	mux.HandleFunc("GET /stream", s.stream)
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		mux.ServeHTTP(w, r)
	})}
	go func() { _ = srv.Serve(s.listener) }()
	t.Cleanup(func() { _ = srv.Close() })
	return s
}

// stream sends the events of a page, each when its value changed.
func (s *stage) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	var before api.NodeStatus
	sent := map[string][]byte{}
	send := func(event string, value any) {
		text, _ := json.Marshal(value)
		if !bytes.Equal(sent[event], text) {
			sent[event] = text
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, text)
			_ = http.NewResponseController(w).Flush()
		}
	}
	rows := map[string]page.NodeRow{}
	for {
		overview, err := s.source.ReadOverview(r.Context())
		if err != nil {
			send("failure", map[string]string{"error": err.Error()})
			delete(sent, "overview")
		} else {
			send("alive", map[string]time.Time{"time": time.Now()})
			s.sendOverview(send, overview, rows, sent["overview"] == nil)
			_ = s.source.ReadNodes(r.Context(), r.FormValue("node"), func(n api.NodeStatus) bool {
				if r.FormValue("node") == "" {
					return false
				}
				flows := flow.Between(before, n)
				send("node", s.source.withoutTraffic(n))
				if before.Node != "" && overview.HasRates {
					send("rates", flows)
				}
				before = n
				return false
			})
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.source.next():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (s *stage) sendOverview(send func(string, any), overview page.Overview, before map[string]page.NodeRow, isWhole bool) {
	var changed []page.NodeRow
	for _, row := range overview.Nodes {
		if before[row.Name] != row {
			changed = append(changed, row)
		}
		before[row.Name] = row
	}
	if isWhole {
		send("overview", overview)
		return
	}
	if len(changed) > 0 {
		send("rows", changed)
	}
	overview.Nodes, overview.Time = nil, time.Time{}
	send("summary", overview)
}

// cutter is a listener whose connections a test can cut.
type cutter struct {
	net.Listener
	mu    sync.Mutex // guards the rest
	isCut bool
	open  []net.Conn
}

// Accept takes a connection, and closes it at once while the listener is cut.
func (c *cutter) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		if !c.isCut {
			c.open = append(c.open, conn)
			c.mu.Unlock()
			return conn, nil
		}
		c.mu.Unlock()
		_ = conn.Close()
	}
}

// cut cuts the connections, or lets new ones through again.
func (c *cutter) cut(isCut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = isCut
	if isCut {
		for _, conn := range c.open {
			_ = conn.Close()
		}
		c.open = nil
	}
}
