package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/api"
)

// FuzzRequest shows that any request gets one answer on one line, and that its method is called at
// most once, with parameters that are JSON.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"method":"echo","params":{},"deadlineMS":5}`))
	f.Add([]byte(`{"method":"echo","params":[1,{"a":null}],"deadlineMS":-9223372036854775808}{"method":"echo"}`))
	f.Add([]byte(`{"method":"panic"}` + "\n"))
	f.Add([]byte(`{"method":1}`))
	f.Add([]byte(`{"METHOD":"echo","method":"","params":null}`))
	f.Add(bytes.Repeat([]byte("["), 20000))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 64<<10 {
			return // the bound has its own test, and more would not fit in the socket
		}
		calls := 0
		s := newServer()
		s.Handle("echo", func(_ context.Context, params json.RawMessage) (any, error) {
			calls++
			if len(params) > 0 && !json.Valid(params) {
				t.Errorf("the parameters are %q", params)
			}
			return params, nil
		})
		s.Handle("panic", func(context.Context, json.RawMessage) (any, error) { calls++; panic("defect") })
		client, server := socketPair(t)
		defer client.Close()
		var g errgroup.Group
		g.Go(func() error { newConnection(s, server).serveRequest(t.Context(), t.Context()); return nil })
		if _, err := client.Write(raw); err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
			t.Fatal(err)
		}
		if err := client.CloseWrite(); err != nil && !errors.Is(err, unix.ENOTCONN) {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(io.LimitReader(client, maxResponse))
		if err != nil {
			t.Fatalf("%q was not answered: %v", raw, err)
		}
		_ = g.Wait()
		var resp api.RPCResponse
		if err := json.Unmarshal(answer, &resp); err != nil || bytes.Count(answer, []byte("\n")) != 1 || resp.More {
			t.Errorf("%q is answered %q: %v", raw, answer, err)
		}
		if calls > 1 || len(answer) > 8*len(raw)+1000 {
			t.Errorf("%d calls, %d bytes of answer to %d", calls, len(answer), len(raw))
		}
	})
}

// socketPair returns a connection without a name, which costs less than one with a path.
func socketPair(t *testing.T) (client, server *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := func(fd int) *net.UnixConn {
		file := os.NewFile(uintptr(fd), "pair")
		defer file.Close()
		c, err := net.FileConn(file)
		if err != nil {
			t.Fatal(err)
		}
		return c.(*net.UnixConn)
	}
	return end(fds[0]), end(fds[1])
}
