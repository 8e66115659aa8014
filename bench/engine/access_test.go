package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// flood is the workload that an attacker wants of a server: to send as much as it can.
var flood = bench.Workload{Kind: bench.Datagram, Seconds: 1, Size: 1000, Reverse: true}

// serveFlood has a server at end 1 serve flood until the returned function is called.
func (p pair) serveFlood(t *testing.T) (s *Server, stop func() error) {
	t.Helper()
	s = p.startServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return netns.Run(p.netns[1], func() error { return s.Serve(ctx, flood, Marks{}) }) })
	return s, func() error {
		cancel()
		return errors.Join(g.Wait(), s.Close())
	}
}

// askFlood opens a control connection with a token and asks for flood.
func (p pair) askFlood(t *testing.T, s *Server, token string) (control net.Conn) {
	t.Helper()
	w, err := Check(flood)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := json.Marshal(message{Says: hello, Protocol: protocol, Workload: &w})
	if err != nil {
		t.Fatal(err)
	}
	p.runIn(t, 0, func() (err error) {
		control, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr().String())
		return err
	})
	if _, err := control.Write(append(ticket{token, 1, controlStream}.encodeTicket(), append(ask, '\n')...)); err != nil {
		t.Fatal(err)
	}
	return control
}

// countAnswers returns how many bytes come from a connection in that time.
func countAnswers(conn net.Conn, while time.Duration) (n int64) {
	_ = conn.SetReadDeadline(time.Now().Add(while))
	n, _ = io.Copy(io.Discard, conn)
	return n
}

// openDatagram sends a ticket for the first stream from an address of end 0, and returns the socket.
func (p pair) openDatagram(t *testing.T, s *Server, from netip.Addr, token string) (conn net.Conn) {
	t.Helper()
	p.runIn(t, 0, func() (err error) {
		d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		conn, err = d.DialContext(t.Context(), "udp", s.Addr().String())
		return err
	})
	if _, err := conn.Write(ticket{token, 1, 0}.encodeTicket()); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestNoAnswerWithoutToken has a client without the server's token open a control connection and
// send datagrams: neither gets a byte, and the server serves its own client afterwards.
func TestNoAnswerWithoutToken(t *testing.T) {
	p := newPair(t)
	s, stop := p.serveFlood(t)
	wrong := rand.Text()
	control := p.askFlood(t, s, wrong)
	defer control.Close()
	stream := p.openDatagram(t, s, p.address[0], wrong)
	defer stream.Close()
	if n := countAnswers(control, time.Second); n != 0 {
		t.Errorf("a control connection without the token got %d bytes", n)
	}
	if n := countAnswers(stream, 300*time.Millisecond); n != 0 {
		t.Errorf("a datagram without the token got %d bytes", n)
	}
	p.runIn(t, 0, func() error {
		run, err := Measure(t.Context(), flood, Local{}, s.Remote(), Marks{})
		if err == nil && run.Bytes == 0 {
			err = ErrNothing
		}
		return err
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestSpoofedSourceGetsNothing has a client with the token send the ticket of a stream from another
// address than that of its control connection, as spoofing does: the server sends nothing there. It
// sends to the control connection's address.
func TestSpoofedSourceGetsNothing(t *testing.T) {
	p := newPair(t)
	victim := netip.MustParseAddr("192.0.2.77")
	p.runIn(t, 0, func() error {
		link, err := netlink.LinkByName(wire)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: victim.AsSlice(), Mask: net.CIDRMask(32, 32)}})
	})
	s, stop := p.serveFlood(t)
	control := p.askFlood(t, s, s.token)
	defer control.Close()
	line := make([]byte, 64)
	if n, err := control.Read(line); err != nil || !strings.Contains(string(line[:n]), string(ready)) {
		t.Fatalf("the server says %q: %v", line[:n], err)
	}
	spoofed := p.openDatagram(t, s, victim, s.token)
	defer spoofed.Close()
	// The server starts as soon as it takes the stream for joined.
	text, err := json.Marshal(message{Says: start})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
	if n := countAnswers(spoofed, 500*time.Millisecond); n != 0 {
		t.Errorf("one datagram of %d bytes from a spoofed address had the server send it %d bytes", ticketSize, n)
	}
	own := p.openDatagram(t, s, p.address[0], s.token)
	defer own.Close()
	_ = own.SetReadDeadline(time.Now().Add(5 * time.Minute))
	if n, err := own.Read(make([]byte, 2000)); n == 0 {
		t.Errorf("the control connection's address got nothing: %v", err)
	}
	_ = stop() // the client said nothing of its window
}

// TestOtherWorkloadIsRefused has a client with the token ask for another workload than the server's
// task.
func TestOtherWorkloadIsRefused(t *testing.T) {
	p := newPair(t)
	s, stop := p.serveFlood(t)
	long := flood
	long.Seconds = 600
	p.runIn(t, 0, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := Measure(ctx, long, Local{}, s.Remote(), Marks{})
		checkSays(t, err, "which is not the workload of this server's task")
		return nil
	})
	if err := stop(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server ends with %v", err)
	}
}
