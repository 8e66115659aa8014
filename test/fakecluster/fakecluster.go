// Package fakecluster is an API server in memory for tests of programs that list and watch NodeStates. It
// answers any user, lists page by page, and sends each change to all watches. Other objects are lists of
// JSON that a test sets.
package fakecluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// Server is an API server.
type Server struct {
	url string

	mu        sync.Mutex // guards the rest
	states    map[string]json.RawMessage
	version   int
	watches   map[chan string]bool
	lists     map[string]string // items by path
	forbidden map[string]bool
	asked     map[string]int // requests by path, and "watch"
}

// New starts an API server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{states: map[string]json.RawMessage{}, version: 1, watches: map[chan string]bool{}, lists: map[string]string{}, forbidden: map[string]bool{}, asked: map[string]int{}}
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.CloseClientConnections() // watches
		srv.Close()
	})
	s.url = srv.URL
	return s
}

// Kubeconfig writes a kubeconfig for a cluster with the name prod.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"current-context": "main", "contexts": [{"name": "main", "context": {"cluster": "prod"}}], "clusters": [{"name": "prod", "cluster": {"server": %q}}]}`, s.url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Put adds or changes a NodeState.
func (s *Server) Put(state v1alpha1.NodeState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "ADDED"
	if s.states[state.Name] != nil {
		kind = "MODIFIED"
	}
	s.sendChange(kind, state)
}

// Delete removes a NodeState.
func (s *Server) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := v1alpha1.NodeState{}
	state.Name = name
	s.sendChange("DELETED", state)
	delete(s.states, name)
}

// sendChange stores a NodeState and sends it to the watches. The caller holds s.mu.
func (s *Server) sendChange(kind string, state v1alpha1.NodeState) {
	s.version++
	state.ResourceVersion = strconv.Itoa(s.version)
	text, err := json.Marshal(state)
	if err != nil {
		panic(err) // a NodeState is always JSON
	}
	s.states[state.Name] = text
	for w := range s.watches {
		w <- fmt.Sprintf(`{"type": %q, "object": %s}`, kind, text)
	}
}

// Set sets the items that the server lists at a path, as JSON with commas between.
func (s *Server) Set(path, items string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[path] = items
}

// Forbid refuses requests for a path.
func (s *Server) Forbid(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden[path] = true
}

// Asked returns how many requests there were for a path; "watch" counts the watches.
func (s *Server) Asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// AwaitWatch waits until the nth watch has begun, so that it has the next change.
func (s *Server) AwaitWatch(t testing.TB, nth int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if s.Asked("watch") >= nth {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no watch came")
		}
	}
}

// States is the path of the NodeStates.
const States = "/apis/culvert.dev/v1alpha1/nodestates"

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	isWatch := r.URL.Query().Has("watch")
	if isWatch {
		s.asked["watch"]++
	} else {
		s.asked[r.URL.Path]++
	}
	switch {
	case s.forbidden[r.URL.Path]:
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no right","reason":"Forbidden","code":403}`)
	case isWatch:
		s.serveWatch(w, r)
	case r.URL.Path == States:
		text := s.listStates(r)
		s.mu.Unlock()
		fmt.Fprint(w, text)
	default:
		items := s.lists[r.URL.Path]
		s.mu.Unlock()
		fmt.Fprintf(w, `{"items": [%s]}`, items)
	}
}

// listStates returns a page of the list. The caller holds s.mu.
func (s *Server) listStates(r *http.Request) string {
	names := slices.Sorted(maps.Keys(s.states))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue")) // none: from the first one
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to, next := len(names), ""
	if limit > 0 && from+limit < to {
		to = from + limit
		next = strconv.Itoa(to)
	}
	var items []string
	for _, n := range names[from:to] {
		items = append(items, string(s.states[n]))
	}
	return fmt.Sprintf(`{"metadata": {"resourceVersion": "%d", "continue": %q}, "items": [%s]}`, s.version, next, strings.Join(items, ","))
}

// serveWatch sends changes until the client goes. The caller holds s.mu, which it gives up. A watch from
// an older version has expired.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request) {
	isOld := r.URL.Query().Get("resourceVersion") != strconv.Itoa(s.version)
	changes := make(chan string, 100)
	s.watches[changes] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, changes)
	}()
	if isOld {
		fmt.Fprintln(w, `{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}}`)
		return
	}
	w.WriteHeader(http.StatusOK)
	for flush := http.NewResponseController(w).Flush; flush() == nil; {
		select {
		case <-r.Context().Done():
			return
		case text := <-changes:
			fmt.Fprintln(w, text)
		}
	}
}
