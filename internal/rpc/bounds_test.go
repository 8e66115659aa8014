package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// The server serves at most maxConnections clients at once. Further clients wait, and are served
// when there is room.
func TestConnectionsAreBounded(t *testing.T) {
	s := newServer()
	entered, leave := make(chan struct{}, 2*maxConnections), make(chan struct{})
	s.Handle("wait", func(ctx context.Context, _ json.RawMessage) (any, error) {
		entered <- struct{}{}
		select {
		case <-leave:
		case <-ctx.Done():
		}
		return nil, nil
	})
	socket, _ := start(t, s)
	var clients errgroup.Group
	const more = 20
	for range maxConnections + more {
		clients.Go(func() error { return Call(t.Context(), socket, "wait", nil, nil) })
	}
	for range maxConnections {
		<-entered
	}
	select {
	case <-entered:
		t.Errorf("more than %d requests run at once", maxConnections)
	case <-time.After(100 * time.Millisecond): // no further request may begin within this time
	}
	close(leave)
	if err := clients.Wait(); err != nil {
		t.Error(err)
	}
}

// The server drops a client that sends nothing.
func TestSilentClientsAreDropped(t *testing.T) {
	s := newServer()
	s.patience = 50 * time.Millisecond
	socket, _ := start(t, s)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(answer), "read the request") {
		t.Errorf("it is told %q, %v", answer, err)
	}
}

// An answer that is too long for the client is no sign that culvertd is not there.
func TestAnswersAreBounded(t *testing.T) {
	s := newServer()
	s.Handle("long", func(context.Context, json.RawMessage) (any, error) { return strings.Repeat("x", maxResponse), nil })
	socket, _ := start(t, s)
	var got string
	err := Call(t.Context(), socket, "long", nil, &got)
	if err == nil || errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "answer to long is longer than 67108864 bytes") {
		t.Errorf("%v", err)
	}
}
