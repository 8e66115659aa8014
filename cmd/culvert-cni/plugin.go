package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/api"
)

const (
	// maxOutput bounds a plugin's standard output, in bytes; in base64 it fits into one answer.
	// The last maxTail bytes of standard error are kept.
	maxOutput = 512 << 10
	maxTail   = 16 << 10
)

// answerDaemon runs the plugin that culvertd names.
func (s shim) answerDaemon(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if method != api.MethodPlugin {
		return nil, &api.Error{Code: "unknown-method", Message: fmt.Sprintf("culvert-cni has no method %q", method), Details: "it is older than culvertd: install the one that came with it"}
	}
	var r api.PluginRequest
	if err := json.Unmarshal(params, &r); err != nil {
		return nil, fmt.Errorf("plugin request: %w", err)
	}
	program, err := findPlugin(r.Type, r.Call.Path)
	if err != nil {
		return nil, err
	}
	if r.BoundMS > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.BoundMS)*time.Millisecond)
		defer cancel()
	}
	return s.runPlugin(ctx, program, r)
}

// findPlugin returns the first program of that name in the folders of a CNI_PATH. Any author of
// a network may choose the name, so findPlugin checks it.
func findPlugin(name, path string) (string, error) {
	if !api.IsPluginType(name) {
		return "", &api.Error{Code: "invalid", Message: fmt.Sprintf("CNI plugin %.100q: want the name of a program: letters, digits, '_', '.' and '-'", name)}
	}
	for _, dir := range filepath.SplitList(path) {
		program := filepath.Join(dir, name)
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(program) {
			return program, nil
		}
	}
	return "", &api.Error{Code: "not-found", Message: fmt.Sprintf("CNI plugin %s is not in %s (CNI_PATH)", name, path), Details: "install it there, or correct the type of the network"}
}

// runPlugin runs a program as a runtime would, by a supervisor. When ctx ends, the supervisor kills
// the program with all processes that descend from it; the same happens if the shim dies.
func (s shim) runPlugin(ctx context.Context, program string, r api.PluginRequest) (api.PluginResponse, error) {
	report, write, err := os.Pipe()
	if err != nil {
		return api.PluginResponse{}, fmt.Errorf("run CNI plugin %s: %w", program, err)
	}
	defer report.Close()
	out, tail := &bounded{max: maxOutput}, &bounded{max: maxTail, tail: true}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", superviseCommand, program) // also when the file was replaced
	cmd.Env = pluginEnv(s.environ, r.Call)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(r.Call.Config), out, tail
	cmd.ExtraFiles = []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killBound + time.Second
	err = cmd.Run()
	write.Close()
	failed, _ := io.ReadAll(io.LimitReader(report, maxTail)) // a supervisor that was killed reports nothing
	var exit *exec.ExitError
	switch {
	case len(failed) > 0:
		return api.PluginResponse{}, errors.New(string(failed))
	case ctx.Err() != nil:
		return api.PluginResponse{}, &api.Error{Code: "deadline", Message: fmt.Sprintf("CNI plugin %s did not end in time and was killed", program)}
	case out.over:
		return api.PluginResponse{}, fmt.Errorf("CNI plugin %s said more than %d bytes on standard output", program, maxOutput)
	case err != nil && !errors.As(err, &exit):
		return api.PluginResponse{}, fmt.Errorf("run CNI plugin %s: %w", program, err)
	}
	return api.PluginResponse{Stdout: out.kept, Stderr: tail.kept, Exit: cmd.ProcessState.ExitCode()}, nil
}

// pluginEnv returns the shim's own environment, with the variables of another call.
func pluginEnv(own []string, c api.CNIRequest) []string {
	var out []string
	for _, v := range own {
		if !strings.HasPrefix(v, "CNI_") && !strings.HasPrefix(v, "CULVERT_SOCKET=") {
			out = append(out, v)
		}
	}
	return append(out,
		"CNI_COMMAND="+c.Command, "CNI_CONTAINERID="+c.ContainerID, "CNI_NETNS="+c.Netns, "CNI_IFNAME="+c.IfName,
		"CNI_ARGS="+c.Args, "CNI_PATH="+c.Path)
}

// bounded keeps the first max bytes that are written, or the last ones. Write accepts all data,
// so that no writer waits.
type bounded struct {
	kept []byte
	max  int
	tail bool
	over bool // something was left out
}

func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p...)
	switch n := len(b.kept); {
	case n <= b.max:
	case b.tail:
		b.kept, b.over = append([]byte(nil), b.kept[n-b.max:]...), true
	default:
		b.kept, b.over = b.kept[:b.max], true
	}
	return len(p), nil
}
