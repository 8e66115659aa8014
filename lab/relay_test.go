package lab

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRelay: connections to a socket that the supervisor received reach the relay's
// target, until the lab ends.
func TestRelay(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	go func() { // ends with the listener
		for {
			conn, err := target.Accept()
			if err != nil {
				return
			}
			body, _ := io.ReadAll(conn)
			_, _ = conn.Write([]byte(strings.ToUpper(string(body))))
			conn.Close()
		}
	}()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := new(supervisor)
	p := paths{run: t.TempDir()}
	control, err := net.Listen("unix", filepath.Join(p.run, "control"))
	if err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { control.Close() })
	defer stop()
	s.life.Go(func() error { s.acceptRequests(ctx, control); return nil })

	l := &Lab{name: "x", paths: p}
	address, err := l.Relay(t.Context(), target.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(conn); string(body) != "HELLO" {
		t.Errorf("%q, %v", body, err)
	}
	cancel()
	_ = s.life.Wait()
	// A program that another test starts at this moment has the socket open until its exec.
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", address.String())
		if err != nil {
			break
		}
		conn.Close()
		if time.Now().After(end) {
			t.Fatal("the port is open after the lab's end")
		}
	}
}
