package kube

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/culvert-net/culvert/internal/vf"
)

func TestHasGroup(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/there":
			_, _ = w.Write([]byte(`{"kind":"APIGroup","apiVersion":"v1","name":"there"}`))
		case "/apis/gone":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer srv.Close()
	c, err := New(&rest.Config{Host: srv.URL}, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]bool{"there": true, "gone": false} {
		if has, err := c.HasGroup(t.Context(), group); err != nil || has != want {
			t.Errorf("%s: %v, %v", group, has, err)
		}
	}
	if has, err := c.HasGroup(t.Context(), "refused"); !errors.Is(err, vf.ErrNotReady) || has {
		t.Errorf("an API server that refuses: %v, %v", has, err)
	}
}
