package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cilium/ebpf"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// pair is two network namespaces with a wire between them.
type pair struct {
	netns   [2]string
	address [2]netip.Addr
}

const wire = "wire" // the interface in both

// newPair makes a veth pair between two namespaces, all of which end with the test.
func newPair(t testing.TB) pair {
	t.Helper()
	return newPairOf(t, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"))
}

func newPairOf(t testing.TB, addresses ...netip.Addr) pair {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: this test makes network namespaces of its own")
	}
	p := pair{address: [2]netip.Addr(addresses)}
	for i := range p.netns {
		p.netns[i] = filepath.Join(t.TempDir(), "netns")
		if err := netns.New(p.netns[i]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := netns.Delete(p.netns[i]); err != nil {
				t.Error(err)
			}
		})
	}
	far, err := netns.Open(p.netns[1])
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	p.runIn(t, 0, func() error {
		link := netlink.NewLinkAttrs()
		link.Name = wire
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: link, PeerName: wire, PeerNamespace: netlink.NsFd(far.Fd())})
	})
	for i := range p.netns {
		p.runIn(t, i, func() error { return p.setLinkUp(i) })
	}
	for i := range p.netns {
		p.runIn(t, i, awaitLink)
	}
	return p
}

// awaitLink waits until the wire carries frames. The kernel activates the queue of a link some time
// after the link is up (linkwatch), and drops frames until then.
func awaitLink() error {
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		link, err := netlink.LinkByName(wire)
		if err != nil || link.Attrs().OperState == netlink.OperUp {
			return err
		}
		if time.Now().After(end) {
			return errors.New("the wire is not up after a minute: " + link.Attrs().OperState.String())
		}
	}
}

// setLinkUp is called in the namespace.
func (p pair) setLinkUp(i int) error {
	link, err := netlink.LinkByName(wire)
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(p.address[i].String() + "/24")
	if err != nil {
		return err
	}
	address.Flags = unix.IFA_F_NODAD
	return errors.Join(netlink.AddrAdd(link, address), netlink.LinkSetUp(link))
}

// runIn calls f in one of the namespaces.
func (p pair) runIn(t testing.TB, i int, f func() error) {
	t.Helper()
	if err := netns.Run(p.netns[i], f); err != nil {
		t.Fatal(err)
	}
}

// measureBetween serves at end 1 and measures from end 0.
func (p pair) measureBetween(ctx context.Context, t testing.TB, w bench.Workload, marks [2]Marks) (run bench.Run, client, server error) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := p.startServer(t)
	defer s.Close()
	var g errgroup.Group
	g.Go(func() error {
		return netns.Run(p.netns[1], func() error {
			server = s.Serve(ctx, w, marks[1])
			return nil
		})
	})
	p.runIn(t, 0, func() error {
		run, client = Measure(ctx, w, Local{Address: p.address[0], Interface: wire}, s.Remote(), marks[0])
		return nil
	})
	if client != nil {
		cancel()
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return run, client, server
}

func (p pair) startServer(t testing.TB) (s *Server) {
	t.Helper()
	p.runIn(t, 1, func() (err error) {
		s, err = Listen(t.Context(), Local{Address: p.address[1], Interface: wire}, 0)
		return err
	})
	return s
}

func TestStream(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct {
		name string
		bench.Workload
	}{
		{"plain", bench.Workload{}},
		{"tiny writes", bench.Workload{Size: 64}},
		{"many", bench.Workload{Streams: 20}},
		{"window", bench.Workload{Window: 16 << 10}},
		{"reverse", bench.Workload{Reverse: true, Streams: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.Workload
			w.Kind, w.Seconds, w.Warmup = bench.Stream, 0.2, 0.1
			var calls [2][]string
			run := p.measureMarked(t, w, func() (marks [2]Marks) {
				for i := range marks {
					calls[i] = nil
					note := func(what string) func() { return func() { calls[i] = append(calls[i], what) } }
					marks[i] = Marks{Start: note("start"), Begin: note("begin"), End: note("end")}
				}
				return marks
			})
			for i, got := range calls {
				if diff := gocmp.Diff([]string{"start", "begin", "end"}, got); diff != "" {
					t.Errorf("marks of end %d (-want +got):\n%s", i, diff)
				}
			}
			if run.Bytes == 0 || run.Retransmits == nil || run.Started.IsZero() || len(run.Series) != 1 {
				t.Errorf("got %+v", run)
			}
			if run.Seconds < w.Seconds {
				t.Errorf("counted %g s, want %g", run.Seconds, w.Seconds)
			}
			if want := float64(run.Bytes) * 8 / run.Seconds / 1e9; run.Gbps != want {
				t.Errorf("%g Gb/s, want %g", run.Gbps, want)
			}
		})
	}
}

func TestDatagram(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct {
		name string
		bench.Workload
	}{
		{"plain", bench.Workload{}},
		{"smallest", bench.Workload{Size: headerSize}},
		{"largest", bench.Workload{Size: maxDatagram}},
		{"many", bench.Workload{Streams: 10}},
		{"reverse", bench.Workload{Reverse: true, Streams: 3, Size: 1000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.Workload
			w.Kind, w.Seconds, w.Warmup = bench.Datagram, 0.2, 0.1
			run := p.measureFigures(t, w)
			size := uint64(cmp.Or(w.Size, 1448)) // 1500 less 52 of IPv4, TCP and its time stamps
			if run.Packets == 0 || run.Bytes != run.Packets*size || run.Sent == 0 || run.PPS == 0 {
				t.Errorf("got %+v", run)
			}
		})
	}
}

func TestDatagramRate(t *testing.T) {
	p := newPair(t)
	// The window of the socket holds the datagrams that are sent while a busy machine lets the
	// receiver sleep.
	w := bench.Workload{Kind: bench.Datagram, Seconds: 0.5, Warmup: 0.1, Size: 1000, Streams: 2, Rate: 8e6, Window: 8 << 20}
	run := p.measureFigures(t, w)
	if run.Lost != 0 {
		t.Errorf("%d datagrams are lost at a low rate", run.Lost)
	}
	// The sender may send too few datagrams on a slow machine, but not too many. The window may
	// begin after a stall that the sender catches up with.
	if most := (w.Seconds + 2*behind) * 1000; float64(run.Packets) > most {
		t.Errorf("%d datagrams arrived, want 500, and no more than %g", run.Packets, most)
	}
}

func TestRequest(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct {
		name string
		bench.Workload
	}{
		{"TCP", bench.Workload{}},
		{"UDP", bench.Workload{UDP: true}},
		{"TCP reverse", bench.Workload{Reverse: true, Size: 100000}},
		{"UDP reverse", bench.Workload{Reverse: true, UDP: true, Streams: 2, Rate: 500}},
		{"TCP at a rate", bench.Workload{Streams: 4, Rate: 500}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.Workload
			w.Kind, w.Seconds, w.Warmup = bench.Request, 0.2, 0.1
			run := p.measureFigures(t, w)
			size := uint64(cmp.Or(w.Size, 64))
			if run.Packets == 0 || run.Bytes != run.Packets*size || run.Sent == 0 || run.PPS == 0 {
				t.Errorf("got %+v", run)
			}
			d := run.Delays
			if d == nil || d.Count == 0 || d.Min <= 0 || d.P50 < d.Min || d.P99 < d.P50 || d.Max < d.P999 {
				t.Fatalf("got %+v", d)
			}
			h, err := hdrhistogram.Decode([]byte(d.Histogram))
			if err != nil || uint64(h.TotalCount()) != d.Count {
				t.Errorf("the histogram holds %d of %d: %v", h.TotalCount(), d.Count, err)
			}
		})
	}
}

// TestConnect: each question has a connection of its own, and none of them leaves a port of the
// end that asks waiting.
func TestConnect(t *testing.T) {
	p := newPair(t)
	count := func(file, line, column string) (n uint64) {
		t.Helper()
		p.runIn(t, 0, func() error {
			text, err := os.ReadFile("/proc/thread-self/net/" + file)
			if err != nil {
				return err
			}
			n, err = findCount(string(text), line, column)
			return err
		})
		return n
	}
	for _, w := range []bench.Workload{{}, {Streams: 3, Size: 5000}} {
		w.Kind, w.Seconds, w.Warmup = bench.Connect, 0.2, 0.1
		before := count("snmp", "Tcp:", "ActiveOpens")
		run := p.measureFigures(t, w)
		size := uint64(cmp.Or(w.Size, 64))
		if run.Packets == 0 || run.Bytes != run.Packets*size || run.PPS != float64(run.Packets)/run.Seconds || run.Totals.Arrived < run.Packets {
			t.Errorf("got %+v", run)
		}
		if d := run.Delays; d == nil || d.Count == 0 || d.Min <= 0 || d.P50 < d.Min {
			t.Errorf("got %+v", d)
		}
		if opened := count("snmp", "Tcp:", "ActiveOpens") - before; opened < run.Totals.Arrived+1 {
			t.Errorf("%d connections were opened for %d questions and the control connection", opened, run.Totals.Arrived)
		}
		if waiting := count("sockstat", "TCP:", "tw"); waiting > 1 { // the control connection's
			t.Errorf("%d ports of the end that asks are in TIME_WAIT after %d questions", waiting, run.Totals.Sent)
		}
	}
}

// findCount finds a value in a file of /proc/net: beside its name in a line, or below it in the
// next line of that name.
func findCount(text, line, column string) (uint64, error) {
	var names []string
	for l := range strings.Lines(text) {
		fields := strings.Fields(l)
		if len(fields) == 0 || fields[0] != line {
			continue
		}
		at := slices.Index(fields, column)
		if i := slices.Index(names, column); i >= 0 {
			return strconv.ParseUint(fields[i], 10, 64)
		}
		if at >= 0 && at+1 < len(fields) {
			if n, err := strconv.ParseUint(fields[at+1], 10, 64); err == nil {
				return n, nil
			}
		}
		names = fields
	}
	return 0, errors.New("there is no " + column + " in " + line)
}

// TestConnectNeedsTheToken: while questions are answered, a connection with another session gets
// no answer.
func TestConnectNeedsTheToken(t *testing.T) {
	p := newPair(t)
	s := p.startServer(t)
	defer s.Close()
	w := bench.Workload{Kind: bench.Connect, Seconds: 0.3}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return s.Serve(ctx, w, Marks{}) })
	var stranger error
	asked := Marks{Begin: func() {
		failed := netns.Run(p.netns[0], func() error {
			c := client{from: Local{Address: p.address[0]}, to: s.Addr(), token: s.Remote().Token, session: 1}
			conn, err := c.dialQuestion(ctx, 0, 0, make([]byte, 64))
			if err != nil {
				return err
			}
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			_, stranger = io.ReadFull(conn, make([]byte, 64))
			return nil
		})
		if failed != nil {
			t.Error(failed)
		}
	}}
	p.runIn(t, 0, func() error {
		_, err := Measure(ctx, w, Local{Address: p.address[0], Interface: wire}, s.Remote(), asked)
		return err
	})
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if stranger == nil || errors.Is(stranger, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger's question: %v", stranger)
	}
}

func TestPackets(t *testing.T) {
	p := newPair(t)
	p.cutBursts(t)
	for _, c := range []struct {
		name string
		bench.Workload
	}{
		{"plain", bench.Workload{}},
		{"largest", bench.Workload{Size: 1514}},
		{"spread", bench.Workload{Flows: 100, Sources: 20, MACs: 10, Streams: 2}},
		{"reverse", bench.Workload{Reverse: true, Flows: 2}},
		{"bursts", bench.Workload{Burst: maxBurst, Flows: 2}},
		{"largest of many", bench.Workload{Size: 1514, Flows: 3, MACs: 2}},
		{"reverse at a rate", bench.Workload{Reverse: true, Rate: 50_000}},
		{"long bursts at a rate", bench.Workload{Burst: 11, Size: 1514, Rate: 10_000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.Workload
			w.Kind, w.Seconds, w.Warmup = bench.Packets, 0.2, 0.1
			run := p.measureFigures(t, w)
			size := uint64(cmp.Or(w.Size, 60))
			if run.Packets == 0 || run.Bytes != run.Packets*size || run.Sent == 0 || run.PPS == 0 {
				t.Errorf("got %+v", run)
			}
		})
	}
}

// cutBursts has the kernel cut bursts before the sending end's driver has them.
func (p pair) cutBursts(t testing.TB) {
	t.Helper()
	p.runIn(t, 0, func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		return tool.Change(wire, map[string]bool{"tx-udp-segmentation": false})
	})
}

// TestBurstsThatNobodyCuts: the engine sends no bursts over a veth that would hand them over whole.
func TestBurstsThatNobodyCuts(t *testing.T) {
	p := newPair(t)
	_, err, _ := p.measureBetween(t.Context(), t, bench.Workload{Kind: bench.Packets, Burst: 2, Seconds: 0.1}, [2]Marks{})
	if err == nil || !strings.Contains(err.Error(), "ethtool -K "+wire+" tx-udp-segmentation off") {
		t.Error(err)
	}
}

// TestCounters sends frames from a ring in bursts, and from another one by one. The
// program that discards frames and the socket for kernels without such programs both count all of
// them.
func TestCounters(t *testing.T) {
	p := newPair(t)
	p.cutBursts(t)
	const session, count, burst = 7, 640, 64
	way := p.findWay(t)
	f, err := newFrames(way, session, bench.Workload{Size: 60, Burst: burst, Flows: 1})
	if err != nil {
		t.Fatal(err)
	}
	single, err := newFrames(way, session, bench.Workload{Size: 60, Flows: 1})
	if err != nil {
		t.Fatal(err)
	}
	var counters []frameCounter
	p.runIn(t, 1, func() error {
		at, err := net.InterfaceByName(wire)
		if err != nil {
			return err
		}
		socket, err := countFrames(at.Index, arriving{way.to, session})
		if err != nil {
			return err
		}
		counters = append(counters, socket)
		program, err := discardFrames(at.Index, arriving{way.to, session})
		if err != nil {
			if errors.Is(err, ebpf.ErrNotSupported) { // before Linux 6.6
				t.Log(err)
				return nil
			}
			return err
		}
		counters = append(counters, program)
		return nil
	})
	p.runIn(t, 0, func() error {
		bursts, err := newRing(way, f)
		if err != nil {
			return err
		}
		alone, err := newRing(way, single)
		if err != nil {
			return errors.Join(err, bursts.close())
		}
		for _, o := range []struct {
			*ring
			frames *frames
			slots  int
		}{{bursts, f, count / burst}, {alone, single, count}} {
			if n := o.fillSlots(o.frames, o.slots, 0, 1); n != o.slots {
				t.Errorf("%d slots are free", n)
			}
			for err == nil && o.countWaiting() > 0 {
				err = o.sendFilled()
			}
			err = errors.Join(err, o.close())
		}
		return err
	})
	for i, c := range counters {
		n, err := c.countFrames()
		for begun := time.Now(); n != 2*count && err == nil && time.Since(begun) < time.Minute; n, err = c.countFrames() {
			time.Sleep(time.Millisecond) // a busy kernel delivers later
		}
		if n != 2*count || err != nil {
			t.Errorf("counter %d: %d, %v, want %d", i, n, err, 2*count)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}

// findWay returns the route from end 0 to end 1.
func (p pair) findWay(t testing.TB) route {
	t.Helper()
	at := [2]*net.Interface{}
	for i := range at {
		p.runIn(t, i, func() (err error) {
			at[i], err = net.InterfaceByName(wire)
			return err
		})
	}
	r := route{index: at[0].Index, name: wire, mtu: at[0].MTU, from: p.address[0], to: netip.AddrPortFrom(p.address[1], 9)}
	copy(r.ether[:], slices.Concat(at[1].HardwareAddr, at[0].HardwareAddr, []byte{etherIPv4 >> 8, 0}))
	return r
}

// measureFigures measures, and any error fails the test. It measures again if a busy machine let an
// end sleep through its window.
func (p pair) measureFigures(t testing.TB, w bench.Workload) bench.Run {
	t.Helper()
	return p.measureMarked(t, w, func() [2]Marks { return [2]Marks{} })
}

// measureMarked is measureFigures with marks, new ones for each attempt.
func (p pair) measureMarked(t testing.TB, w bench.Workload, marks func() [2]Marks) (run bench.Run) {
	t.Helper()
	untilArrived(t, w, func(w bench.Workload) error {
		var client, server error
		run, client, server = p.measureBetween(t.Context(), t, w, marks())
		return errors.Join(client, server)
	})
	return run
}

// untilArrived calls measure with longer windows as long as nothing arrives in them: a busy machine
// lets an end sleep through a short one. Another error fails the test.
func untilArrived(t testing.TB, w bench.Workload, measure func(bench.Workload) error) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		err := measure(w)
		if err == nil {
			return
		}
		if attempt == 4 || !errors.Is(err, ErrNothing) {
			t.Fatal(err)
		}
		w.Seconds *= 4
	}
}

func TestIPv6(t *testing.T) {
	p := newPairOf(t, netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"))
	for _, w := range []bench.Workload{
		{Kind: bench.Stream}, {Kind: bench.Datagram}, {Kind: bench.Request, UDP: true},
		{Kind: bench.Packets, Sources: 3}, {Kind: bench.Packets, Reverse: true},
	} {
		w.Seconds = 0.2
		if run := p.measureFigures(t, w); run.Bytes == 0 {
			t.Errorf("%s: got %+v", w.Kind, run)
		}
	}
}
