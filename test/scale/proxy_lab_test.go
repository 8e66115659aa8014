//go:build lab

package scale

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// proxy passes connections on to an API server, and delays the data in each direction by half
// of the added latency.
type proxy struct {
	addr    string
	latency atomic.Int64
}

// newProxy starts a proxy that ends with the test.
func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	t.Cleanup(func() { cancel(); _ = l.Close(); _ = g.Wait() })
	g.Go(func() error {
		for {
			in, err := l.Accept()
			if err != nil {
				return nil //nolint:nilerr // the test has ended
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			end := context.AfterFunc(ctx, func() { _ = in.Close(); _ = out.Close() })
			g.Go(func() error { defer end(); p.pass(in, out); return nil })
			g.Go(func() error { p.pass(out, in); return nil })
		}
	})
	return p
}

// packet is the data of one read, and the time at which it is due.
type packet struct {
	data []byte
	due  time.Time
}

// pass copies one direction of a connection, each packet when it is due.
func (p *proxy) pass(from, to net.Conn) {
	queue := make(chan packet, 1024)
	var g errgroup.Group
	g.Go(func() error {
		defer to.Close()
		for one := range queue {
			time.Sleep(time.Until(one.due))
			if _, err := to.Write(one.data); err != nil {
				_ = from.Close()
			}
		}
		return nil
	})
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			queue <- packet{buffer[:n], time.Now().Add(time.Duration(p.latency.Load() / 2))}
		}
		if err != nil {
			break
		}
	}
	close(queue)
	_ = g.Wait()
}
