package clusterview

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// watchServer is an API server with NodeStates whose watches a test drives.
type watchServer struct {
	mu    sync.Mutex
	names []string // of the NodeStates
	asked []string // list, or watch and its version
	watch func(version string, send func(string) error, r *http.Request) int
}

func (s *watchServer) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !q.Has("watch") {
		s.asked = append(s.asked, "list")
		var items []string
		for _, n := range s.names {
			items = append(items, fmt.Sprintf(`{"metadata": {"name": %q, "resourceVersion": "5", "managedFields": [{"time": "2026-11-30T10:00:00Z"}, {"time": "2026-11-30T11:00:00Z"}]}}`, n))
		}
		fmt.Fprintf(w, `{"metadata": {"resourceVersion": "7"}, "items": [%s]}`, strings.Join(items, ","))
		return
	}
	s.asked = append(s.asked, "watch "+q.Get("resourceVersion"))
	if q.Get("allowWatchBookmarks") != "true" || q.Get("timeoutSeconds") == "" {
		s.asked = append(s.asked, r.URL.String())
	}
	watch := s.watch
	s.mu.Unlock()
	defer s.mu.Lock()
	send := func(event string) error {
		_, err := fmt.Fprintln(w, event)
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		return err
	}
	if code := watch(q.Get("resourceVersion"), send, r); code != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "message": "MESSAGE", "code": %d}`,
			map[int]string{http.StatusGone: "Expired", http.StatusForbidden: "Forbidden"}[code], code)
	}
}

// log is what a StateWatch reports.
type log struct {
	mu   sync.Mutex
	said []string
	news chan struct{}
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, fmt.Sprintf(format, args...))
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// await waits until the log has so many lines and returns them.
func (l *log) await(t *testing.T, n int) []string {
	t.Helper()
	for {
		l.mu.Lock()
		said := append([]string{}, l.said...)
		l.mu.Unlock()
		if len(said) >= n {
			return said
		}
		select {
		case <-l.news:
		case <-time.After(20 * time.Second):
			t.Fatalf("%d lines, want %d: %q", len(said), n, said)
		}
	}
}

func (s *watchServer) start(t *testing.T) (w *StateWatch, l *log) {
	l = &log{news: make(chan struct{}, 1)}
	w = &StateWatch{
		Cluster: serve(t, s.serve),
		Changed: func(name string, state *v1alpha1.NodeState) {
			if state == nil {
				l.add("- %s", name)
				return
			}
			l.add("+ %s %s %s", name, state.Status.Version, ReportTime(state).UTC().Format(time.TimeOnly))
		},
		Read: func(err error) { l.add("read %v", err) },
	}
	return w, l
}

// run runs a StateWatch until the returned function is called.
func runWatch(t *testing.T, w *StateWatch) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		<-done
	}
}

// A StateWatch lists once and then applies events. A second run goes on from the version of the last
// event or bookmark.
func TestStateWatch(t *testing.T) {
	s := &watchServer{names: []string{"a", "b"}}
	s.watch = func(version string, send func(string) error, r *http.Request) int {
		if version == "7" {
			for _, e := range []string{
				`{"type": "MODIFIED", "object": {"metadata": {"name": "b", "resourceVersion": "8", "managedFields": [{"time": "2026-11-30T12:00:00Z"}]}, "status": {"version": "v2"}}}`,
				`{"type": "ADDED", "object": {"metadata": {"name": "c", "resourceVersion": "9"}}}`,
				`{"type": "DELETED", "object": {"metadata": {"name": "a", "resourceVersion": "10"}}}`,
				`{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "11"}}}`,
				`{"type": "MODIFIED", "object": {"metadata": {"name": "c", "resourceVersion": "12"}}}`,
			} {
				_ = send(e)
			}
		} else {
			_ = send("")
		}
		<-r.Context().Done()
		return 0
	}
	w, l := s.start(t)
	stop := runWatch(t, w)
	const none = "00:00:00"
	want := []string{"+ a  11:00:00", "+ b  11:00:00", "read <nil>", "read <nil>", "+ b v2 12:00:00", "+ c  " + none, "- a", "+ c  " + none}
	if diff := cmp.Diff(want, l.await(t, len(want))); diff != "" {
		t.Error(diff)
	}
	stop()
	stop = runWatch(t, w)
	l.await(t, len(want)+1)
	stop()
	if diff := cmp.Diff([]string{"list", "watch 7", "watch 12"}, s.asked); diff != "" {
		t.Error(diff)
	}
}

// If the API server no longer has the version, the StateWatch lists anew and reports what has gone. Other
// errors are reported, and it tries again.
func TestStateWatchListsAnew(t *testing.T) {
	for name, expire := range map[string]func(send func(string) error) int{
		"answer": func(func(string) error) int { return http.StatusGone },
		"event": func(send func(string) error) int {
			_ = send(`{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}}`)
			return 0
		},
	} {
		s := &watchServer{names: []string{"a", "b"}}
		watches := 0
		s.watch = func(_ string, send func(string) error, r *http.Request) int {
			s.mu.Lock()
			watches++
			n := watches
			s.names = []string{"b"}
			s.mu.Unlock()
			switch n {
			case 1:
				return expire(send)
			case 2:
				return http.StatusForbidden
			}
			_ = send("")
			<-r.Context().Done()
			return 0
		}
		w, l := s.start(t)
		defer runWatch(t, w)()
		for n := 1; ; n++ {
			said := l.await(t, n)
			if strings.HasPrefix(said[n-1], "read list nodestates.culvert.dev in cluster prod: ") {
				want := []string{"+ b  11:00:00", "- a", "read <nil>"}
				if diff := cmp.Diff(want, said[n-4:n-1]); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
				if after := l.await(t, n+1); after[n] != "read <nil>" {
					t.Errorf("%s: then %q", name, after[n:])
				}
				break
			}
		}
	}
}

// ListEvents has only events that Culvert wrote, of a node or of all, newest first.
func TestListEvents(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		items := map[string]string{
			"source=culvertd": `{"metadata": {"creationTimestamp": "2026-11-30T09:00:00Z"}, "involvedObject": {"kind": "Pod", "namespace": "d", "name": "a"}, "reason": "NetworkFailed", "message": "no VF", "type": "Warning", "source": {"host": "n1"}, "firstTimestamp": "2026-11-30T10:00:00Z", "lastTimestamp": "2026-11-30T12:00:00Z"},
				{"involvedObject": {"kind": "Pod", "namespace": "d", "name": "n1"}, "source": {"host": "n2"}, "lastTimestamp": "2026-11-30T13:00:00Z"}`,
			"source=culvert": `{"involvedObject": {"kind": "Node", "name": "n1"}, "reason": "DrainBegan", "eventTime": "2026-11-30T11:00:00.000001Z"}`,
		}
		fmt.Fprintf(w, `{"items": [%s]}`, items[r.URL.Query().Get("fieldSelector")])
	})
	for node, want := range map[string]string{"n1": "Pod d/a, Node n1", "n2": "Pod d/n1", "": "Pod d/n1, Pod d/a, Node n1"} {
		got, err := c.ListEvents(t.Context(), node, 3)
		var objects []string
		for _, e := range got {
			objects = append(objects, e.Object)
		}
		if err != nil || strings.Join(objects, ", ") != want {
			text, _ := json.Marshal(got)
			t.Errorf("%q: %v %s", node, err, text)
		}
	}
	if got, err := c.ListEvents(t.Context(), "", 1); err != nil || len(got) != 1 || got[0].Object != "Pod d/n1" {
		t.Error(got, err)
	}
}
