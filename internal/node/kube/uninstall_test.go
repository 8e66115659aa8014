package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// follower is a client of an API server that follows culvert-system/culvertd.
func follower(t *testing.T, config *rest.Config) *Client {
	t.Helper()
	c, err := New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.FollowDaemonSet("culvert-system/culvertd"); err != nil {
		t.Fatal(err)
	}
	c.pause = 0
	return c
}

// Only an API server that accepts the credential says that the DaemonSet is deleted; a
// refusal, as after a restore or with an expired token, and any other error say nothing.
func TestUninstalled(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		want   bool
		fails  bool
	}{
		"there":             {200, `{"metadata": {"name": "culvertd"}}`, false, false},
		"about to go":       {200, `{"metadata": {"name": "culvertd", "deletionTimestamp": "2026-11-22T00:00:00Z"}}`, true, false},
		"gone":              {404, `{"kind": "Status", "reason": "NotFound", "details": {"name": "culvertd", "group": "apps", "kind": "daemonsets"}, "code": 404}`, true, false},
		"a proxy's 404":     {404, `404 page not found`, false, true},
		"a 404 of another":  {404, `{"kind": "Status", "reason": "NotFound", "details": {"name": "culvert-system", "kind": "namespaces"}, "code": 404}`, false, true},
		"no rights":         {403, `{"kind": "Status", "reason": "Forbidden", "code": 403}`, false, true},
		"nobody any more":   {401, `{"kind": "Status", "reason": "Unauthorized", "code": 401}`, false, true},
		"the server is ill": {500, `{}`, false, true},
		"no object":         {200, `culvertd`, false, true},
		"another object":    {200, `{"metadata": {"deletionTimestamp": "2026-11-22T00:00:00Z"}}`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/apis/apps/v1/namespaces/culvert-system/daemonsets/culvertd" {
					t.Errorf("asked for %s", r.URL)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.body)
			}))
			defer h.Close()
			got, err := follower(t, &rest.Config{Host: h.URL}).Uninstalled(t.Context())
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("%t, %v", got, err)
			}
		})
	}
	// An API server that has just started does not know its rules yet.
	answers := []int{403, 401, 200}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answers[0])
		fmt.Fprintf(w, `{"metadata": {"name": "culvertd"}, "code": %d}`, answers[0])
		answers = answers[1:]
	}))
	defer h.Close()
	if gone, err := follower(t, &rest.Config{Host: h.URL}).Uninstalled(t.Context()); gone || err != nil || len(answers) != 0 {
		t.Errorf("refused for a moment: gone %t, %v, %d answers left", gone, err, len(answers))
	}
	c, err := New(&rest.Config{}, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := c.Uninstalled(t.Context()); gone || err == nil {
		t.Errorf("a DaemonSet that is not followed: %t, %v", gone, err)
	}
	if err := c.FollowDaemonSet("culvertd"); err == nil {
		t.Error("a DaemonSet without a namespace is followed")
	}
}

// An uninstallation takes culvertd's rights away before culvertd ends, but a watch that was begun
// before has seen the deletion. Without a deletion, and after the DaemonSet was made anew, a
// refusal removes nothing.
func TestUninstalledWithoutRights(t *testing.T) {
	s, config := newAPI(t)
	add := func(metadata map[string]any) { s.add("daemonsets", "culvert-system", "culvertd", metadata, nil) }
	add(nil)
	c := follower(t, config)
	runClient(t, c)
	until(t, "the DaemonSet", c.own.seen.HasSynced)
	until(t, "its watch", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.watched["daemonsets"] > 0
	})
	refuse := func(status int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = status
	}
	for _, status := range []int{401, 403, 503} {
		refuse(status)
		if gone, err := c.Uninstalled(t.Context()); gone || err == nil {
			t.Errorf("it is there, and the API server answers %d: gone %t, %v", status, gone, err)
		}
	}
	wantGone := func(how string) {
		t.Helper()
		until(t, how, c.own.sawDeletion)
		for _, status := range []int{401, 403} {
			refuse(status)
			if gone, err := c.Uninstalled(t.Context()); !gone || err != nil {
				t.Errorf("%s, and the API server answers %d: gone %t, %v", how, status, gone, err)
			}
		}
	}
	add(map[string]any{"deletionTimestamp": "2026-11-22T00:00:00Z"})
	wantGone("it is about to go")
	s.remove("daemonsets", "culvert-system", "culvertd")
	wantGone("it was deleted")
	add(nil)
	until(t, "the new one", func() bool { return !c.own.sawDeletion() })
	if gone, err := c.Uninstalled(t.Context()); gone || err == nil {
		t.Errorf("it was made anew: gone %t, %v", gone, err)
	}
}
