package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/rpc"
)

// nobody is the ID of a user without rights. The tests need any user ID other than 0.
const nobody = 65534

// Only root may talk to culvertd. The socket's mode keeps other users out. If the mode lets them
// in, culvertd refuses them by their user ID.
func TestOnlyRootIsServed(t *testing.T) {
	if socket := os.Getenv("CULVERT_TEST_ASK"); socket != "" {
		err := rpc.Call(t.Context(), socket, "ask", nil, nil)
		if errors.Is(err, rpc.ErrDenied) {
			t.Skipf("denied: %v", err) // the parent test looks for this text
		}
		t.Fatalf("served, or failed otherwise: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become somebody else")
	}
	dir, err := os.MkdirTemp("/tmp", "culvert-peer-") //nolint:usetesting // of t.TempDir the parents are root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "culvertd.sock")
	l, err := rpc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(authorizePeer, slog.New(slog.DiscardHandler))
	served := 0
	srv.Handle("ask", func(context.Context, json.RawMessage) (any, error) { served++; return nil, nil })
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return srv.Serve(ctx, l) })
	defer func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}()
	for _, mode := range []fs.FileMode{0o600, 0o666} {
		if info, err := os.Stat(socket); err != nil || mode == 0o600 && info.Mode().Perm() != mode {
			t.Fatalf("the socket is %v, %v", info.Mode(), err)
		}
		if err := os.Chmod(socket, mode); err != nil {
			t.Fatal(err)
		}
		if out := askAs(t, dir, socket, nobody); !bytes.Contains(out, []byte("denied: not allowed")) || !bytes.Contains(out, []byte("sudo")) {
			t.Errorf("mode %o: user %d is told:\n%s", mode, nobody, out)
		}
	}
	if served > 0 {
		t.Errorf("%d requests of others were served", served)
	}
	if err := rpc.Call(t.Context(), socket, "ask", nil, nil); err != nil || served != 1 {
		t.Errorf("root is told %v", err)
	}
}

// askAs runs this test again as another user. Its program is copied to where
// that user can read it.
func askAs(t *testing.T, dir, socket string, uid uint32) []byte {
	t.Helper()
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "test")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestOnlyRootIsServed$", "-test.v")
	cmd.Env = []string{"CULVERT_TEST_ASK=" + socket}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	return out
}
