package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/rpc"
)

// serve is a culvertd that answers about every start as told.
func serve(t *testing.T, answer func(definition string) (any, error)) string {
	t.Helper()
	srv := rpc.NewServer(func(*net.UnixConn) error { return nil }, slog.New(slog.DiscardHandler))
	srv.Handle(api.MethodGuestStart, func(_ context.Context, raw json.RawMessage) (any, error) {
		var req api.GuestStartRequest
		if err := json.Unmarshal(raw, &req); err != nil {
			return nil, err
		}
		return answer(string(req.Definition))
	})
	dir, err := os.MkdirTemp("", "culvert") //nolint:usetesting // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
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
		os.RemoveAll(dir)
	})
	return socket
}

// A start is refused for one reason alone. libvirt ends a running guest whose
// reconnect fails, and aborts whatever else a hook fails at.
func TestOnlyARefusalFails(t *testing.T) {
	refuse := serve(t, func(definition string) (any, error) {
		return api.GuestStartResponse{Refused: "no: " + definition}, nil
	})
	allow := serve(t, func(string) (any, error) { return api.GuestStartResponse{}, nil })
	broken := serve(t, func(string) (any, error) { return nil, errors.New("the ledger is damaged") })
	none := filepath.Join(t.TempDir(), "none")
	big := strings.Repeat("x", maxDefinition+1)
	for name, tc := range map[string]struct {
		args          string
		stdin, socket string
		exit          int
		says          string
	}{
		"held by another":      {"db1 prepare begin -", "<domain/>", refuse, 1, "culvert: no: <domain/>\n"},
		"free to start":        {"db1 prepare begin -", "<domain/>", allow, 0, ""},
		"culvertd is down":     {"db1 prepare begin -", "<domain/>", none, 0, "culvert: guest db1 starts without a look at the ledger: culvertd does not answer"},
		"culvertd cannot say":  {"db1 prepare begin -", "<domain/>", broken, 0, "the ledger is damaged"},
		"too long":             {"db1 prepare begin -", big, refuse, 0, "longer than 524288 bytes"},
		"libvirtd comes back":  {"db1 reconnect begin -", "<domain/>", refuse, 0, ""},
		"a migration comes in": {"db1 migrate begin -", "<domain/>", refuse, 0, ""},
		"a guest has ended":    {"db1 release end shutdown", "<domain/>", refuse, 0, ""},
		"by hand":              {"", "", refuse, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			exit := run(strings.Fields(tc.args), strings.NewReader(tc.stdin), &stderr, tc.socket)
			if exit != tc.exit || !strings.Contains(stderr.String(), tc.says) || tc.says == "" && stderr.Len() > 0 {
				t.Errorf("exit %d: %s", exit, stderr.String())
			}
		})
	}
}
