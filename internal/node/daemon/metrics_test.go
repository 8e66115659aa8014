package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/test/rpcserver"
)

// logBuffer is a log that a test reads while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the log so far.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// culvertd answers with the node's metrics until it stops. An address that another program has does not
// end it: it serves them as soon as the address is free.
func TestServeMetrics(t *testing.T) {
	s := served(t, t.TempDir())
	// On an address of its own, so that no other program takes the port between the two listeners.
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.77.%d.%d:0", os.Getpid()>>8&0xff, os.Getpid()&0xff))
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := serveMetrics(t.Context(), address, s.metrics.Handler()); err == nil || !strings.Contains(err.Error(), "choose another with --metrics") {
		t.Errorf("an address that is taken: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	log := logBuffer{}
	g.Go(func() error {
		keepServingMetrics(ctx, address, s.metrics.Handler(), slog.New(slog.NewTextHandler(&log, nil)), time.Millisecond)
		return nil
	})
	until(t, func() error {
		if said := log.String(); strings.Count(said, "metrics are not served") < 2 {
			return fmt.Errorf("it does not try again: %s", said)
		}
		return nil
	})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var text string
	until(t, func() (err error) { text, err = get(t, "http://"+address+"/metrics"); return err })
	if !strings.Contains(text, "culvert_ready 0\n") {
		t.Errorf("no culvert_ready in\n%s", text)
	}
	if _, err := get(t, "http://"+address+"/debug/pprof/"); err == nil {
		t.Error("other paths are served")
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// The method metrics answers with the same text as --metrics, and counts what the ledger has written.
// No --metrics is needed for it.
func TestMethodMetrics(t *testing.T) {
	s := served(t, t.TempDir())
	err := s.node.Ledger.Update(func(tx *journal.Tx) error {
		return tx.Event(journal.Event{Type: journal.Warning, Reason: reasons.LinkDown, Object: "PF x"})
	})
	if err != nil {
		t.Fatal(err)
	}
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, func(srv *rpc.Server) { s.registerMethods(t.Context(), srv) })
	var answer api.Metrics
	if err := rpc.Call(t.Context(), socket, api.MethodMetrics, nil, &answer); err != nil {
		t.Fatal(err)
	}
	text := answer.Text
	for _, line := range []string{
		"culvert_ready 0\n", `culvert_events_total{reason="LinkDown",type="Warning"} 1`, `culvert_events_total{reason="Quarantined",type="Warning"} 0`,
		"culvert_ledger_sync_duration_seconds_count ", "culvert_ledger_bytes ", "culvert_ledger_free_bytes ", "culvert_ledger_findings 0\n",
		`culvert_quarantine_retries_total{result="error"} 0`, "culvert_bond_failovers_total 0\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "culvert_ledger_bytes 0\n") || strings.Contains(text, "culvert_ledger_sync_duration_seconds_count 0\n") {
		t.Errorf("the ledger has a size and was written:\n%s", text)
	}
}

// A node of a cluster counts its requests to the API server, and the addresses in its blocks.
func TestMetricsOfAClusterNode(t *testing.T) {
	dir := t.TempDir()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "`+server.URL+`"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := served(t, dir)
	s.Kubernetes, s.KubeletDir, s.Cluster = true, dir, ClusterConfig{Kubeconfig: kubeconfig, NodeName: "n1", DevicePlugin: "kube-system/plugin", PodNetworks: pod.Never}
	if err := s.joinKubernetes(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.cluster.HasPod(t.Context(), "default", "a", ""); err == nil {
		t.Error("the answer of a proxy is none")
	}
	var text strings.Builder
	if err := s.metrics.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if line := `culvert_api_requests_total{resource="pods",result="refused",verb="get"} 1`; !strings.Contains(text.String(), line) {
		t.Errorf("no %s in\n%s", line, text.String())
	}
	if s.status.Addresses == nil {
		t.Error("the status does not count the node's addresses")
	}
}

func get(t *testing.T, url string) (string, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}

// until repeats an attempt that needs another goroutine to have begun.
func until(t *testing.T, try func() error) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
