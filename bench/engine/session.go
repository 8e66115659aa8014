package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// Marks are called at this end: Start as traffic begins, so that the window opens
// Workload.Warmup later; Begin directly before the window is counted and End directly
// after it. Functions that are nil are not called.
type Marks struct {
	Start, Begin, End func()
	// Hold is called at the end that asked for the measurement when both are ready, and the traffic
	// begins when it returns. The other end waits for that as long as for any answer, half a minute.
	Hold func(context.Context) error
}

// tally has the counts of one end since its start.
type tally struct {
	bytes, packets, sent, lost, retransmits uint64
	segment                                 int // payload of a full TCP segment, the smallest; 0 is not known
}

// load is one end's part in the traffic.
type load interface {
	// carryTraffic sends or receives until ctx ends. An error says why it ended before.
	carryTraffic(ctx context.Context) error
	// readTally returns the counts of the load until now.
	readTally() tally
	// markWindow says that the window begins or, counting false, has ended.
	markWindow(counting bool)
	// addFigures adds to a run the figures that only this load has. It is called after
	// carryTraffic.
	addFigures(*bench.Run) error
}

// ErrNothing is wrapped in the error of a measurement in which nothing arrived at the end that
// receives, also in the answer of an agent.
var ErrNothing = errors.New("nothing arrived")

// session is one measurement as one end sees it.
type session struct {
	peer     *peer
	workload bench.Workload
	active   bool // this end sends or asks
	counts   bool // this end receives or asks
	load     load
	marks    Marks
	idle     chan struct{} // closed when the load has ended
	over     atomic.Bool   // the window: a stream that ends now ends as it should
}

func newSession(p *peer, w bench.Workload, l load, active bool, marks Marks) *session {
	return &session{
		peer: p, workload: w, load: l, marks: marks, active: active,
		counts: active == isQuestion(w.Kind), idle: make(chan struct{}),
	}
}

// isQuestion reports whether a kind of workload is of questions, which the end that asks counts.
func isQuestion(k bench.Kind) bool { return k == bench.Request || k == bench.Connect }

// newLoad returns the load of connected streams. The active end sends, or asks.
func newLoad(w bench.Workload, number uint64, conns []net.Conn, active bool) load {
	switch {
	case w.Kind == bench.Stream && active:
		return newStreamSource(conns, w)
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

// newPacketLoad returns the load of frames that take the route of a tapped connection. port is as
// in newPacketSink; the active end needs none.
func newPacketLoad(ctx context.Context, w bench.Workload, number uint64, t *tap, port *net.UDPConn, active bool) (load, func() error, error) {
	r, err := t.learnRoute(ctx)
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

// runLoad runs the load, and returns the figures of the window: all of them at the
// end that counts, else its own part.
func (s *session) runLoad(ctx context.Context) (run bench.Run, err error) {
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	callIfSet(s.marks.Start)
	// If either fails, the other is of no use.
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer context.AfterFunc(both, stop)()
		defer close(s.idle)
		if err := s.load.carryTraffic(traffic); err != nil && !s.over.Load() {
			return err
		}
		return nil
	})
	g.Go(func() (err error) {
		defer stop()
		if s.counts {
			run, err = s.countWindow(both)
		} else {
			run, err = s.followWindow(both, stop)
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return run, err
	}
	if s.counts {
		s.noteTotal(&run)
		err = s.load.addFigures(&run)
	}
	return run, err
}

// noteTotal adds to a run the traffic that this end's load sent or received from first to last.
func (s *session) noteTotal(run *bench.Run) {
	t, total := s.load.readTally(), uint64(0)
	switch s.workload.Kind {
	case bench.Stream:
		total = t.bytes
	case bench.Datagram:
		total = max(t.bytes, t.sent*uint64(s.workload.Size))
	case bench.Request, bench.Connect:
		run.Totals = bench.Totals{Sent: t.sent, Arrived: t.packets}
		return
	case bench.Packets, bench.Echo:
		total = max(t.packets, t.sent)
	}
	if s.active {
		run.Totals.Sent = total
	} else {
		run.Totals.Arrived = total
	}
}

// countWindow waits for the warm-up to pass and measures the window. The load goes on
// until the other end has said that it stopped: if this end closed first, the other end's traffic
// would break off as in a failure.
func (s *session) countWindow(ctx context.Context) (bench.Run, error) {
	var run bench.Run
	if err := s.peer.waitQuietly(ctx, secondsLong(s.workload.Warmup)); err != nil {
		return run, err
	}
	callIfSet(s.marks.Begin)
	if err := s.peer.sendMessage(message{Says: begin}); err != nil {
		return run, err
	}
	s.load.markWindow(true)
	run.Started = time.Now()
	first := s.load.readTally()
	last, err := s.measureSeries(ctx, &run, first)
	if err != nil {
		return run, err
	}
	s.over.Store(true)
	s.load.markWindow(false)
	if err := s.peer.sendMessage(message{Says: end}); err != nil {
		return run, err
	}
	callIfSet(s.marks.End)
	m, err := s.peer.expectMessage(ctx, other, patience)
	if err != nil {
		return run, err
	}
	run.Bytes, run.Packets = last.bytes-first.bytes, last.packets-first.packets
	run.Sent, run.Lost = last.sent-first.sent, clampedDifference(last.lost, first.lost)
	if s.workload.Kind == bench.Datagram || s.workload.Kind == bench.Packets {
		// The length of the other end's window depends on the delay of messages, which is long
		// under a flood.
		run.Sent = uint64(math.Round(float64(m.Run.Sent) * run.Seconds / m.Run.Seconds))
	}
	run.Totals = m.Run.Totals
	if s.workload.Kind == bench.Packets {
		run.Lost = s.countMissing(ctx, run, run.Totals.Sent)
	}
	run.Retransmits = m.Run.Retransmits
	s.noteMechanism(&run)
	if s.active {
		run.To.Mechanism = m.Run.To.Mechanism
	} else {
		run.From.Mechanism = m.Run.From.Mechanism
	}
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

// countMissing returns how many frames were sent in the window and did not arrive, by both ends'
// counts. The two ends count at slightly different moments, some frames apart. So countMissing
// also uses the counts of the whole session, in which at least as many frames are missing as in
// the window.
func (s *session) countMissing(ctx context.Context, run bench.Run, sent uint64) uint64 {
	const underway = 100 * time.Millisecond
	pauseUntil(ctx, time.Now().Add(underway))
	return min(clampedDifference(run.Sent, run.Packets), clampedDifference(sent, s.load.readTally().packets))
}

// measureSeries waits until the window has passed and notes the traffic of each part of it.
func (s *session) measureSeries(ctx context.Context, run *bench.Run, first tally) (last tally, err error) {
	const parts = 10
	whole := secondsLong(s.workload.Seconds)
	part := max(time.Second, whole/parts)
	if s.workload.Pulled { // so that the series shows how long nothing arrived
		part = time.Second / parts
	}
	before, at, end := first, run.Started, run.Started.Add(whole)
	for due := run.Started; due.Before(end); {
		if err := s.peer.waitQuietly(ctx, time.Until(nextStep(due, part, end))); err != nil {
			return last, err
		}
		last = s.load.readTally()
		now := time.Now()
		took := now.Sub(at).Seconds()
		rate := float64(last.packets-before.packets) / took
		if s.workload.Kind == bench.Stream || s.workload.Kind == bench.Datagram {
			rate = float64(last.bytes-before.bytes) * 8 / took / 1e9
		}
		var steps int
		due, steps = passSteps(due, part, end, now)
		run.Series = append(run.Series, slices.Repeat([]float64{rate}, steps)...)
		before, at = last, now
	}
	run.Seconds = at.Sub(run.Started).Seconds()
	return last, nil
}

// nextStep returns the end of the step that begins at due. The last one may be shorter.
func nextStep(due time.Time, part time.Duration, end time.Time) time.Time {
	if next := due.Add(part); next.Before(end) {
		return next
	}
	return end
}

// passSteps returns the end of the steps that have passed by now, at least one, and how many these are.
// After a late wake they are several, which share their traffic: a step of none would be a pause that was
// not there.
func passSteps(due time.Time, part time.Duration, end, now time.Time) (time.Time, int) {
	due, steps := nextStep(due, part, end), 1
	for due.Before(end) && !nextStep(due, part, end).After(now) {
		due = nextStep(due, part, end)
		steps++
	}
	return due, steps
}

// followWindow follows the end that counts, and sends it this end's figures.
func (s *session) followWindow(ctx context.Context, stop context.CancelFunc) (bench.Run, error) {
	var run bench.Run
	if _, err := s.peer.expectMessage(ctx, begin, secondsLong(s.workload.Warmup)+patience); err != nil {
		return run, err
	}
	s.load.markWindow(true)
	run.Started = time.Now()
	first := s.load.readTally()
	callIfSet(s.marks.Begin)
	if _, err := s.peer.expectMessage(ctx, end, secondsLong(s.workload.Seconds)+patience); err != nil {
		return run, err
	}
	s.over.Store(true)
	s.load.markWindow(false)
	last := s.load.readTally()
	run.Seconds = time.Since(run.Started).Seconds()
	callIfSet(s.marks.End)
	stop()
	run.Sent = last.sent - first.sent
	s.noteMechanism(&run)
	if s.workload.Kind == bench.Stream {
		again := clampedDifference(last.retransmits, first.retransmits)
		run.Retransmits, run.Totals.Retransmits, run.Totals.Segment = &again, last.retransmits, last.segment
	}
	select {
	case <-s.idle:
	case <-ctx.Done():
		return run, context.Cause(ctx)
	}
	if !isQuestion(s.workload.Kind) { // the end that asks knows both
		s.noteTotal(&run)
	}
	return run, s.peer.sendMessage(message{Says: other, Run: &run})
}

// mechanical is a load that names the mechanism by which it sends or counts, where there
// are several.
type mechanical interface{ nameMechanism() bench.Mechanism }

// noteMechanism puts this end's mechanism into a run.
func (s *session) noteMechanism(run *bench.Run) {
	m, has := s.load.(mechanical)
	switch {
	case !has:
	case s.active:
		run.From.Mechanism = m.nameMechanism()
	default:
		run.To.Mechanism = m.nameMechanism()
	}
}

// clampedDifference returns the difference of counters that may step back, as when a datagram
// arrives late that was counted as lost.
func clampedDifference(last, first uint64) uint64 { return last - min(first, last) }

func secondsLong(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func callIfSet(f func()) {
	if f != nil {
		f()
	}
}

// reportEarlyEnd returns the error of a stream that broke. If the other end or ctx ended, the
// control connection has a better reason within a moment.
func reportEarlyEnd(ctx context.Context, err error) error {
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
