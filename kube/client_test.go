package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/vf"
)

// server is as much of an API server as the client talks to.
type server struct {
	mu       sync.Mutex // guards the rest
	pods     map[string]map[string]any
	nets     map[string]map[string]any
	down     bool
	refuse   int // so many writes fail
	requests []string
	written  []string
	watchers map[string][]chan []byte
}

func newAPI(t *testing.T) (*server, *rest.Config) {
	t.Helper()
	s := &server{pods: map[string]map[string]any{}, nets: map[string]map[string]any{}, watchers: map[string][]chan []byte{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, &rest.Config{Host: h.URL}
}

func meta(namespace, name, uid string, annotations map[string]any) map[string]any {
	return map[string]any{"namespace": namespace, "name": name, "uid": uid, "resourceVersion": "5", "annotations": annotations,
		"managedFields": []any{map[string]any{"manager": strings.Repeat("x", 1000)}}}
}

func (s *server) addPod(namespace, name, uid string, annotations map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[namespace+"/"+name] = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta(namespace, name, uid, annotations),
		"spec": map[string]any{"nodeName": "n1", "containers": []any{map[string]any{"name": "c"}}}}
	s.tell("pods", s.pods[namespace+"/"+name])
}

func (s *server) addNet(namespace, name, config string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nets[namespace+"/"+name] = map[string]any{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": meta(namespace, name, "n", map[string]any{"k8s.v1.cni.cncf.io/resourceName": "a/b"}), "spec": map[string]any{"config": config}}
}

func (s *server) tell(resource string, object any) {
	line, _ := json.Marshal(map[string]any{"type": "ADDED", "object": object})
	for _, w := range s.watchers[resource] {
		w <- line
	}
}

func (s *server) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *server) log(prefix string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			out = append(out, r)
		}
	}
	return out
}

func (s *server) writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.written...)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	s.mu.Unlock()
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, all := path[len(path)-1], s.pods
	if strings.Contains(r.URL.Path, "k8s.cni.cncf.io") {
		all = s.nets
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case resource == "nodes" || strings.Contains(r.URL.Path, "/culvert.dev/"): // not installed
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	case r.Method != http.MethodGet:
		s.write(w, r)
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r, resource)
	case resource == "pods" || resource == "network-attachment-definitions":
		s.note("LIST " + resource + " " + r.URL.Query().Get("fieldSelector"))
		s.list(w, all, resource)
	default:
		s.note("GET " + path[len(path)-3] + "/" + resource)
		s.mu.Lock()
		o, ok := all[path[len(path)-3]+"/"+resource]
		s.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		_ = json.NewEncoder(w).Encode(o)
	}
}

func (s *server) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, what)
}

func (s *server) list(w http.ResponseWriter, all map[string]map[string]any, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, items := map[string]string{"pods": "PodList"}[resource], []any{}
	version := "v1"
	if kind == "" {
		kind, version = "NetworkAttachmentDefinitionList", "k8s.cni.cncf.io/v1"
	}
	for _, o := range all {
		items = append(items, o)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": "5"}, "items": items})
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, resource string) {
	events := make(chan []byte, 10)
	s.mu.Lock()
	s.watchers[resource] = append(s.watchers[resource], events)
	s.mu.Unlock()
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case line := <-events:
			_, _ = w.Write(append(line, '\n'))
			w.(http.Flusher).Flush()
		}
	}
}

func (s *server) write(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		http.Error(w, "overloaded", http.StatusInternalServerError)
		return
	}
	s.written = append(s.written, r.Method+" "+r.URL.Path+" "+string(body))
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
}

func start(t *testing.T, config *rest.Config) *Client {
	t.Helper()
	c, err := New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return c.Run(ctx) })
	t.Cleanup(func() { stop(); _ = g.Wait() })
	until(t, "informers", c.Synced)
	return c
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in 20 s", what)
		}
	}
}

// What is in the informers costs no request, whether or not the API server is
// there.
func TestInformersAnswer(t *testing.T) {
	s, config := newAPI(t)
	s.addPod("d", "a", "u1", map[string]any{"k8s.v1.cni.cncf.io/networks": "x", "other": "y"})
	s.addNet("d", "x", "{}")
	c := start(t, config)
	s.addPod("d", "late", "u2", nil)
	until(t, "the pod that came later", func() bool { _, ok := c.Known("d", "late"); return ok })
	s.setDown(true)
	p, err := c.Pod(t.Context(), "d", "a", "u1")
	if err != nil || p.UID != "u1" || p.Annotations["k8s.v1.cni.cncf.io/networks"] != "x" || len(p.Annotations) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := c.Pod(t.Context(), "d", "late", "u2"); err != nil || p.UID != "u2" {
		t.Errorf("%+v, %v", p, err)
	}
	n, err := c.Network(t.Context(), "d", "x")
	if err != nil || n.Config != "{}" || n.Annotations["k8s.v1.cni.cncf.io/resourceName"] != "a/b" {
		t.Errorf("%+v, %v", n, err)
	}
	if got := s.log("GET"); len(got) != 0 {
		t.Errorf("requests: %v", got)
	}
	if got := s.log("LIST pods"); len(got) == 0 || got[0] != "LIST pods spec.nodeName=n1" {
		t.Errorf("the pods of other nodes are listed: %v", got)
	}
	if v, _, _ := c.pods.GetStore().GetByKey("d/a"); len(v.(*pod).ManagedFields) != 0 {
		t.Error("what nobody reads is kept")
	}
}

// A pod that is not in the informer costs one GET; one that is nowhere is never
// found, and one of that name before it is not taken for it.
func TestOneGetForAPodThatHasNotArrived(t *testing.T) {
	s, config := newAPI(t)
	c, err := New(config, "n1", slog.New(slog.DiscardHandler)) // not run: its informers have nothing
	if err != nil {
		t.Fatal(err)
	}
	s.addPod("d", "a", "u1", nil)
	s.addPod("d", "static", "mirror", map[string]any{"kubernetes.io/config.hash": "hash"})
	if p, err := c.Pod(t.Context(), "d", "a", "u1"); err != nil || p.UID != "u1" || len(s.log("GET")) != 1 {
		t.Errorf("%+v, %v, %v", p, err, s.log("GET"))
	}
	if _, err := c.Pod(t.Context(), "d", "a", "u0"); !errors.Is(err, vf.ErrNotFound) || !strings.Contains(err.Error(), "u1") {
		t.Errorf("the pod of another UID: %v", err)
	}
	if _, err := c.Pod(t.Context(), "d", "none", ""); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no pod: %v", err)
	}
	if p, err := c.Pod(t.Context(), "d", "static", "hash"); err != nil || p.UID != "mirror" {
		t.Errorf("a static pod: %+v, %v", p, err)
	}
	if _, err := c.Network(t.Context(), "d", "none"); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no network: %v", err)
	}
	s.setDown(true)
	if _, err := c.Pod(t.Context(), "d", "a", "u1"); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("no API server: %v", err)
	}
}

// What is written is tried again until it is there, the latest of its kind.
func TestWritesAreTriedAgain(t *testing.T) {
	s, config := newAPI(t)
	s.refuse = 3
	c := start(t, config)
	p := api.Pod{Namespace: "d", Name: "a", UID: "u1"}
	c.Annotate(p, "k", "v")
	until(t, "the annotation", func() bool { return len(s.writes()) > 0 })
	if want := `PATCH /api/v1/namespaces/d/pods/a/status {"metadata":{"annotations":{"k":"v"},"uid":"u1"}}`; s.writes()[0] != want {
		t.Errorf("%s; want %s", s.writes()[0], want)
	}
	for range 5 {
		c.PodEvent(p, "Warning", "NetworkFailed", strings.Repeat("x", 2000))
	}
	until(t, "the event", func() bool { return len(s.writes()) > 1 })
	time.Sleep(50 * time.Millisecond) // as long as nothing may happen
	got := s.writes()
	if len(got) != 2 || !strings.HasPrefix(got[1], "POST /api/v1/namespaces/d/events ") || !strings.Contains(got[1], `"reason":"NetworkFailed"`) || len(got[1]) > 1800 {
		t.Errorf("%d writes: %v", len(got), got)
	}
}

func TestSaidOnce(t *testing.T) {
	s, now := newSaid(), time.Now()
	if !s.first("a", now) || s.first("a", now.Add(time.Second)) || !s.first("b", now) || !s.first("a", now.Add(time.Minute)) {
		t.Error("what was said a moment ago is said again, or something new is not")
	}
	if !s.first("a", now) {
		t.Error("a clock that was set back silences")
	}
}

func TestNodeNameIsNeeded(t *testing.T) {
	if _, err := New(&rest.Config{Host: "http://x"}, "", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--node-name") {
		t.Error(err)
	}
}
