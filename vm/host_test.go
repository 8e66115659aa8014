package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/rpc"
	"github.com/culvert-net/culvert/vf"
)

// A VF that QEMU has not closed yet is asked for again; one that culvertd has taken
// back by itself is free.
func TestFree(t *testing.T) {
	dir, err := os.MkdirTemp("", "free") //nolint:usetesting // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var asked []api.GuestDetachRequest
	var answers []error
	srv := rpc.NewServer(func(*net.UnixConn) error { return nil }, slog.New(slog.DiscardHandler))
	srv.Handle(api.MethodGuestDetach, func(_ context.Context, raw json.RawMessage) (any, error) {
		var req api.GuestDetachRequest
		err := errors.Join(json.Unmarshal(raw, &req), answers[0])
		asked, answers = append(asked, req), answers[1:]
		return api.GuestDetached{}, err
	})
	l, err := rpc.Listen(filepath.Join(dir, "s"))
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
	h := &Host{culvertd: filepath.Join(dir, "s")}
	open, gone, broken := fmt.Errorf("%w open by qemu", vf.ErrHeld), fmt.Errorf("no such lease: %w", vf.ErrNotFound), fmt.Errorf("%w", vf.ErrUnable)
	for name, tc := range map[string]struct {
		answers []error
		want    error
	}{
		"free":          {[]error{nil}, nil},
		"open at first": {[]error{open, open, nil}, nil},
		"gone":          {[]error{open, gone}, nil},
		"cannot":        {[]error{broken}, vf.ErrUnable},
	} {
		t.Run(name, func(t *testing.T) {
			asked, answers = nil, tc.answers
			err := h.Do(t.Context(), Free{"uuid", "net1"})
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if len(asked) != len(tc.answers) || asked[0] != (api.GuestDetachRequest{Guest: "uuid", Device: "net1"}) {
				t.Errorf("it asked %v", asked)
			}
		})
	}
}
