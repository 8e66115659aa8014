package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// metricsRetry is the time after which culvertd tries again to serve metrics.
const metricsRetry = 10 * time.Second

// keepServingMetrics serves metrics until ctx ends. While another program has the address it logs that,
// and tries again: pods and guests get their VFs meanwhile.
func keepServingMetrics(ctx context.Context, address string, metrics http.Handler, log *slog.Logger, retry time.Duration) {
	for {
		err := serveMetrics(ctx, address, metrics)
		if ctx.Err() != nil {
			return
		}
		log.Error("metrics are not served", "error", err, "next", retry)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

// serveMetrics answers Prometheus at address until ctx ends.
func serveMetrics(ctx context.Context, address string, metrics http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve metrics at %s: %w: free the address or choose another with --metrics", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	var g errgroup.Group
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close()
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics at %s: %w", address, err)
	}
	return g.Wait()
}
