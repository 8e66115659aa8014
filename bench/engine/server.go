package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
)

// Server is the end that waits. It has one TCP and one UDP port, of one number. It answers only
// clients that have its token.
type Server struct {
	local Local
	token string
	tcp   *net.TCPListener
	udp   *net.UDPConn
}

// Listen opens a server with a new token. Port 0 takes a free one. The caller closes it.
func Listen(ctx context.Context, local Local, port uint16) (*Server, error) {
	const attempts = 20 // at a number that is free for both
	if !local.Address.IsValid() {
		return nil, errors.New("listen: no address: name one of this end's")
	}
	s, err := listenOn(ctx, local, port, attempts)
	if err = NoPorts(err, port); err != nil {
		return nil, fmt.Errorf("listen on %s: %w: name a port that is free and an address that this end has", netip.AddrPortFrom(local.Address, port), err)
	}
	return s, nil
}

// NoPorts adds an explanation to the error of a listener on port 0 if no port is free.
func NoPorts(err error, port uint16) error {
	if port == 0 && errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("no port is left, %w: end what holds so many, or widen net.ipv4.ip_local_port_range", err)
	}
	return err
}

func listenOn(ctx context.Context, local Local, port uint16, attempts int) (*Server, error) {
	at := netip.AddrPortFrom(local.Address, port)
	config := net.ListenConfig{Control: options{device: local.Interface}.setBeforeBind}
	config.SetMultipathTCP(false)
	tcp, err := config.Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	config.Control = options{device: local.Interface, sharing: true}.setBeforeBind
	udp, err := config.ListenPacket(ctx, "udp", tcp.Addr().String())
	if err != nil {
		tcp.Close()
		if port == 0 && attempts > 1 && errors.Is(err, unix.EADDRINUSE) {
			return listenOn(ctx, local, port, attempts-1)
		}
		return nil, err
	}
	return &Server{local: local, token: rand.Text(), tcp: tcp.(*net.TCPListener), udp: udp.(*net.UDPConn)}, nil
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() netip.AddrPort { return s.tcp.Addr().(*net.TCPAddr).AddrPort() }

// Remote returns what a client needs to reach the server.
func (s *Server) Remote() Remote { return Remote{Address: s.Addr(), Token: s.token} }

// Close frees the ports.
func (s *Server) Close() error { return errors.Join(s.tcp.Close(), s.udp.Close()) }

// Serve takes part in one measurement of the workload w. It waits for a client until ctx ends.
// It closes connections that do not show the token, and refuses a client with another workload.
// Traffic goes only to the address that the client's control connection comes from.
func (s *Server) Serve(ctx context.Context, w bench.Workload, marks Marks) error {
	w, err := Check(w)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	door := &lobby{listener: s.tcp, token: s.token, arrivals: make(chan arrival)}
	g, admitting := errgroup.WithContext(ctx)
	g.Go(func() error { return door.admitConnections(admitting) })
	err = s.serveClient(admitting, door, w, marks)
	cancel()
	if admitted := g.Wait(); err == nil {
		return admitted
	}
	return err
}

func (s *Server) serveClient(ctx context.Context, door *lobby, w bench.Workload, marks Marks) error {
	first, err := door.waitForClient(ctx)
	if err != nil {
		return err
	}
	p := listenTo(ctx, first.conn)
	defer p.close()
	if err := s.runMeasurement(ctx, door, p, first, w, marks); err != nil {
		err = causeOf(ctx, err)
		p.reportFailure(err)
		return fmt.Errorf("for %s: %w", p.conn.RemoteAddr(), err)
	}
	return nil
}

func (s *Server) runMeasurement(ctx context.Context, door *lobby, p *peer, first arrival, own bench.Workload, marks Marks) (err error) {
	m, err := p.expectMessage(ctx, hello, patience)
	if err != nil {
		return err
	}
	w, err := checkOwn(own, *m.Workload)
	if err != nil {
		return err
	}
	t, err := tapFor(w, p.conn)
	if err != nil {
		return err
	}
	defer t.close()
	if err := p.sendMessage(message{Says: ready}); err != nil {
		return err
	}
	l, done, err := s.openLoad(ctx, door, w, first, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := p.sendMessage(message{Says: joined}); err != nil {
		return err
	}
	if _, err := p.expectMessage(ctx, start, patience); err != nil {
		return err
	}
	session := newSession(p, w, l, w.Reverse, marks)
	var run bench.Run
	err = door.greetWhile(ctx, s.welcome(w, first), func() (err error) {
		run, err = session.runLoad(ctx)
		return err
	})
	if err != nil || !session.counts {
		return err
	}
	return p.sendMessage(message{Says: result, Run: &run})
}

// welcome returns the function for connections that come while the workload runs. It answers those
// of [bench.Connect]. It is nil for other workloads, whose connections are closed.
func (s *Server) welcome(w bench.Workload, first arrival) func(context.Context, arrival) {
	if w.Kind != bench.Connect {
		return nil
	}
	return func(ctx context.Context, a arrival) {
		if !first.admitsTicket(a.ticket, addrPort(a.conn.RemoteAddr()).Addr()) {
			a.turnAway()
			return
		}
		_ = onConn(a.conn, options{dscp: w.DSCP}.setOptions) // only a closed one refuses, as answerOnce finds
		answerOnce(ctx, a.conn, w.Size)
	}
}

// openLoad returns this end's part of the session. The caller must call done.
func (s *Server) openLoad(ctx context.Context, door *lobby, w bench.Workload, first arrival, t *tap) (l load, done func() error, err error) {
	if w.Kind == bench.Packets {
		return newPacketLoad(ctx, w, first.session, t, s.udp, w.Reverse)
	}
	if w.Kind == bench.Connect { // each question brings its connection
		return &answerer{}, func() error { return nil }, nil
	}
	gather := s.gatherStreams
	if networkOf(w) == "udp" {
		gather = s.gatherDatagrams
	}
	conns, err := gather(ctx, door, w, first)
	if err != nil {
		closeAll(conns)
		return nil, nil, err
	}
	return newLoad(w, first.session, conns, w.Reverse), func() error { closeAll(conns); return nil }, nil
}

// gatherStreams waits for the TCP connections of a measurement.
func (s *Server) gatherStreams(ctx context.Context, door *lobby, w bench.Workload, first arrival) ([]net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	conns := make([]net.Conn, w.Streams)
	for there := 0; there < len(conns); {
		a, err := door.nextArrival(ctx)
		if err != nil {
			return conns, fmt.Errorf("%d of %d streams came: %w", there, len(conns), err)
		}
		if !first.admitsTicket(a.ticket, addrPort(a.conn.RemoteAddr()).Addr()) || !isVacant(conns, a.stream) {
			a.turnAway()
			continue
		}
		conns[a.stream] = a.conn
		there++
		if err := onConn(a.conn, options{window: w.Window, dscp: w.DSCP}.setOptions); err != nil {
			return conns, err
		}
	}
	return conns, nil
}

// gatherDatagrams waits for a ticket of each stream, and gives each a socket of its own
// that is connected to the source of the ticket. It ignores tickets that do not come from the
// client's address, so that no ticket directs traffic to a third host
// (TestSpoofedSourceGetsNothing).
func (s *Server) gatherDatagrams(ctx context.Context, door *lobby, w bench.Workload, first arrival) (conns []net.Conn, err error) {
	conns = make([]net.Conn, w.Streams)
	return conns, door.closedWhile(ctx, func() error {
		ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
		defer cancel()
		_ = s.udp.SetReadDeadline(time.Time{}) // only a closed socket refuses, as reading reports
		defer context.AfterFunc(ctx, func() { _ = s.udp.SetReadDeadline(time.Unix(1, 0)) })()
		text := make([]byte, ticketSize+1)
		for there := 0; there < len(conns); {
			n, from, err := s.udp.ReadFromUDPAddrPort(text)
			if err != nil {
				return fmt.Errorf("%d of %d streams came: %w", there, len(conns), errors.Join(context.Cause(ctx), err))
			}
			t, ok := door.parseTicket(text[:n])
			if !ok || !first.admitsTicket(t, from.Addr().Unmap().WithZone("")) || !isVacant(conns, t.stream) {
				continue
			}
			o := options{device: s.local.Interface, window: w.Window, sharing: true, dscp: w.DSCP}
			d := net.Dialer{LocalAddr: s.udp.LocalAddr(), Control: o.setBeforeBind}
			if conns[t.stream], err = d.DialContext(ctx, "udp", from.String()); err != nil {
				return fmt.Errorf("stream %d of %d: %w", t.stream+1, len(conns), err)
			}
			there++
		}
		return nil
	})
}

// isVacant reports whether a stream is one of conns and has not come yet.
func isVacant(conns []net.Conn, stream uint32) bool {
	return int64(stream) < int64(len(conns)) && conns[stream] == nil
}
