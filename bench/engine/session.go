package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// Marks are called at this end: Start as traffic begins, so that the window opens
// Workload.Warmup later; Begin directly before the window is counted and End directly
// after it. Nil ones are not.
type Marks struct {
	Start, Begin, End func()
	// Hold is called at the end that asked for the measurement when both are ready, and the traffic
	// begins when it returns. The other end waits for that as long as for any answer, half a minute.
	Hold func(context.Context) error
}

// tally is what one end has counted since it started.
type tally struct {
	bytes, packets, sent, lost, retransmits uint64
}

// load is one end's part in the traffic.
type load interface {
	// run sends or receives until ctx ends. An error says why it ended before.
	run(ctx context.Context) error
	// tally is what run did until now.
	tally() tally
	// mark says that the window begins or, counting false, has ended.
	mark(counting bool)
	// add puts into a run what only this load knows. It is called after run.
	add(*bench.Run) error
}

// ErrNothing is in the error of a measurement in which nothing came to the end that receives, also in what
// an agent answers.
var ErrNothing = errors.New("nothing arrived")

// session is one measurement as one end sees it.
type session struct {
	peer     *peer
	workload bench.Workload
	counts   bool // this end receives or asks
	load     load
	marks    Marks
	idle     chan struct{} // closed when the load has ended
	over     atomic.Bool   // the window: a stream that ends now ends as it should
}

func newSession(p *peer, w bench.Workload, l load, active bool, marks Marks) *session {
	return &session{
		peer: p, workload: w, load: l, marks: marks,
		counts: active == (w.Kind == bench.Request), idle: make(chan struct{}),
	}
}

// newLoad is of connected streams. The active end sends, or asks.
func newLoad(w bench.Workload, number uint64, conns []net.Conn, active bool) load {
	switch {
	case w.Kind == bench.Stream && active:
		return newStreamSource(conns, w.Size)
	case w.Kind == bench.Stream:
		return newStreamSink(conns)
	case w.Kind == bench.Datagram && active:
		return newDatagramSource(conns, number, w)
	case w.Kind == bench.Datagram:
		return newDatagramSink(conns, number, w.Size)
	case active:
		return newAsker(conns, number, w)
	}
	return &answerer{conns, number, w.Size}
}

// newPacketLoad is of frames that go the way of a tapped connection. port is as in
// newPacketSink; the active end needs none.
func newPacketLoad(ctx context.Context, w bench.Workload, number uint64, t *tap, port *net.UDPConn, active bool) (load, func() error, error) {
	r, err := t.learn(ctx)
	t.close() // else the kernel shows it each frame
	if err != nil {
		return nil, nil, err
	}
	if active {
		s, err := newPacketSource(r, number, w)
		if err != nil {
			return nil, nil, err
		}
		return s, s.close, nil
	}
	s, err := newPacketSink(r, port, number, w.Size)
	if err != nil {
		return nil, nil, err
	}
	return s, s.close, nil
}

// conduct runs the load, and returns the figures of the window: all of them at the
// end that counts, else its own part.
func (s *session) conduct(ctx context.Context) (run bench.Run, err error) {
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	call(s.marks.Start)
	// When either fails, the other has no sense.
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer context.AfterFunc(both, stop)()
		defer close(s.idle)
		if err := s.load.run(traffic); err != nil && !s.over.Load() {
			return err
		}
		return nil
	})
	g.Go(func() (err error) {
		defer stop()
		if s.counts {
			run, err = s.count(both)
		} else {
			run, err = s.follow(both, stop)
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return run, err
	}
	if s.counts {
		err = s.load.add(&run)
	}
	return run, err
}

// count waits for the warm-up to pass and measures the window. The load goes on
// until the other end has said that it stopped: who closed first would break the
// other's traffic off, and that looks like a fault.
func (s *session) count(ctx context.Context) (bench.Run, error) {
	var run bench.Run
	if err := s.peer.wait(ctx, seconds(s.workload.Warmup)); err != nil {
		return run, err
	}
	call(s.marks.Begin)
	if err := s.peer.send(message{Says: begin}); err != nil {
		return run, err
	}
	s.load.mark(true)
	run.Started = time.Now()
	first := s.load.tally()
	last, err := s.series(ctx, &run, first)
	if err != nil {
		return run, err
	}
	s.over.Store(true)
	s.load.mark(false)
	if err := s.peer.send(message{Says: end}); err != nil {
		return run, err
	}
	call(s.marks.End)
	m, err := s.peer.expect(ctx, other, patience)
	if err != nil {
		return run, err
	}
	run.Bytes, run.Packets = last.bytes-first.bytes, last.packets-first.packets
	run.Sent, run.Lost = last.sent-first.sent, clampedDifference(last.lost, first.lost)
	if s.workload.Kind == bench.Datagram || s.workload.Kind == bench.Packets {
		// The other end's window is as long as messages took: under a flood, they take long.
		run.Sent = uint64(math.Round(float64(m.Run.Sent) * run.Seconds / m.Run.Seconds))
	}
	if s.workload.Kind == bench.Packets {
		run.Lost = s.missing(ctx, run, m.Total)
	}
	run.Retransmits = m.Run.Retransmits
	if run.Bytes == 0 && run.Packets == 0 {
		return run, fmt.Errorf("%w from %s in %.3g s, %d packets or questions were sent: look for what drops %s between the ends, a firewall or a smaller MTU",
			ErrNothing, s.peer.conn.RemoteAddr(), run.Seconds, run.Sent, s.workload.Kind)
	}
	run.Gbps = float64(run.Bytes) * 8 / run.Seconds / 1e9
	if s.workload.Kind != bench.Stream {
		run.PPS = float64(run.Packets) / run.Seconds
	}
	return run, nil
}

// missing is how many frames were sent in the window and did not arrive, by both ends'
// counts. Those are of two moments each, some frames apart; but from first to last, of
// all frames that were sent, not fewer are missing than in the window.
func (s *session) missing(ctx context.Context, run bench.Run, sent uint64) uint64 {
	const underway = 100 * time.Millisecond
	pauseUntil(ctx, time.Now().Add(underway))
	return min(clampedDifference(run.Sent, run.Packets), clampedDifference(sent, s.load.tally().packets))
}

// series lets the window pass and notes what each part of it carried.
func (s *session) series(ctx context.Context, run *bench.Run, first tally) (last tally, err error) {
	const parts = 10
	whole := seconds(s.workload.Seconds)
	part := max(time.Second, whole/parts)
	before, at := first, run.Started
	for due := run.Started; ; {
		next := min(part, run.Started.Add(whole).Sub(due))
		if next <= 0 {
			break
		}
		due = due.Add(next)
		if err := s.peer.wait(ctx, time.Until(due)); err != nil {
			return last, err
		}
		last = s.load.tally()
		now := time.Now()
		took := now.Sub(at).Seconds()
		if s.workload.Kind == bench.Stream || s.workload.Kind == bench.Datagram {
			run.Series = append(run.Series, float64(last.bytes-before.bytes)*8/took/1e9)
		} else {
			run.Series = append(run.Series, float64(last.packets-before.packets)/took)
		}
		before, at = last, now
	}
	run.Seconds = at.Sub(run.Started).Seconds()
	return last, nil
}

// follow does what the end that counts says, and tells it this end's figures.
func (s *session) follow(ctx context.Context, stop context.CancelFunc) (bench.Run, error) {
	var run bench.Run
	if _, err := s.peer.expect(ctx, begin, seconds(s.workload.Warmup)+patience); err != nil {
		return run, err
	}
	s.load.mark(true)
	run.Started = time.Now()
	first := s.load.tally()
	call(s.marks.Begin)
	if _, err := s.peer.expect(ctx, end, seconds(s.workload.Seconds)+patience); err != nil {
		return run, err
	}
	s.over.Store(true)
	s.load.mark(false)
	last := s.load.tally()
	run.Seconds = time.Since(run.Started).Seconds()
	call(s.marks.End)
	stop()
	run.Sent = last.sent - first.sent
	if s.workload.Kind == bench.Stream {
		again := clampedDifference(last.retransmits, first.retransmits)
		run.Retransmits = &again
	}
	select {
	case <-s.idle:
	case <-ctx.Done():
		return run, context.Cause(ctx)
	}
	return run, s.peer.send(message{Says: other, Run: &run, Total: s.load.tally().sent})
}

// clampedDifference is of counters that may step back: a datagram that was taken
// for lost arrives late.
func clampedDifference(last, first uint64) uint64 { return last - min(first, last) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func call(f func()) {
	if f != nil {
		f()
	}
}

// early is the error of a stream that broke. Where the cause is that the other end
// or ctx ended, the control connection tells it better, within a moment.
func early(ctx context.Context, err error) error {
	const moment = time.Second
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-timer.C:
		return err
	}
}
