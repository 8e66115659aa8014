package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/rpc"
)

// shim is the path of culvert-cni, built as it is shipped.
var shim string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "culvert-cni")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		shim = filepath.Join(dir, "culvert-cni")
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", shim, "../../../../cmd/culvert-cni")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// daemon serves e on a socket as culvertd does.
func daemon(t testing.TB, e allParts, authorize func(*net.UnixConn) error) (socket string) {
	t.Helper()
	return serveHandler(t, New(partsOf(e)), authorize)
}

func serveHandler(t testing.TB, h *Handler, authorize func(*net.UnixConn) error) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "d.sock")
	l, err := rpc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(authorize, slog.New(slog.DiscardHandler))
	srv.HandleDialog(api.MethodCNI, func(ctx context.Context, params json.RawMessage, ask rpc.Ask) (any, error) {
		return h.Serve(ctx, params, Ask(ask))
	})
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return srv.Serve(ctx, l) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return socket
}

func everybody(*net.UnixConn) error { return nil }

// runtime execs the shim as a container runtime does.
func runtime(ctx context.Context, socket, config string, env ...string) (stdout string, exit int, err error) {
	cmd := exec.CommandContext(ctx, shim)
	cmd.Env = slices.Concat(env, []string{"CULVERT_SOCKET=" + socket})
	cmd.Stdin = strings.NewReader(config)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err = cmd.Run()
	var status *exec.ExitError
	if errors.As(err, &status) {
		return out.String(), status.ExitCode(), nil
	}
	return out.String(), 0, err
}

func c1(command string, more ...string) []string {
	return append([]string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=c1", "CNI_IFNAME=net1", "CNI_NETNS=/run/netns/x", "CNI_PATH=/opt/cni/bin"}, more...)
}

func TestShimToHandler(t *testing.T) {
	e := newMemory(1)
	socket := daemon(t, e, everybody)
	run := func(config string, env ...string) (string, int) {
		t.Helper()
		out, exit, err := runtime(t.Context(), socket, config, env...)
		if err != nil {
			t.Fatal(err)
		}
		return out, exit
	}
	config := strings.ReplaceAll(strings.Replace(whole, "MORE", "", 1), "VERSION", api.CNINewest)
	made, exit := run(config, c1("ADD", "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=a;X=y")...)
	if exit != 0 {
		t.Fatal(made)
	}
	golden(t, "result-1.1.0.json", []byte(made))
	if want := "0000:01:10.0 net: pod default/a net1\n"; e.String() != want {
		t.Errorf("held: %s, want %s", e, want)
	}
	if out, exit := run(config, c1("ADD")...); exit != 1 || !strings.Contains(out, `"code": 101`) {
		t.Errorf("ADD again: %d %s", exit, out)
	}
	checked := strings.TrimSuffix(strings.TrimSpace(config), "}") + `,"prevResult":` + made + "}"
	for _, step := range []struct {
		config string
		env    []string
	}{
		{checked, c1("CHECK")},
		{config, []string{"CNI_COMMAND=STATUS"}},
		{with(`"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"net1"}]`), []string{"CNI_COMMAND=GC"}},
	} {
		if out, exit := run(step.config, step.env...); exit != 0 || out != "" {
			t.Errorf("%s: %d %s", step.env[0], exit, out)
		}
	}
	if e.String() == "" {
		t.Error("GC took a valid attachment")
	}
	for range 2 {
		if out, exit := run("", c1("DEL", "CNI_NETNS=")...); exit != 0 || out != "" || e.String() != "" {
			t.Errorf("DEL: %d %s, left %s", exit, out, e)
		}
	}
}

func TestShimAlone(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent.sock")
	refusing := daemon(t, newMemory(1), func(*net.UnixConn) error { return errors.New("uid 1000 is not root") })
	for name, tc := range map[string]struct {
		socket, config string
		env            []string
		want           string
		exit           int
	}{
		"no daemon":         {absent, `{"cniVersion":"0.4.0"}`, c1("ADD"), `{"cniVersion":"0.4.0","code":11,"msg":"culvertd does not answer on SOCKET","details":"systemctl status culvertd, or in a cluster kubectl -n culvert-system get pods"}`, 1},
		"no daemon, STATUS": {absent, `{"cniVersion":"1.1.0"}`, []string{"CNI_COMMAND=STATUS"}, `{"cniVersion":"1.1.0","code":50,"msg":"culvertd does not answer on SOCKET","details":"systemctl status culvertd, or in a cluster kubectl -n culvert-system get pods"}`, 1},
		"not allowed":       {refusing, with(``), c1("ADD"), `{"cniVersion":"1.1.0","code":999,"msg":"not allowed: uid 1000 is not root"}`, 1},
		"too much":          {absent, strings.Repeat(" ", 513<<10), c1("ADD"), `{"cniVersion":"1.1.0","code":5,"msg":"the network configuration on standard input is longer than 524288 bytes","details":"make it shorter"}`, 1},
		"no command":        {absent, with(``), nil, `{"cniVersion":"1.1.0","code":4,"msg":"CNI_COMMAND is not set","details":"a container runtime sets it; culvert-cni --help says more"}`, 1},
		"VERSION":           {absent, `{"cniVersion":"1.0.0"}`, []string{"CNI_COMMAND=VERSION"}, `{"cniVersion":"1.0.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}`, 0},
		"VERSION, no stdin": {absent, ``, []string{"CNI_COMMAND=VERSION"}, `{"cniVersion":"1.1.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, exit, err := runtime(t.Context(), tc.socket, tc.config, tc.env...)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.NewReplacer("\n", "", "    ", "", `": `, `":`).Replace(out)
			if d := cmp.Diff(strings.Replace(tc.want, "SOCKET", tc.socket, 1), got); d != "" || exit != tc.exit {
				t.Errorf("exit %d, -want +got\n%s", exit, d)
			}
		})
	}
}

// The largest configuration that the shim reads fits into a request: GC may
// name many attachments. The lease keeps that of an ADD, which is bounded more
// tightly.
func TestLargestConfiguration(t *testing.T) {
	socket := daemon(t, newMemory(1), everybody)
	padded := func(config string, n int) string { return config + strings.Repeat(" ", n-len(config)) }
	gc := with(`"cni.dev/valid-attachments":[]`)
	for _, tc := range []struct {
		command, config string
		exit            int
	}{
		{"GC", padded(gc, 512<<10), 0},
		{"ADD", padded(with(``), netconf.MaxText+1), 1},
		{"ADD", padded(with(``), netconf.MaxText), 0},
	} {
		out, exit, err := runtime(t.Context(), socket, tc.config, c1(tc.command)...)
		if err != nil || exit != tc.exit || exit != 0 && !strings.Contains(out, "want at most 65536") {
			t.Errorf("%s of %d bytes: %v, %d, %s", tc.command, len(tc.config), err, exit, out)
		}
	}
}

// hanging is an engine whose Attach ends when its request does.
type hanging struct {
	*memory
	entered chan struct{}
	ended   atomic.Bool
}

func (h *hanging) Attach(ctx context.Context, _ attach.Request) (journal.Record, error) {
	close(h.entered)
	<-ctx.Done()
	h.ended.Store(true)
	return journal.Record{}, ctx.Err()
}

// A runtime that times out kills the shim, and that cancels the attach.
func TestKilledShimEndsTheAttach(t *testing.T) {
	e := &hanging{memory: newMemory(1), entered: make(chan struct{})}
	socket := daemon(t, e, everybody)
	ctx, kill := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error {
		out, exit, err := runtime(ctx, socket, with(``), c1("ADD")...)
		if exit >= 0 { // -1 is a signal
			return fmt.Errorf("the shim ended by itself: %w, %d %s", err, exit, out)
		}
		return nil
	})
	<-e.entered
	kill()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); !e.ended.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the attach runs on")
		}
	}
}

// TestShimSize holds the shim to its budget (6 MB stripped).
func TestShimSize(t *testing.T) {
	info, err := os.Stat(shim)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 6<<20 {
		t.Errorf("the shim has %d bytes", info.Size())
	}
}

func BenchmarkShim(b *testing.B) {
	socket := daemon(b, newMemory(1), everybody)
	for name, env := range map[string][]string{"VERSION": {"CNI_COMMAND=VERSION"}, "STATUS": {"CNI_COMMAND=STATUS"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if out, exit, err := runtime(b.Context(), socket, with(``), env...); err != nil || exit != 0 {
					b.Fatal(err, exit, out)
				}
			}
		})
	}
	b.Run("true", func(b *testing.B) { // what fork and exec cost by themselves
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
