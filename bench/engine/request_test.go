package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// TestOmission delays one answer, at a thousand questions a second, for the time of three hundred
// questions. All of these waited, and not only the first.
func TestOmission(t *testing.T) {
	const stall, questions = 300 * time.Millisecond, 50
	here, there := net.Pipe()
	a := newAsker([]net.Conn{here}, 1, bench.Workload{Size: headerSize, Rate: 1000})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return a.carryTraffic(ctx) })
	a.markWindow(true)
	question := make([]byte, headerSize)
	for i := range questions {
		if _, err := io.ReadFull(there, question); err != nil {
			t.Fatal(err)
		}
		if i == questions-1 {
			time.Sleep(stall)
		}
		if _, err := there.Write(question); err != nil {
			t.Fatal(err)
		}
	}
	a.window.markEdge(false)
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	var run bench.Run
	if err := a.addFigures(&run); err != nil {
		t.Fatal(err)
	}
	late := uint64(0)
	for _, bar := range a.counts[0].delays.Distribution() {
		if bar.From >= stall.Nanoseconds()/3 {
			late += uint64(bar.Count)
		}
	}
	if late < 150 {
		t.Errorf("%d of %d questions waited for a third of the stall, want 200: %+v", late, run.Delays.Count, run.Delays)
	}
}

// TestHear has texts that do not answer the question.
func TestHear(t *testing.T) {
	const session = 5
	header := func(session, number uint64) []byte {
		b := make([]byte, headerSize)
		putHeader(b, session, number)
		return b
	}
	here, there := net.Pipe()
	defer here.Close()
	var g errgroup.Group
	g.Go(func() error {
		for _, b := range [][]byte{[]byte("short"), header(6, 3), header(session, 2), header(session, 3)} {
			if _, err := there.Write(b); err != nil {
				return err
			}
		}
		return nil
	})
	answer := make([]byte, headerSize)
	if err := waitForAnswer(here, answer, session, 3); err != nil {
		t.Errorf("strangers and late answers before the right one: %v", err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	there.Close()
	// A pipe that is closed takes no deadline, and a reader that waits already gets io.EOF.
	if err := waitForAnswer(here, answer, session, 4); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("with nothing more to come: %v", err)
	}
}

// TestLostQuestionsArePercentiles: a question whose answer never comes counts with the time that it
// waited. Without it, the 99th percentile of a lossy path would be that of its successful
// questions.
func TestLostQuestionsArePercentiles(t *testing.T) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	const session, one = 7, 10 // in ten is lost
	go func() {                // ends with the server
		b := make([]byte, 100)
		for {
			n, from, err := server.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if number, ok := parseHeader(b[:n], session); ok && number%one != one/2 {
				_, _ = server.WriteToUDPAddrPort(b[:n], from) // to one that has ended
			}
		}
	}()
	var conns []net.Conn
	for range 4 {
		conn, err := net.DialUDP("udp", nil, server.LocalAddr().(*net.UDPAddr))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	a := newAsker(conns, session, bench.Workload{Kind: bench.Request, UDP: true, Size: 64, Streams: 4, Seconds: 1})
	a.markWindow(true)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	time.AfterFunc(2*answerTime, func() { a.markWindow(false) })
	if err := a.carryTraffic(ctx); err != nil {
		t.Fatal(err)
	}
	var run bench.Run
	if err := a.addFigures(&run); err != nil {
		t.Fatal(err)
	}
	n := a.readTally()
	if n.lost == 0 || n.packets == 0 || run.Delays.Count != n.sent {
		t.Errorf("%+v: %d of %d are in the percentiles", n, run.Delays.Count, n.sent)
	}
	longest := float64(answerTime.Microseconds())
	if d := run.Delays; d.Max < 0.99*longest || d.P99 < 0.99*longest || d.P50 > 0.5*longest {
		t.Errorf("%d of %d were lost; p50 %g us, p99 %g us, largest %g us; a lost one waits %g us", n.lost, n.sent, d.P50, d.P99, d.Max, longest)
	}
}
