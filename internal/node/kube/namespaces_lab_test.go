//go:build lab

package kube

import (
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/apiserver"
)

// I9: the labels of a namespace come from a real API server, and there are none without
// an answer.
func TestI9NamespaceLabels(t *testing.T) {
	r := apiserver.New(t)
	r.Must(http.MethodPost, "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"blue","labels":{"tier":"gold"}}}`)
	c, err := New(r.Config(), "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if labels, err := c.NamespaceLabels(t.Context(), "blue"); err != nil || labels["tier"] != "gold" {
		t.Errorf("got %v, %v", labels, err)
	}
	if labels, err := c.NamespaceLabels(t.Context(), "red"); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("a namespace that is not there: %v, %v", labels, err)
	}
	config := r.Config()
	config.Host = "https://127.0.0.1:1"
	if c, err = New(config, "n1", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if labels, err := c.NamespaceLabels(t.Context(), "blue"); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("no API server: %v, %v", labels, err)
	}
}
