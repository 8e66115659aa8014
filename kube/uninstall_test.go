package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

func TestUninstalled(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		want   bool
		fails  bool
	}{
		"there":             {200, `{"metadata": {"name": "culvertd"}}`, false, false},
		"about to go":       {200, `{"metadata": {"name": "culvertd", "deletionTimestamp": "2026-11-22T00:00:00Z"}}`, true, false},
		"gone":              {404, `{"kind": "Status", "reason": "NotFound", "code": 404}`, true, false},
		"no rights":         {403, `{"kind": "Status", "reason": "Forbidden", "code": 403}`, true, false},
		"nobody any more":   {401, `{"kind": "Status", "reason": "Unauthorized", "code": 401}`, true, false},
		"the server is ill": {500, `{}`, false, true},
		"no object":         {200, `culvertd`, false, true},
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
			c, err := New(&rest.Config{Host: h.URL}, "n1", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			c.pause = 0
			got, err := c.Uninstalled(t.Context(), "culvert-system/culvertd")
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
	young, err := New(&rest.Config{Host: h.URL}, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	young.pause = 0
	if gone, err := young.Uninstalled(t.Context(), "culvert-system/culvertd"); gone || err != nil || len(answers) != 0 {
		t.Errorf("refused for a moment: gone %t, %v, %d answers left", gone, err, len(answers))
	}
	c, err := New(&rest.Config{}, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Uninstalled(t.Context(), "culvertd"); err == nil {
		t.Error("a DaemonSet without a namespace was asked for")
	}
}
