package engine

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/kernel/netns"
)

// short is a measurement that is over soon.
var short = bench.Workload{Kind: bench.Stream, Seconds: 0.2}

// says fails the test unless err is about what is wanted.
func says(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestNoServer(t *testing.T) {
	p := newPair(t)
	s := p.listen(t)
	at := s.Remote()
	s.Close()
	p.in(t, 0, func() error {
		_, err := Measure(t.Context(), short, Local{}, at, Marks{})
		says(t, err, "connection refused: see whether one listens there")
		return nil
	})
}

func TestListenInVain(t *testing.T) {
	p := newPair(t)
	s := p.listen(t)
	defer s.Close()
	p.in(t, 1, func() error {
		_, err := Listen(t.Context(), Local{Address: p.address[1]}, s.Addr().Port())
		says(t, err, "address already in use: name a port that is free")
		_, err = Listen(t.Context(), Local{Address: p.address[0]}, 0)
		says(t, err, "cannot assign requested address")
		_, err = Listen(t.Context(), Local{Address: p.address[1], Interface: "none"}, 0)
		says(t, err, "bind to interface none")
		_, err = Listen(t.Context(), Local{}, 0)
		says(t, err, "no address")
		return nil
	})
}

func TestRefusals(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct {
		bench.Workload
		want string
	}{
		{bench.Workload{Kind: bench.Packets, Size: 1515}, "size 1515 of a frame: want 60 to 1514 bytes: wire has an MTU of 1500"},
		{bench.Workload{Kind: bench.Packets, Size: 1515, Reverse: true}, "the other end, 192.0.2.2"},
		{bench.Workload{Kind: bench.Packets, AFXDP: true, Streams: 2}, "bind an AF_XDP socket to queue 1 of wire: invalid argument: an AF_XDP socket has a queue of its own"},
		{bench.Workload{Kind: bench.Packets, AFXDP: true, Burst: 2}, "AF_XDP with packets in bursts of 2"},
		{bench.Workload{Kind: bench.Datagram, AFXDP: true}, "AF_XDP with datagram"},
		{bench.Workload{Kind: bench.Stream, Window: 1 << 30}, "or raise net.core.wmem_max"},
		{bench.Workload{Kind: "teleport"}, "teleport"},
	} {
		c.Workload.Seconds = 0.1
		_, client, _ := p.measureBetween(t.Context(), t, c.Workload, [2]Marks{})
		says(t, client, c.want)
	}
}

// AF_XDP's frames are in a page each.
func TestFramesThatAreTooLargeForAFXDP(t *testing.T) {
	_, err := newXDP(route{}, &frames{template: make([]byte, 9014)}, 0)
	says(t, err, "size 9014 of a frame: want no more than")
}

// Whoever is root gets the window that is asked for, whatever net.core.wmem_max is.
func TestForcedWindow(t *testing.T) {
	p := newPair(t)
	w := short
	w.Kind, w.Window = bench.Stream, 8<<20
	if _, client, server := p.measureBetween(t.Context(), t, w, [2]Marks{}); client != nil || server != nil {
		t.Error(client, server)
	}
}

func TestNoPermission(t *testing.T) {
	p := newPair(t)
	s := p.listen(t)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	w := short
	w.Kind = bench.Packets
	var g errgroup.Group
	g.Go(func() error { return netns.Run(p.netns[1], func() error { return s.Serve(ctx, w, Marks{}) }) })
	p.in(t, 0, func() error { // on a thread that is thrown away
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			return err
		}
		_, err := Measure(t.Context(), w, Local{}, s.Remote(), Marks{})
		says(t, err, "open a packet socket: operation not permitted: run as root or give the program CAP_NET_RAW")
		_, err = newXDP(route{}, &frames{template: make([]byte, 60)}, 0)
		says(t, err, "open an AF_XDP socket: operation not permitted: run as root or give the program CAP_NET_RAW")
		return nil
	})
	cancel()
	_ = g.Wait() // what the server says of it is another test's
}

func TestOtherEndLeaves(t *testing.T) {
	p := newPair(t)
	for _, reverse := range []bool{false, true} {
		for _, kind := range []bench.Kind{bench.Stream, bench.Datagram, bench.Request, bench.Packets} {
			s := p.listen(t)
			ctx, leave := context.WithCancel(t.Context())
			w := bench.Workload{Kind: kind, Seconds: 600, Reverse: reverse}
			var g errgroup.Group
			g.Go(func() error {
				return netns.Run(p.netns[1], func() error {
					says(t, s.Serve(ctx, w, Marks{Begin: leave}), context.Canceled.Error())
					return nil
				})
			})
			p.in(t, 0, func() error {
				_, err := Measure(t.Context(), w, Local{}, s.Remote(), Marks{})
				says(t, err, "the other end, 192.0.2.2")
				return nil
			})
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
			s.Close()
		}
	}
}

func TestContextEnds(t *testing.T) {
	p := newPair(t)
	for _, kind := range []bench.Kind{bench.Stream, bench.Datagram, bench.Request, bench.Packets} {
		ctx, cancel := context.WithCancel(t.Context())
		w := bench.Workload{Kind: kind, Seconds: 600, Rate: map[bool]float64{true: 100}[kind != bench.Stream]}
		_, client, _ := p.measureBetween(ctx, t, w, [2]Marks{{Begin: cancel}})
		says(t, client, context.Canceled.Error())
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := p.listen(t)
	defer s.Close()
	cancel()
	if err := s.Serve(ctx, short, Marks{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a server that waits ends with %v", err)
	}
}

// TestNonsense has something else listen where a server should.
func TestNonsense(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct{ answer, want string }{
		{"HTTP/1.1 400 Bad Request\r\n", `says "HTTP/1.1 400 Bad Request"`},
		{`{"says":"begin"}` + "\n", `says "begin" where "ready" is due`},
		{`{"says":"failed","error":"no room"}` + "\n", "no room"},
		{strings.Repeat("x", maxMessage+1), "token too long"},
		{"", "EOF"},
	} {
		var l net.Listener
		p.in(t, 1, func() (err error) {
			l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", p.address[1].String()+":0")
			return err
		})
		var g errgroup.Group
		g.Go(func() error {
			conn, err := l.Accept()
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = bufio.NewReader(conn).ReadString('\n') // the ticket and the hello
			_, _ = io.WriteString(conn, c.answer)
			return err
		})
		p.in(t, 0, func() error {
			_, err := Measure(t.Context(), short, Local{}, Remote{addrPort(l.Addr()), rand.Text()}, Marks{})
			says(t, err, c.want)
			return nil
		})
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		l.Close()
	}
}

// TestStrangers has others connect to a server before and while it measures.
func TestStrangers(t *testing.T) {
	p := newPair(t)
	s := p.listen(t)
	defer s.Close()
	var g errgroup.Group
	g.Go(func() error {
		return netns.Run(p.netns[1], func() error { return s.Serve(t.Context(), short, Marks{}) })
	})
	var strangers []net.Conn
	defer func() { closeAll(strangers) }()
	p.in(t, 0, func() error {
		for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n", string(ticket{s.token, 1, 0}.bytes())} {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr().String())
			if err != nil {
				return err
			}
			strangers = append(strangers, conn)
			if _, err := io.WriteString(conn, text); err != nil {
				return err
			}
		}
		return nil
	})
	p.in(t, 0, func() error {
		_, err := Measure(t.Context(), short, Local{}, s.Remote(), Marks{Begin: func() {
			p.in(t, 0, func() error {
				_, err := Measure(t.Context(), short, Local{}, s.Remote(), Marks{})
				says(t, err, "this server measures with another client")
				return nil
			})
		}})
		return err
	})
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// TestLostDatagrams narrows the wire for a while, so that datagrams are too large for it.
func TestLostDatagrams(t *testing.T) {
	p := newPair(t)
	mtu := func(bytes int) {
		p.in(t, 1, func() error {
			link, err := netlink.LinkByName(wire)
			return errors.Join(err, netlink.LinkSetMTU(link, bytes))
		})
	}
	marks := Marks{Begin: func() {
		mtu(100)
		time.Sleep(100 * time.Millisecond)
		mtu(1500)
	}}
	w := bench.Workload{Kind: bench.Datagram, Seconds: 0.5, Size: 1000, Rate: 32e6}
	run, client, server := p.measureBetween(t.Context(), t, w, [2]Marks{marks})
	if err := errors.Join(client, server); err != nil {
		t.Fatal(err)
	}
	if run.Lost == 0 || run.Lost > run.Sent {
		t.Errorf("%d of %d are lost", run.Lost, run.Sent)
	}
}

// TestMissing has counts of which those of the window are some frames apart.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		name                                  string
		sent, arrived, allSent, allCame, want uint64
	}{
		{"none, though the window's edges differ", 100, 90, 1000, 1000, 0},
		{"in the window", 100, 60, 1000, 950, 40},
		{"no more than from first to last", 100, 60, 1000, 970, 30},
		{"more came in the window than were sent in it", 100, 110, 1000, 970, 0},
	} {
		s := session{load: &fixed{tally{packets: c.allCame}}}
		if got := s.missing(t.Context(), bench.Run{Sent: c.sent, Packets: c.arrived}, c.allSent); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// fixed is a load that has done something already.
type fixed struct{ done tally }

func (*fixed) run(context.Context) error { return nil }
func (f *fixed) tally() tally            { return f.done }
func (*fixed) mark(bool)                 {}
func (*fixed) add(*bench.Run) error      { return nil }
