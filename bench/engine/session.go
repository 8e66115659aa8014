package engine

import (
	"context"
	"fmt"
	"math"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// Marks are called at this end directly before the window is counted and directly
// after it. Nil ones are not.
type Marks struct{ Begin, End func() }

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

// session is one measurement as one end sees it.
type session struct {
	peer     *peer
	workload bench.Workload
	counts   bool // this end receives or asks
	load     load
	marks    Marks
}

// newSession is of connected streams. The active end sends, or asks.
func newSession(p *peer, w bench.Workload, number uint64, conns []net.Conn, active bool, marks Marks) *session {
	s := &session{peer: p, workload: w, counts: active == (w.Kind == bench.Request), marks: marks}
	switch w.Kind {
	case bench.Stream:
		s.load = newStreamSink(conns)
		if active {
			s.load = newStreamSource(conns, w.Size)
		}
	case bench.Datagram:
		s.load = newDatagramSink(conns, number, w.Size)
		if active {
			s.load = newDatagramSource(conns, number, w)
		}
	case bench.Request:
		s.load = &answerer{conns, number, w.Size}
		if active {
			s.load = newAsker(conns, number, w)
		}
	}
	return s
}

// conduct runs the load, and returns the figures of the window: all of them at the
// end that counts, else its own part.
func (s *session) conduct(ctx context.Context) (run bench.Run, err error) {
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	// When either fails, the other has no sense.
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer context.AfterFunc(both, stop)()
		return s.load.run(traffic)
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
	if s.workload.Kind == bench.Datagram {
		// The other end's window is as long as messages took: under a flood, they take long.
		run.Sent = uint64(math.Round(float64(m.Run.Sent) * run.Seconds / m.Run.Seconds))
	}
	run.Retransmits = m.Run.Retransmits
	if run.Bytes == 0 && run.Packets == 0 {
		return run, fmt.Errorf("nothing arrived from %s in %.3g s, %d packets or questions were sent: something between the ends drops the %s: look for a firewall, and compare MTUs",
			s.peer.conn.RemoteAddr(), run.Seconds, run.Sent, s.workload.Kind)
	}
	run.Gbps = float64(run.Bytes) * 8 / run.Seconds / 1e9
	if s.workload.Kind != bench.Stream {
		run.PPS = float64(run.Packets) / run.Seconds
	}
	return run, nil
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
	return run, s.peer.send(message{Says: other, Run: &run})
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
