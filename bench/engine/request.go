package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

const (
	// longest is the longest round trip that a histogram holds; longer ones count as it.
	longest = time.Minute
	// digits are the significant ones of a histogram.
	digits = 3
	// answerTime is the time after which an answer by UDP counts as lost.
	answerTime = time.Second
	// connectTime is the time after which a question with a connection of its own counts as lost. The
	// kernel sends a lost SYN again after 1 and 3 s (tcp_syn_retries in tcp(7)).
	connectTime = 5 * time.Second
)

// asker asks questions, on each connection one at a time, and measures how long the
// answers take: from when the question was due, where there is a rate, so
// that one slow answer counts for all the questions that it held up
// (coordinated omission). Questions that were due in the window and are not answered at the end of
// the traffic count with the time that they waited.
type asker struct {
	conns    []net.Conn
	session  uint64
	size     int
	interval time.Duration // between questions of one connection; 0: none
	counts   []askerCount  // by connection
	window   window
	finished chan struct{} // closed when no question is open any more
}

type askerCount struct {
	sent, packets, lost counter
	delays              *hdrhistogram.Histogram // nanoseconds
}

// window is the time that is counted.
type window struct {
	mu         sync.Mutex // guards both
	begin, end time.Time
}

func (w *window) markEdge(counting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if counting {
		w.begin = time.Now()
	} else {
		w.end = time.Now()
	}
}

// isOver reports whether the window has ended.
func (w *window) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.end.IsZero()
}

// holdsTime reports whether t is in the window.
func (w *window) holdsTime(t time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.begin.IsZero() && !t.Before(w.begin) && (w.end.IsZero() || t.Before(w.end))
}

func newAsker(conns []net.Conn, session uint64, w bench.Workload) *asker {
	a := &asker{conns: conns, session: session, size: w.Size, counts: make([]askerCount, len(conns)), finished: make(chan struct{})}
	if w.Rate > 0 {
		a.interval = secondsLong(float64(len(conns)) / w.Rate)
	}
	for i := range a.counts {
		a.counts[i].delays = hdrhistogram.New(1, longest.Nanoseconds(), digits)
	}
	return a
}

func (a *asker) carryTraffic(ctx context.Context) error {
	defer closedBy(ctx, a.conns)()
	defer close(a.finished)
	var g errgroup.Group
	begun := time.Now()
	for i, conn := range a.conns {
		g.Go(func() error {
			question, answer := make([]byte, a.size), make([]byte, a.size)
			err := a.askQuestions(ctx, a.firstDue(begun, i), &a.counts[i], func(number uint64) error {
				putHeader(question, a.session, number)
				if _, err := conn.Write(question); err != nil && !isPassing(err) {
					return err
				}
				return waitForAnswer(conn, answer, a.session, number)
			})
			if err != nil {
				return reportEarlyEnd(ctx, fmt.Errorf("stream %d of %d: ask: %w", i+1, len(a.conns), err))
			}
			return nil
		})
	}
	return g.Wait()
}

// firstDue returns when the first question of a connection is due, for those that began at the same
// time. Their questions are spread over the interval.
func (a *asker) firstDue(begun time.Time, connection int) time.Time {
	return begun.Add(a.interval / time.Duration(len(a.conns)) * time.Duration(connection))
}

// askQuestions asks one question after the other from due on, until all of the window are asked or
// ctx has ended. ask returns when the question is answered. A timeout makes the question a lost one.
func (a *asker) askQuestions(ctx context.Context, due time.Time, count *askerCount, ask func(number uint64) error) error {
	if a.interval > 0 {
		defer wakePrecisely()()
	}
	for number := uint64(0); ; number++ {
		if a.interval == 0 {
			due = time.Now()
		} else {
			pauseUntil(ctx, due)
		}
		if ctx.Err() != nil {
			a.recordUnanswered(due, count)
			return nil
		}
		count.sent.Add(1)
		err := ask(number)
		var failed net.Error
		switch {
		case ctx.Err() != nil:
			a.recordUnanswered(due, count)
			return nil
		case errors.As(err, &failed) && failed.Timeout():
			count.lost.Add(1)
			a.recordDelay(due, time.Now(), count) // a lost question counts in the percentiles too
		case err != nil:
			a.recordUnanswered(due, count)
			return err
		default:
			count.packets.Add(1)
			a.recordDelay(due, time.Now(), count)
		}
		due = due.Add(a.interval)
		// A question that was due in the window and is held up by this one is asked late, since its
		// time until now would be too short.
		if a.window.isOver() && (a.interval == 0 || !a.window.holdsTime(due)) {
			return nil
		}
	}
}

// recordDelay notes a question of the window.
func (a *asker) recordDelay(due, until time.Time, count *askerCount) {
	if a.window.holdsTime(due) {
		_ = count.delays.RecordValue(min(until.Sub(due), longest).Nanoseconds()) // it is in the range
	}
}

// recordUnanswered notes the question at due and those that it held up.
func (a *asker) recordUnanswered(due time.Time, count *askerCount) {
	for now := time.Now(); due.Before(now); due = due.Add(a.interval) {
		a.recordDelay(due, now, count)
		if a.interval == 0 {
			return
		}
	}
}

// waitForAnswer waits for the answer to a question. It skips late answers to earlier questions,
// which have counted as lost.
func waitForAnswer(conn net.Conn, answer []byte, session, number uint64) error {
	if _, tcp := conn.(*net.TCPConn); tcp {
		if _, err := io.ReadFull(conn, answer); err != nil {
			return err
		}
		if got, ok := parseHeader(answer, session); !ok || got != number {
			return fmt.Errorf("the answer to question %d begins with %x: it is no answer of this protocol", number, answer[:headerSize])
		}
		return nil
	}
	if err := conn.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	for {
		n, err := conn.Read(answer)
		if err != nil && !isPassing(err) {
			return err
		}
		if got, ok := parseHeader(answer[:n], session); ok && got == number {
			return nil
		}
	}
}

func (a *asker) readTally() (t tally) {
	for i := range a.counts {
		c := &a.counts[i]
		t.sent += c.sent.Load()
		t.packets += c.packets.Load()
		t.lost += c.lost.Load()
	}
	t.bytes = t.packets * uint64(a.size)
	return t
}

// markWindow ends the window when the open questions are answered, or will not be.
func (a *asker) markWindow(counting bool) {
	a.window.markEdge(counting)
	if counting {
		return
	}
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	select {
	case <-a.finished:
	case <-timer.C:
	}
}

func (a *asker) addFigures(run *bench.Run) error {
	all := hdrhistogram.New(1, longest.Nanoseconds(), digits)
	for i := range a.counts {
		all.Merge(a.counts[i].delays)
	}
	text, err := all.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return fmt.Errorf("encode the histogram of %d round trips: %w", all.TotalCount(), err)
	}
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	run.Delays = &bench.Delays{
		Count: uint64(all.TotalCount()), Min: us(all.Min()), Mean: all.Mean() / 1000,
		P50: us(all.ValueAtQuantile(50)), P90: us(all.ValueAtQuantile(90)), P99: us(all.ValueAtQuantile(99)),
		P999: us(all.ValueAtQuantile(99.9)), Max: us(all.Max()), Histogram: string(text),
	}
	for _, bar := range all.Distribution() {
		if bar.Count == 0 {
			continue
		}
		bin := bench.BinOf(us(bar.From))
		run.Delays.Bins = append(run.Delays.Bins, make([]uint64, max(0, bin+1-len(run.Delays.Bins)))...)
		run.Delays.Bins[bin] += uint64(bar.Count)
	}
	return nil
}
