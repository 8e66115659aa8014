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
	unit := filepath.Join(root, "usr/lib/systemd/system/culvertd.service")
	if err := os.MkdirAll(filepath.Dir(unit), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unit, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := hintAbsence(root, absent); got != "" {
		t.Errorf("culvertd is installed: %q", got)
	}
}
