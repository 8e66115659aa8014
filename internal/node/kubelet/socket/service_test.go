package socket

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/culvert-net/culvert/internal/kernel/dirwatch"
)

// patience is how long a test waits for an event that must come.
const patience = 5 * time.Minute

// serves starts a service in a folder; stop ends it and waits for that.
func serves(t *testing.T, dir string, s *Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.Folder = &Folder{Dir: dir, Watch: dirwatch.Watch, Log: slog.New(slog.DiscardHandler)}
	var g errgroup.Group
	g.Go(func() error { s.Folder.Follow(ctx); return nil })
	g.Go(func() error { s.Run(ctx); return nil })
	return func() {
		cancel()
		_ = g.Wait() // they return nil
	}
}

// folder returns the path of a folder that is not there yet, short enough for a socket.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "socket") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "p")
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func answers(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// A service that the kubelet finds itself is served without a kubelet. It replaces the file that a
// killed culvertd has left, and makes its socket again when that was removed.
func TestServiceWithoutRegistration(t *testing.T) {
	dir := folder(t)
	path := filepath.Join(dir, "x.sock")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Service{Name: "x", File: "x.sock", Add: func(*grpc.Server, func(error)) {}}
	stop := serves(t, dir, s)
	eventually(t, "the socket", func() bool { return answers(path) })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the socket once more", func() bool { return answers(path) })
	// A socket that is removed before the service has set its mode is a problem for a second.
	eventually(t, "no problem", func() bool { return s.Problem() == "" })
	stop()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A service waits for its kubelet. The reason why a registered service ended is its problem until
// it is registered again.
func TestServiceIsRegistered(t *testing.T) {
	dir := folder(t)
	admitted, registered := make(chan struct{}, 9), make(chan struct{}, 9)
	ends := make(chan func(error), 9)
	s := &Service{
		Name: "x", File: "x.sock", Kubelet: "kubelet.sock", Add: func(_ *grpc.Server, end func(error)) { ends <- end },
		Register: func(ctx context.Context, _ grpc.ClientConnInterface) error {
			select {
			case <-admitted: // once for each kubelet, so that a problem stays until the next one
			case <-ctx.Done():
				return ctx.Err()
			}
			registered <- struct{}{}
			return nil
		},
	}
	stop := serves(t, dir, s)
	defer stop()
	eventually(t, "a problem", func() bool { return s.Problem() != "" })
	if answers(filepath.Join(dir, "x.sock")) || len(registered) > 0 {
		t.Error("it is served to no kubelet")
	}
	start := func() {
		t.Helper()
		path := filepath.Join(dir, "kubelet.sock")
		_ = os.Remove(path)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		admitted <- struct{}{}
		select {
		case <-registered:
		case <-time.After(patience):
			t.Fatal("it is not registered with the kubelet that has started")
		}
	}
	eventually(t, "the folder", func() bool { _, err := os.Stat(dir); return err == nil })
	start()
	eventually(t, "no problem", func() bool { return s.Problem() == "" })
	start() // another kubelet
	<-ends
	(<-ends)(errors.New("hung up"))
	eventually(t, "the reason", func() bool { return s.Problem() == "hung up" })
	start()
	eventually(t, "no problem", func() bool { return s.Problem() == "" })
}

// A service that ends before its server accepts connections ends for its own reason: gRPC
// returns an error of a server that was stopped before it began.
func TestServiceEndsBeforeItServes(t *testing.T) {
	dir := folder(t)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	s := &Service{
		Folder: &Folder{Dir: dir, Log: slog.New(slog.DiscardHandler)}, Name: "x", File: "x.sock", Kubelet: "kubelet.sock",
		Add: func(*grpc.Server, func(error)) {}, Register: func(context.Context, grpc.ClientConnInterface) error { return refused },
	}
	for range 200 {
		if err := s.serveKubelet(t.Context(), file{}); !errors.Is(err, refused) || errors.Is(err, grpc.ErrServerStopped) {
			t.Fatal(err)
		}
	}
}
