package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
)

// half is what one end does in a run: an engine that sends or receives.
type half interface {
	// ready is what the other end has to know before it begins.
	ready() Ready
	// run carries traffic until all of it is over, calls m around the window,
	// and returns the figures that this end knows.
	run(ctx context.Context, m marks) (bench.Run, error)
	// close ends what is left and waits for it; twice is once.
	close() error
}

// marks are called by a half: planned as soon as the window is known, with by how much the
// beginning of the traffic may have been missed, and the others at its edges.
type marks struct {
	planned    func(w Window, missed time.Duration)
	begin, end func()
}

// patience is how long a receiver waits for the first of what it is to receive.
const patience = 30 * time.Second

// timed calls the marks of an engine that does not know of the window: it opens Warmup
// after begun has said that traffic flows. Between ends, an engine that ends
// before the window has closed is an error.
func timed(ctx context.Context, w bench.Workload, begun func() (bool, error), ended <-chan struct{}, m marks) error {
	return promptly(func() error {
		awake := func() error {
			select {
			case <-ended:
				return errEarly
			case <-ctx.Done():
				return context.Cause(ctx)
			default:
				return nil
			}
		}
		moment, missed, err := spot(begun, awake)
		if err != nil {
			return err
		}
		plan := Window{Opens: moment + seconds(w.Warmup)}
		plan.Closes = plan.Opens + seconds(w.Seconds)
		m.planned(plan, missed)
		return m.around(plan, awake)
	})
}

// spot polls begun until it says true. The moment of that is exact to missed.
func spot(begun func() (bool, error), awake func() error) (moment, missed time.Duration, err error) {
	const often = time.Millisecond
	for {
		now, err := evidence.Now()
		if err != nil {
			return 0, 0, err
		}
		if moment != 0 {
			missed = now - moment
		}
		moment = now
		if ok, err := begun(); ok || err != nil {
			return moment, missed, err
		}
		if err := sleepUntil(now+often, awake); err != nil {
			return 0, 0, err
		}
	}
}

// around calls begin and end at the window's edges.
func (m marks) around(w Window, awake func() error) error {
	if err := sleepUntil(w.Opens, awake); err != nil {
		return err
	}
	m.begin()
	if err := sleepUntil(w.Closes, awake); err != nil {
		return err
	}
	m.end()
	return awake()
}

// within has begun fail with err when it has said no for so long.
func within(long time.Duration, err error, begun func() (bool, error)) func() (bool, error) {
	since := time.Now()
	return func() (bool, error) {
		if time.Since(since) > long {
			return false, err
		}
		return begun()
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// watcher is the half that takes no part: it samples another one's window.
type watcher struct{ Window }

func (watcher) ready() Ready { return Ready{} }

func (watcher) close() error { return nil }

func (w watcher) run(ctx context.Context, m marks) (bench.Run, error) {
	now, err := evidence.Now()
	if err != nil {
		return bench.Run{}, err
	}
	if now > w.Closes {
		return bench.Run{}, fmt.Errorf("watch: the window closed %s ago: it is that of another machine, or was told too late", now-w.Closes)
	}
	m.planned(w.Window, 0)
	return bench.Run{}, promptly(func() error {
		return m.around(w.Window, func() error { return context.Cause(ctx) })
	})
}
