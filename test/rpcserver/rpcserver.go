// Package rpcserver serves a socket as a culvertd with fixed answers, for tests of its
// clients.
package rpcserver

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/internal/rpc"
)

// Socket returns a path for a socket, in a folder that exists until the test ends. The
// path of t.TempDir is too long for a socket.
func Socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "culvert") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "s")
}

// Serve runs a server at the socket until the test ends, with the methods that handle
// adds. It accepts every client.
func Serve(t testing.TB, socket string, handle func(*rpc.Server)) {
	t.Helper()
	srv := rpc.NewServer(func(*net.UnixConn) error { return nil }, slog.New(slog.DiscardHandler))
	handle(srv)
	l, err := rpc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
