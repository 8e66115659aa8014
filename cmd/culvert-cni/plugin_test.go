package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
)

// scripts makes a folder with a shell script for each plugin.
func scripts(t *testing.T, plugins map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range plugins {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func run(ctx context.Context, s shim, kind string, call api.CNIRequest) (api.PluginResponse, error) {
	params, err := json.Marshal(api.PluginRequest{Type: kind, Call: call})
	if err != nil {
		return api.PluginResponse{}, err
	}
	v, err := s.answerDaemon(ctx, api.MethodPlugin, params)
	if err != nil {
		return api.PluginResponse{}, err
	}
	return v.(api.PluginResponse), nil
}

func TestPluginRunsAsTheRuntimeWouldRunIt(t *testing.T) {
	dir := scripts(t, map[string]string{"show": `echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME $CNI_ARGS $CNI_PATH $HOME ${CULVERT_SOCKET-none}"; cat; echo why >&2; exit 3`})
	s := shim{environ: []string{"HOME=/root", "CNI_COMMAND=DEL", "CNI_OTHER=x", "CULVERT_SOCKET=/s", "PATH=" + os.Getenv("PATH")}}
	if testing.CoverMode() != "" { // else the supervisor, which is this test, complains
		s.environ = append(s.environ, "GOCOVERDIR="+t.TempDir())
	}
	path := "/nowhere:" + dir
	got, err := run(t.Context(), s, "show", api.CNIRequest{Command: "ADD", ContainerID: "c1", Netns: "/ns", IfName: "eth0", Args: "A=b", Path: path, Config: []byte(`{"x":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	if want := "ADD c1 /ns eth0 A=b " + path + " /root none\n" + `{"x":1}`; string(got.Stdout) != want || string(got.Stderr) != "why\n" || got.Exit != 3 {
		t.Errorf("%q, %q, exit %d; want %q", got.Stdout, got.Stderr, got.Exit, want)
	}
}

func TestPluginIsFoundByItsName(t *testing.T) {
	dir := scripts(t, map[string]string{"bridge": "", "host-local.v2": ""})
	if err := os.WriteFile(filepath.Join(dir, "notes"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"bridge": "", "host-local.v2": "", "absent": "not-found", "notes": "not-found",
		"": "invalid", "../bridge": "invalid", "/bin/sh": "invalid", ".": "invalid", "..": "invalid", "a b": "invalid", "-x": "invalid", strings.Repeat("a", 200): "invalid",
	} {
		program, err := findPlugin(name, dir)
		var e *api.Error
		switch errors.As(err, &e); {
		case want == "" && program != filepath.Join(dir, name):
			t.Errorf("%q: %q, %v", name, program, err)
		case want != "" && (e == nil || e.Code != want):
			t.Errorf("%q: %q, %v; want %s", name, program, err, want)
		}
	}
	if _, err := findPlugin("plugin.go", "."); err == nil {
		t.Error("a folder without a whole path was looked into")
	}
}

// The shim kills a plugin that hangs, with all processes that it has started,
// and bounds the output of plugins.
func TestPluginIsBounded(t *testing.T) {
	dir := scripts(t, map[string]string{
		"hang":  "sleep 100 & sleep 100",
		"loud":  "head -c 600000 /dev/zero",
		"proud": "head -c 600000 /dev/zero >&2; echo end >&2",
	})
	s := shim{environ: os.Environ()}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := run(ctx, s, "hang", api.CNIRequest{Path: dir}); err == nil || !strings.Contains(err.Error(), "killed") || time.Since(began) > time.Minute {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	if _, err := run(t.Context(), s, "loud", api.CNIRequest{Path: dir}); err == nil || !strings.Contains(err.Error(), "more than 524288 bytes") {
		t.Errorf("a plugin that says too much: %v", err)
	}
	got, err := run(t.Context(), s, "proud", api.CNIRequest{Path: dir})
	if err != nil || len(got.Stderr) != maxTail || !bytes.HasSuffix(got.Stderr, []byte("end\n")) {
		t.Errorf("%d bytes of standard error, %v", len(got.Stderr), err)
	}
}

// The shim runs several plugins at once for culvertd, over a real socket, and
// prints culvertd's answer.
func TestShimRunsPluginsForCulvertd(t *testing.T) {
	dir := scripts(t, map[string]string{"echo": "cat"})
	srv := rpc.NewServer(func(*net.UnixConn) error { return nil }, slog.New(slog.DiscardHandler))
	srv.HandleDialog(api.MethodCNI, func(ctx context.Context, params json.RawMessage, ask rpc.Ask) (any, error) {
		var req api.CNIRequest
		if err := json.Unmarshal(params, &req); err != nil {
			return nil, err
		}
		said := make([]string, 3)
		var g errgroup.Group
		for i := range said {
			g.Go(func() error {
				var out api.PluginResponse
				err := ask(ctx, api.MethodPlugin, api.PluginRequest{Type: "echo", Call: api.CNIRequest{Path: req.Path, Config: fmt.Appendf(nil, "%d", i)}}, &out)
				said[i] = string(out.Stdout)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		err := ask(ctx, api.MethodPlugin, api.PluginRequest{Type: "absent", Call: api.CNIRequest{Path: req.Path}}, nil)
		return api.CNIResponse{Stdout: fmt.Appendf(nil, "%v %v", said, err)}, nil
	})
	socket := filepath.Join(t.TempDir(), "s.sock")
	l, err := rpc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var serving errgroup.Group
	serving.Go(func() error { return srv.Serve(ctx, l) })
	defer func() { stop(); _ = serving.Wait() }()
	var out bytes.Buffer
	exit := shim{command: "ADD", path: dir, socket: socket, stdin: strings.NewReader("{}"), stdout: &out, environ: os.Environ()}.runShim()
	if want := "[0 1 2] CNI plugin absent is not in " + dir; exit != 0 || !strings.HasPrefix(out.String(), want) {
		t.Errorf("exit %d: %s", exit, out.String())
	}
}
