package kube

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

func start(t *testing.T, config *rest.Config) *Client {
	t.Helper()
	c, err := New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.FollowDevicePlugin("kube-system/sriovdp-config"); err != nil {
		t.Fatal(err)
	}
	runClient(t, c)
	return c
}

// runClient runs a client until the test ends.
func runClient(t *testing.T, c *Client) {
	t.Helper()
	startClient(t, c)
	until(t, "informers", c.Synced)
}

// startClient runs a client until the test ends.
func startClient(t *testing.T, c *Client) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return c.Run(ctx) })
	t.Cleanup(func() { stop(); _ = g.Wait() })
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within five minutes", what)
		}
	}
}

// The client answers from its informers without a request, also while the API server is down.
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
	if err != nil || n.Config != "{}" || n.Annotations["k8s.v1.cni.cncf.io/resourceName"] != "a/b" || n.Annotations["culvert.dev/namespaces"] != "team" {
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

// A pod that is not in the informer costs one GET. A pod that does not exist is not found, and
// another pod of its name is not taken for it.
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

// Only an answer of the API server about a pod shows that the pod is gone. A 404 of a proxy, a
// refusal and no answer show nothing.
func TestHasPod(t *testing.T) {
	s, config := newAPI(t)
	s.addPod("d", "a", "u1", nil)
	c := start(t, config)
	want := func(name, uid string, has, another, told bool) {
		t.Helper()
		h, a, err := c.HasPod(t.Context(), "d", name, uid)
		if h != has || a != another || (err == nil) != told || !told && !errors.Is(err, vf.ErrNotReady) {
			t.Errorf("pod %s %s: has %t, another %t, %v", name, uid, h, a, err)
		}
	}
	want("a", "u1", true, false, true)
	want("a", "", true, false, true)
	want("a", "u0", false, true, true)
	want("none", "u1", false, false, true)
	elsewhere, err := New(config, "n2", slog.New(slog.DiscardHandler)) // not run: it has no pods of its node
	if err != nil {
		t.Fatal(err)
	}
	if has, another, err := elsewhere.HasPod(t.Context(), "d", "a", "u0"); has || another || err != nil {
		t.Errorf("a later pod of its name is on another node: has %t, another %t, %v", has, another, err)
	}
	s.mu.Lock()
	s.absent = []string{"pods"} // a 404 that names no object
	s.mu.Unlock()
	want("none", "u1", false, false, false)
	s.mu.Lock()
	s.absent, s.refused = nil, http.StatusForbidden
	s.mu.Unlock()
	want("none", "u1", false, false, false)
	s.mu.Lock()
	s.refused = 0
	s.mu.Unlock()
	s.setDown(true)
	want("none", "u1", false, false, false)
	want("a", "u1", true, false, true)
}

// A write that fails is tried again until it succeeds. The same event within a minute is written
// once.
func TestWritesAreTriedAgain(t *testing.T) {
	s, config := newAPI(t)
	s.refuse = 3
	c := start(t, config)
	p := api.Pod{Namespace: "d", Name: "a", UID: "u1"}
	c.Annotate(p, map[string]string{"k": "v", "l": "w"})
	until(t, "the annotation", func() bool { return len(s.writes()) > 0 })
	if want := `PATCH /api/v1/namespaces/d/pods/a/status {"metadata":{"annotations":{"k":"v","l":"w"},"uid":"u1"}}`; s.writes()[0] != want {
		t.Errorf("%s; want %s", s.writes()[0], want)
	}
	for range 5 {
		c.PodEvent(p, "Warning", "NetworkFailed", strings.Repeat("x", 2000))
	}
	until(t, "the event", func() bool { return len(s.writes()) > 1 })
	time.Sleep(50 * time.Millisecond) // no further write may come meanwhile
	got := s.writes()
	if len(got) != 2 || !strings.HasPrefix(got[1], "POST /api/v1/namespaces/d/events ") || !strings.Contains(got[1], `"reason":"NetworkFailed"`) || len(got[1]) > 1800 {
		t.Errorf("%d writes: %v", len(got), got)
	}
}

// A conflict may mean that other writers were faster, so the write is tried again, also after the
// API server was away. The client gives the write up in the end, since another pod may have that
// name.
func TestConflictsAreTriedAgain(t *testing.T) {
	s, config := newAPI(t)
	s.refuse, s.conflicts = lastConflict, 1
	c := start(t, config)
	c.Annotate(api.Pod{Namespace: "d", Name: "a", UID: "u1"}, map[string]string{"k": "v"})
	until(t, "the annotation", func() bool { return len(s.writes()) == 1 })
	s.mu.Lock()
	s.conflicts = 100
	s.mu.Unlock()
	c.Annotate(api.Pod{Namespace: "d", Name: "b", UID: "u2"}, map[string]string{"k": "v"})
	left := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.conflicts
	}
	until(t, "the last try", func() bool { return left() == 100-1-lastConflict })
	until(t, "the write to be dropped", func() bool { return c.writer.queue.NumRequeues("annotations u2") == 0 })
}

// An event of the Node is where kubectl describe node looks for it: in namespace
// default, by the Node's UID, and until that is known by its name.
func TestNodeEvent(t *testing.T) {
	s, config := newAPI(t)
	c := start(t, config)
	c.NodeEvent("Warning", "Quarantined", "early")
	until(t, "the event", func() bool { return len(s.writes()) == 1 })
	s.add("nodes", "", "n1", map[string]any{"uid": "u1"}, nil)
	until(t, "the Node", func() bool { return len(c.nodeOwner()) == 1 })
	c.NodeEvent("Normal", "Recovered", "late")
	until(t, "the event", func() bool { return len(s.writes()) == 2 })
	for i, want := range []string{`"involvedObject":{"apiVersion":"v1","kind":"Node","name":"n1","namespace":"","uid":"n1"}`, `"uid":"u1"}`} {
		if got := s.writes()[i]; !strings.HasPrefix(got, "POST /api/v1/namespaces/default/events ") || !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestSaidOnce(t *testing.T) {
	s, now := newSaid(), time.Now()
	if !s.isFirst("a", now) || s.isFirst("a", now.Add(time.Second)) || !s.isFirst("b", now) || !s.isFirst("a", now.Add(time.Minute)) {
		t.Error("what was said a moment ago is said again, or something new is not")
	}
	if !s.isFirst("a", now) {
		t.Error("a clock that was set back silences")
	}
}

func TestNodeNameIsNeeded(t *testing.T) {
	if _, err := New(&rest.Config{Host: "http://x"}, "", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--node-name") {
		t.Error(err)
	}
}
