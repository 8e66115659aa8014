package engine

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// arrival is a connection that has shown its ticket.
type arrival struct {
	conn net.Conn
	ticket
}

// turnAway closes a connection that is not expected, and sends a client the reason.
func (a arrival) turnAway() {
	if a.stream == controlStream {
		client := peer{conn: a.conn}
		client.reportFailure(errors.New("this server measures with another client: wait for it, or start a second server"))
	}
	a.conn.Close()
}

// admitsTicket reports whether a ticket that came from an address is of the measurement whose control
// connection a is.
func (a arrival) admitsTicket(t ticket, from netip.Addr) bool {
	return t.session == a.session && from == addrPort(a.conn.RemoteAddr()).Addr()
}

// lobby checks the tickets of new connections. It closes a connection that shows no ticket with
// the server's token, without an answer; such a connection delays no other.
type lobby struct {
	listener *net.TCPListener
	token    string
	arrivals chan arrival
}

// admitConnections accepts connections until ctx ends.
func (l *lobby) admitConnections(ctx context.Context) error {
	_ = l.listener.SetDeadline(time.Time{}) // only a closed listener refuses, as Accept reports
	defer context.AfterFunc(ctx, func() { _ = l.listener.SetDeadline(time.Unix(1, 0)) })()
	g, ctx := errgroup.WithContext(ctx)
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil
			}
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error {
			l.greetConnection(ctx, conn)
			return nil
		})
	}
}

func (l *lobby) greetConnection(ctx context.Context, conn net.Conn) {
	defer closedBy(ctx, []net.Conn{conn})()
	_ = conn.SetReadDeadline(time.Now().Add(patience)) // only a closed connection refuses, as ReadFull reports
	text := make([]byte, ticketSize)
	_, err := io.ReadFull(conn, text)
	t, ok := l.parseTicket(text)
	if err != nil || !ok {
		conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	select {
	case l.arrivals <- arrival{conn, t}:
	case <-ctx.Done():
		conn.Close()
	}
}

// parseTicket reads exactly one ticket, and returns false for one without the server's token.
func (l *lobby) parseTicket(b []byte) (ticket, bool) {
	t, ok := parseTicket(b)
	return t, ok && subtle.ConstantTimeCompare([]byte(t.token), []byte(l.token)) == 1
}

func (l *lobby) nextArrival(ctx context.Context) (arrival, error) {
	select {
	case a := <-l.arrivals:
		return a, nil
	case <-ctx.Done():
		return arrival{}, context.Cause(ctx)
	}
}

// waitForClient waits for a client.
func (l *lobby) waitForClient(ctx context.Context) (arrival, error) {
	for {
		a, err := l.nextArrival(ctx)
		if err != nil || a.stream == controlStream {
			return a, err
		}
		a.turnAway()
	}
}

// closedWhile calls f and turns away connections that come in the meantime.
func (l *lobby) closedWhile(ctx context.Context, f func() error) error {
	return l.greetWhile(ctx, nil, f)
}

// greetWhile calls f, and welcome for each connection that comes in the meantime, several at once.
// Its context ends with f. Without welcome connections are turned away.
func (l *lobby) greetWhile(ctx context.Context, welcome func(context.Context, arrival), f func() error) error {
	open, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error {
		for open.Err() == nil {
			a, err := l.nextArrival(open)
			switch {
			case err != nil:
			case welcome == nil:
				a.turnAway()
			default:
				g.Go(func() error { welcome(open, a); return nil })
			}
		}
		return nil
	})
	err := f()
	cancel()
	return errors.Join(err, g.Wait())
}
