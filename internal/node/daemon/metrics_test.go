package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
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
	answer, err := s.answerMetrics(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := answer.(api.Metrics).Text
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
