package engine

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// TestQuestionsBehindASlowOne: the answers take longer than the questions are apart. So questions of
// the window are asked after it. None of them is shorter than an answer takes.
func TestQuestionsBehindASlowOne(t *testing.T) {
	const takes, questions = 30 * time.Millisecond, 4
	here, there := net.Pipe()
	a := newAsker([]net.Conn{here}, 1, bench.Workload{Size: headerSize, Rate: 200})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a.markWindow(true)
	answered := 0
	var g errgroup.Group
	g.Go(func() error { defer there.Close(); return a.carryTraffic(ctx) })
	g.Go(func() error {
		question := make([]byte, headerSize)
		for {
			if _, err := io.ReadFull(there, question); err != nil {
				return nil //nolint:nilerr // the asker has ended
			}
			if answered++; answered == questions {
				a.window.markEdge(false)
			}
			time.Sleep(takes)
			if _, err := there.Write(question); err != nil {
				return err
			}
		}
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var run bench.Run
	if err := a.addFigures(&run); err != nil {
		t.Fatal(err)
	}
	if least := float64(takes.Microseconds()); answered <= questions || run.Delays.Min < least || run.Delays.Count != uint64(answered) {
		t.Errorf("%d of %d questions count, and the shortest took %g us of %g", run.Delays.Count, answered, run.Delays.Min, least)
	}
}

// TestConnectionsThatTimeOut: a connection without an answer is a lost question, and the next one is
// asked.
func TestConnectionsThatTimeOut(t *testing.T) {
	const questions = 30
	c := &connector{asker: newAsker(make([]net.Conn, 1), 1, bench.Workload{Size: headerSize})}
	dialed := 0
	c.dial = func(_ context.Context, _ int, _ uint32, question []byte) (net.Conn, error) {
		if dialed++; dialed == questions {
			c.window.markEdge(false)
		}
		if dialed%3 == 0 {
			return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
		}
		here, there := net.Pipe()
		go func() { // ends with the pipe
			_, _ = there.Write(question)
			there.Close()
		}()
		return here, nil
	}
	c.markWindow(true)
	if err := c.carryTraffic(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := c.readTally(); n.lost != questions/3 || n.packets != questions-questions/3 || n.sent != questions {
		t.Errorf("%+v", n)
	}
}

// TestStreamAtARate: a stream writes no more than it may, and in writes that suit the rate.
func TestStreamAtARate(t *testing.T) {
	p := newPair(t)
	for _, w := range []bench.Workload{{Rate: 16e6}, {Rate: 16e6, Streams: 4, Reverse: true}} {
		w.Kind, w.Seconds, w.Warmup = bench.Stream, 0.5, 0.1
		run := p.measureFigures(t, w)
		// The window may begin after a stall that the sender catches up with.
		if most := (run.Seconds + 2*behind) * w.Rate / 8; run.Bytes == 0 || float64(run.Bytes) > most {
			t.Errorf("%d bytes arrived in %g s, want up to %g", run.Bytes, run.Seconds, most)
		}
	}
	for rate, want := range map[float64]int{0: 128 << 10, 1e5: 1448, 40e6: 5000, 1e11: 128 << 10} {
		if w, err := Check(bench.Workload{Kind: bench.Stream, Seconds: 1, Rate: rate}); err != nil || w.Size != want {
			t.Errorf("at %g bits a second: writes of %d, %v, want %d", rate, w.Size, err, want)
		}
	}
}
