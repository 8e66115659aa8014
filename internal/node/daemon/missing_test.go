package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/vf"
)

// culvertd refuses a pod whose VF is in no known pool with the cause and the next step. Without the
// CRD of NodePolicies the pools never become known.
func TestMissingPoolsNameTheCause(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	cluster, err := kube.New(&rest.Config{Host: none.URL}, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return cluster.Run(ctx) })
	defer func() { cancel(); _ = g.Wait() }()
	s := &Server{cluster: cluster, sources: sources.NewSet(&sources.Current{}, func() []vf.PF { return nil }, func() []api.Problem { return nil })}
	const want = "the cluster's NodePolicies are not known yet: the API server knows no NodePolicies: apply the CustomResourceDefinitions"
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err = s.missingPools(); err != nil && strings.Contains(err.Error(), want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("got %v, want %q", err, want)
		}
	}
}
