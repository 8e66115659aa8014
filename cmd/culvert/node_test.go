package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/rpc"
)

// TestHintAbsence: on a host without culvertd, the error is followed by the ways to get it.
func TestHintAbsence(t *testing.T) {
	absent := fmt.Errorf("%w on %s", rpc.ErrNoDaemon, rpc.DefaultSocket)
	root := t.TempDir()
	for _, tc := range []struct {
		err  error
		want bool
	}{{absent, true}, {io.EOF, false}} {
		if got := hintAbsence(root, tc.err); strings.Contains(got, "culvert host install") != tc.want {
			t.Errorf("%v: %q", tc.err, got)
		}
	}
	for _, file := range []string{"usr/lib/systemd/system/culvertd.service", "var/lib/culvert/ledger.db"} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := hintAbsence(root, absent); got != "" {
			t.Errorf("with %s: %q", file, got)
		}
	}
}
