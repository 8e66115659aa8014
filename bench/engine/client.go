package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
)

// Local has the address and the interface of an end's sockets. Zero values leave them to the
// routes.
type Local struct {
	Address   netip.Addr
	Interface string // for hosts with several in one subnet (SO_BINDTODEVICE)
}

// Remote is a server: its address, and the token that it asks of clients ([Server.Remote]).
type Remote struct {
	Address netip.AddrPort
	Token   string
}

// Measure makes one measurement against the [Server] at to, and returns its
// figures: Started (by this end's clock), Seconds, Bytes, Packets, Sent, Lost, Gbps,
// PPS, Retransmits of streams, Delays of requests, and Series. Without w.Reverse it
// sends, or asks.
//
// Zero values of w mean: one stream; the kernel's windows; no rate; Size 128 KiB for
// streams, 64 bytes for questions, the least for packets, and for datagrams the payload of a TCP
// segment on the same path. These are then not fragmented. The rate is of all streams together.
// Packets come from as many threads as there are streams.
//
// It returns when the window has passed, or ctx has ended, or there can be no figures. The error
// has the reason. With an error there are no figures.
func Measure(ctx context.Context, w bench.Workload, from Local, to Remote, marks Marks) (bench.Run, error) {
	w, err := Check(w)
	if err != nil {
		return bench.Run{}, err
	}
	if len(to.Token) != tokenSize {
		return bench.Run{}, fmt.Errorf("the token of the server at %s has %d characters, want %d: take the one that it gave when it began to listen", to.Address, len(to.Token), tokenSize)
	}
	c := client{from: from, to: to.Address, token: to.Token, session: drawSession()}
	conn, err := c.dialStream(ctx, "tcp", options{device: from.Interface}, controlStream)
	if err != nil {
		return bench.Run{}, err
	}
	p := listenTo(ctx, conn)
	defer p.close()
	run, err := c.runMeasurement(ctx, w, p, marks)
	if err != nil {
		err = causeOf(ctx, err)
		p.reportFailure(err)
		return bench.Run{}, fmt.Errorf("%s to %s: %w", w.Kind, to.Address, err)
	}
	return run, nil
}

// client is the end that asks for a measurement.
type client struct {
	from    Local
	to      netip.AddrPort
	token   string
	session uint64
}

// drawSession returns a number that another host cannot guess: the server and the eBPF
// discard know the datagrams and frames of a measurement by it.
func drawSession() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.NativeEndian.Uint64(b[:])
}

func (c client) runMeasurement(ctx context.Context, w bench.Workload, p *peer, marks Marks) (run bench.Run, err error) {
	if w.Size, err = usualSize(w, p.conn); err != nil {
		return run, err
	}
	t, err := tapFor(w, p.conn)
	if err != nil {
		return run, err
	}
	defer t.close()
	if err := p.sendMessage(message{Says: hello, Protocol: protocol, Workload: &w}); err != nil {
		return run, err
	}
	if _, err := p.expectMessage(ctx, ready, patience); err != nil {
		return run, err
	}
	l, done, err := c.openLoad(ctx, w, p, t)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, done()) }()
	if marks.Hold != nil {
		if err := marks.Hold(ctx); err != nil {
			return run, err
		}
	}
	if err := p.sendMessage(message{Says: start}); err != nil {
		return run, err
	}
	s := newSession(p, w, l, !w.Reverse, marks)
	run, err = s.runLoad(ctx)
	if err != nil || s.counts {
		return run, err
	}
	m, err := p.expectMessage(ctx, result, patience)
	if err != nil {
		return run, err
	}
	m.Run.Started = run.Started
	return *m.Run, nil
}

// openLoad returns this end's part of the session once the server is ready for it. The caller
// must call done.
func (c client) openLoad(ctx context.Context, w bench.Workload, p *peer, t *tap) (l load, done func() error, err error) {
	if w.Kind == bench.Connect {
		l, err := c.openConnector(w)
		if err == nil {
			_, err = p.expectMessage(ctx, joined, patience)
		}
		if err != nil {
			return nil, nil, errors.Join(err, l.space.close())
		}
		return l, l.space.close, nil
	}
	if w.Kind != bench.Packets {
		conns, err := c.connectStreams(ctx, w)
		done := func() error { closeAll(conns); return nil }
		if err == nil {
			err = c.joinStreams(ctx, p, conns)
		}
		if err != nil {
			return nil, nil, errors.Join(err, done())
		}
		return newLoad(w, c.session, conns, !w.Reverse), done, nil
	}
	var port *net.UDPConn
	if w.Reverse { // frames go to the number of the control connection's port
		port, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(addrPort(p.conn.LocalAddr())))
		if err != nil {
			return nil, nil, fmt.Errorf("take the port that frames come to: %w: try again", err)
		}
	}
	l, closeLoad, err := newPacketLoad(ctx, w, c.session, t, port, !w.Reverse)
	if err == nil {
		_, err = p.expectMessage(ctx, joined, patience)
	}
	done = func() error {
		var errs []error
		if closeLoad != nil {
			errs = append(errs, closeLoad())
		}
		if port != nil {
			port.Close()
		}
		return errors.Join(errs...)
	}
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return l, done, nil
}

// connectStreams opens the workload's streams.
func (c client) connectStreams(ctx context.Context, w bench.Workload) ([]net.Conn, error) {
	var conns []net.Conn
	for i := range w.Streams {
		conn, err := c.dialStream(ctx, networkOf(w), options{device: c.from.Interface, window: w.Window, dscp: w.DSCP}, uint32(i))
		if err != nil {
			return conns, fmt.Errorf("stream %d of %d: %w", i+1, w.Streams, err)
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// joinStreams waits until the server has all streams. Datagrams' tickets may be lost, so
// they are sent again until then.
func (c client) joinStreams(ctx context.Context, p *peer, conns []net.Conn) error {
	const again = 100 * time.Millisecond
	for range patience / again {
		if _, err := p.expectMessage(ctx, joined, again); !errors.Is(err, errSilent) {
			return err
		}
		for i, conn := range conns {
			if _, datagrams := conn.(*net.UDPConn); !datagrams {
				break
			}
			if _, err := conn.Write(ticket{c.token, c.session, uint32(i)}.encodeTicket()); err != nil {
				return fmt.Errorf("connect to the server: %w", err)
			}
		}
	}
	return fmt.Errorf("the server does not see all %d streams: something between the ends drops what goes to port %d: look for a firewall", len(conns), c.to.Port())
}

// dialQuestion connects for one question of a DSCP, and sends it with the ticket.
func (c client) dialQuestion(ctx context.Context, dscp int, stream uint32, question []byte) (net.Conn, error) {
	return c.dialStream(ctx, "tcp", options{device: c.from.Interface, dscp: dscp}, stream, question...)
}

// dialStream connects and shows the ticket of a stream, with the data that follows it.
func (c client) dialStream(ctx context.Context, network string, o options, stream uint32, data ...byte) (net.Conn, error) {
	d := net.Dialer{Timeout: patience, Control: o.setBeforeBind}
	d.SetMultipathTCP(false)
	if c.from.Address.IsValid() {
		local := netip.AddrPortFrom(c.from.Address, 0)
		d.LocalAddr = net.TCPAddrFromAddrPort(local)
		if network == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(local)
		}
	}
	conn, err := d.DialContext(ctx, network, c.to.String())
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w: see whether one listens there, and whether the path carries %s", err, network)
	}
	_ = conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := conn.Write(append(ticket{c.token, c.session, stream}.encodeTicket(), data...)); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	_ = conn.SetWriteDeadline(time.Time{})
	return conn, nil
}

// networkOf returns the network of the workload's streams, as package net names it.
func networkOf(w bench.Workload) string {
	if w.Kind == bench.Datagram || w.UDP {
		return "udp"
	}
	return "tcp"
}

// usualSize returns w's size or, if it has none, a size that suits the path.
func usualSize(w bench.Workload, conn net.Conn) (size int, err error) {
	switch {
	case w.Size != 0:
		return w.Size, nil
	case w.Kind == bench.Packets:
		return LeastFrame(addrPort(conn.RemoteAddr()).Addr().Is6()), nil
	}
	err = onConn(conn, func(fd int) error {
		size, err = unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the segment size of the path: %w", err)
	}
	return size, nil
}
