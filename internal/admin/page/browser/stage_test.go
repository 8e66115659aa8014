package browser

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/culvert-net/culvert/internal/admin/page"
)

// stage serves the page of a simulated source.
type stage struct {
	url, origin string // url opens the page once
	listener    *cutter
}

func newStage(t *testing.T, source *simulated) *stage {
	t.Helper()
	l, err := page.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{origin: "http://" + l.Addr().String(), listener: &cutter{Listener: l}}
	server := page.NewServer(source, s.listener)
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context())) // the page works until its tab is closed
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.url = server.NewURL()
	return s
}

// cutter is a listener whose connections a test can cut.
type cutter struct {
	net.Listener
	mu    sync.Mutex // guards the rest
	isCut bool
	open  []net.Conn
}

// Accept takes a connection, and closes it at once while the listener is cut.
func (c *cutter) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		if !c.isCut {
			c.open = append(c.open, conn)
			c.mu.Unlock()
			return conn, nil
		}
		c.mu.Unlock()
		_ = conn.Close()
	}
}

// cut cuts the connections, or lets new ones through again.
func (c *cutter) cut(isCut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = isCut
	if isCut {
		for _, conn := range c.open {
			_ = conn.Close()
		}
		c.open = nil
	}
}
