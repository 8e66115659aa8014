package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/metrics"
	"github.com/culvert-net/culvert/internal/vf"
)

// served is a Server over a fake NIC, whose files are in dir.
func served(t testing.TB, dir string) *Server {
	t.Helper()
	return servedOn(t, dir, fake.New(fake.IGB, 1))
}

// servedOn returns the Server of a node with a kernel.
func servedOn(t testing.TB, dir string, k *fake.Kernel) *Server {
	t.Helper()
	counts := metrics.NewNode()
	ledger, err := journal.Open(filepath.Join(dir, "ledger.db"), journal.Options{NoSync: true, Observe: counts.ObserveCommit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	log := slog.New(slog.DiscardHandler)
	n := node.New(node.Config{Kernel: k, Ledger: ledger, BootID: "b", Log: log})
	s := newServer(Config{HostFile: filepath.Join(dir, "host.yaml"), Ledger: filepath.Join(dir, "ledger.db"), Log: log}, n, nil, "b", counts)
	s.status.Claims = &claims.Reader{Root: fstest.MapFS{}}
	if err := s.node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzMethod: whatever a client sends to a method, the answer is JSON or an error that says that
// the request is invalid. culvertd writes no file but host.yaml and the ledger, and can read
// host.yaml afterwards.
func FuzzMethod(f *testing.F) {
	host := func(file, content string, force bool) []byte {
		raw, err := json.Marshal(map[string]any{"file": file, "content": content, "force": force})
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	for method := range uint8(4) {
		f.Add(method, []byte{})
		f.Add(method, []byte(`null`))
		f.Add(method, host("host.yaml", "pfs: [{name: enp1s0, vfs: 3}]\npools: [{name: a}]\n", false))
		f.Add(method, host("../../etc/passwd", "pfs: [{name: enp1s0, vfs: max}]\n", true))
		f.Add(method, host("\x1b[2J\n", "pfs: [{name: enp1s0, vfs: 0}]\npools: [{name: ../a}]\n", true))
		f.Add(method, []byte(`{"after":18446744073709551615,"follow":false}`))
	}
	f.Fuzz(func(t *testing.T, method uint8, params []byte) {
		dir := t.TempDir()
		s := served(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var answer any
		var err error
		switch method % 4 {
		case 0:
			answer, err = s.answerStatus(ctx, params)
		case 1:
			answer, err = s.hostPlan(ctx, params)
		case 2:
			answer, err = s.hostApply(ctx, params)
		case 3:
			cancel() // or a client that follows waits for ever
			err = s.streamEvents(ctx, params, func(v any) error { answer = v; return nil })
		}
		if err != nil && !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("undocumented error %v", err)
		}
		if _, err := json.Marshal(answer); err != nil {
			t.Error(err)
		}
		wantOnlyItsFiles(t, dir)
		s.hostFile.Read()
		for _, p := range s.hostFile.Problems() {
			if strings.Contains(p.Next, "correct it") {
				t.Errorf("host.yaml is now one that does not read: %s", p.Reason)
			}
		}
	})
}

func wantOnlyItsFiles(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		mode := fmt.Sprintf("%s %s", e.Name(), info.Mode())
		if mode != "ledger.db -rw-------" && mode != "host.yaml -rw-r--r--" {
			t.Errorf("there is %s", mode)
		}
	}
}
