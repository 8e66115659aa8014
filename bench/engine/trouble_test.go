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
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// short is a measurement that is over soon.
var short = bench.Workload{Kind: bench.Stream, Seconds: 0.2}

// checkSays fails the test unless the text of err contains want.
func checkSays(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestNoServer(t *testing.T) {
	p := newPair(t)
	s := p.startServer(t)
	at := s.Remote()
	s.Close()
	p.runIn(t, 0, func() error {
		_, err := Measure(t.Context(), short, Local{}, at, Marks{})
		checkSays(t, err, "connection refused: see whether one listens there")
		return nil
	})
}

func TestListenInVain(t *testing.T) {
	p := newPair(t)
	s := p.startServer(t)
	defer s.Close()
	p.runIn(t, 1, func() error {
		_, err := Listen(t.Context(), Local{Address: p.address[1]}, s.Addr().Port())
		checkSays(t, err, "address already in use: name a port that is free")
		_, err = Listen(t.Context(), Local{Address: p.address[0]}, 0)
		checkSays(t, err, "cannot assign requested address")
		_, err = Listen(t.Context(), Local{Address: p.address[1], Interface: "none"}, 0)
		checkSays(t, err, "bind to interface none")
		_, err = Listen(t.Context(), Local{}, 0)
		checkSays(t, err, "no address")
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
		{bench.Workload{Kind: bench.Stream, Window: 1 << 30}, "or raise net.core.wmem_max"},
		{bench.Workload{Kind: "teleport"}, "teleport"},
	} {
		c.Workload.Seconds = 0.1
		_, client, _ := p.measureBetween(t.Context(), t, c.Workload, [2]Marks{})
		checkSays(t, client, c.want)
	}
}

// As root the engine gets the window that it asks for, also above net.core.wmem_max.
func TestForcedWindow(t *testing.T) {
	p := newPair(t)
	w := short
	w.Kind, w.Window = bench.Stream, 8<<20
	p.measureFigures(t, w)
}

func TestNoPermission(t *testing.T) {
	p := newPair(t)
	s := p.startServer(t)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	w := short
	w.Kind = bench.Packets
	var g errgroup.Group
	g.Go(func() error { return netns.Run(p.netns[1], func() error { return s.Serve(ctx, w, Marks{}) }) })
	p.runIn(t, 0, func() error { // on a thread that is thrown away
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			return err
		}
		_, err := Measure(t.Context(), w, Local{}, s.Remote(), Marks{})
		checkSays(t, err, "open a packet socket: operation not permitted: run as root or give the program CAP_NET_RAW")
		return nil
	})
	cancel()
	_ = g.Wait() // another test checks the server's error
}

func TestOtherEndLeaves(t *testing.T) {
	p := newPair(t)
	for _, reverse := range []bool{false, true} {
		for _, kind := range []bench.Kind{bench.Stream, bench.Datagram, bench.Request, bench.Packets} {
			s := p.startServer(t)
			ctx, leave := context.WithCancel(t.Context())
			w := bench.Workload{Kind: kind, Seconds: 600, Reverse: reverse}
			var g errgroup.Group
			g.Go(func() error {
				return netns.Run(p.netns[1], func() error {
					checkSays(t, s.Serve(ctx, w, Marks{Begin: leave}), context.Canceled.Error())
					return nil
				})
			})
			p.runIn(t, 0, func() error {
				_, err := Measure(t.Context(), w, Local{}, s.Remote(), Marks{})
				checkSays(t, err, "the other end, 192.0.2.2")
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
		checkSays(t, client, context.Canceled.Error())
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := p.startServer(t)
	defer s.Close()
	cancel()
	if err := s.Serve(ctx, short, Marks{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a server that waits ends with %v", err)
	}
}

// TestNonsense has another program listen in place of a server.
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
		p.runIn(t, 1, func() (err error) {
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
			_ = conn.(*net.TCPConn).CloseWrite()
			// A close before the client's would reset the connection if anything came from it
			// meanwhile, and take the answer with it.
			_, _ = io.Copy(io.Discard, conn)
			return err
		})
		p.runIn(t, 0, func() error {
			_, err := Measure(t.Context(), short, Local{}, Remote{addrPort(l.Addr()), rand.Text()}, Marks{})
			checkSays(t, err, c.want)
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
	s := p.startServer(t)
	defer s.Close()
	var g errgroup.Group
	g.Go(func() error {
		return netns.Run(p.netns[1], func() error { return s.Serve(t.Context(), short, Marks{}) })
	})
	var strangers []net.Conn
	defer func() { closeAll(strangers) }()
	p.runIn(t, 0, func() error {
		for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n", string(ticket{s.token, 1, 0}.encodeTicket())} {
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
	p.runIn(t, 0, func() error {
		_, err := Measure(t.Context(), short, Local{}, s.Remote(), Marks{Begin: func() {
			p.runIn(t, 0, func() error {
				_, err := Measure(t.Context(), short, Local{}, s.Remote(), Marks{})
				checkSays(t, err, "this server measures with another client")
				return nil
			})
		}})
		return err
	})
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// TestLostDatagrams narrows the wire until datagrams were too large for it.
func TestLostDatagrams(t *testing.T) {
	p := newPair(t)
	narrow := func(until func(dropped uint64) bool) {
		p.runIn(t, 1, func() error {
			link, err := netlink.LinkByName(wire)
			if err != nil {
				return err
			}
			dropped := link.Attrs().Statistics.RxDropped
			if err := netlink.LinkSetMTU(link, 100); err != nil {
				return err
			}
			for err == nil && !until(link.Attrs().Statistics.RxDropped-dropped) {
				time.Sleep(10 * time.Millisecond)
				link, err = netlink.LinkByName(wire)
			}
			return errors.Join(err, netlink.LinkSetMTU(link, 1500))
		})
	}
	marks := Marks{Begin: func() {
		end := time.Now().Add(10 * time.Second)
		narrow(func(dropped uint64) bool { return dropped >= 100 || time.Now().After(end) })
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

// TestMissing has counts of two ends whose windows are some frames apart.
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
		if got := s.countMissing(t.Context(), bench.Run{Sent: c.sent, Packets: c.arrived}, c.allSent); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// fixed is a load that has done something already.
type fixed struct{ done tally }

func (*fixed) carryTraffic(context.Context) error { return nil }
func (f *fixed) readTally() tally                 { return f.done }
func (*fixed) markWindow(bool)                    {}
func (*fixed) addFigures(*bench.Run) error        { return nil }

// withoutBPF removes from the thread the capabilities to load an eBPF program. The thread keeps the
// others.
func withoutBPF() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	if err := unix.Capget(&header, &all[0]); err != nil {
		return err
	}
	for _, c := range []int{unix.CAP_SYS_ADMIN, unix.CAP_BPF} {
		all[c/32].Effective &^= 1 << (c % 32)
	}
	return unix.Capset(&header, &all[0])
}

// TestReceiverWithoutBPF: a receiver that may load no eBPF program counts by a packet socket, and
// the figures of both ends name the mechanism.
func TestReceiverWithoutBPF(t *testing.T) {
	p := newPair(t)
	w := short
	w.Kind, w.Rate = bench.Packets, 5000
	measure := func(drop func() error) (run bench.Run) {
		untilArrived(t, w, func(w bench.Workload) error {
			s := p.startServer(t)
			defer s.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var g errgroup.Group
			g.Go(func() error { // on a thread that is thrown away
				return netns.Run(p.netns[1], func() error { return errors.Join(drop(), s.Serve(ctx, w, Marks{})) })
			})
			var client error
			p.runIn(t, 0, func() error {
				run, client = Measure(t.Context(), w, Local{}, s.Remote(), Marks{})
				return nil
			})
			if client != nil {
				cancel()
			}
			return errors.Join(client, g.Wait())
		})
		return run
	}
	whole, less := measure(func() error { return nil }), measure(withoutBPF)
	if whole.From.Mechanism != (bench.Mechanism{Name: byRing}) || whole.To.Mechanism != (bench.Mechanism{Name: byDiscard}) {
		t.Errorf("with all capabilities: %+v, %+v", whole.From.Mechanism, whole.To.Mechanism)
	}
	if m := less.To.Mechanism; m.Name != bySocket || !strings.Contains(m.Instead, "operation not permitted") {
		t.Errorf("without CAP_BPF: %+v", m)
	}
	if less.Packets == 0 {
		t.Error("without CAP_BPF nothing was counted")
	}
}
