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

// marks are called by a half: planned as soon as the window is known, and the others at
// its edges.
type marks struct {
	planned    func(Window)
	begin, end func()
}

// patience is how long a receiver waits for the first of what it is to receive.
const patience = 30 * time.Second

// timed calls the marks of an engine that does not know of the window: it opens Warmup
// after begun has returned. An engine that ends before the window has closed is an error.
func timed(ctx context.Context, w bench.Workload, begun func(context.Context) error, ended <-chan struct{}, m marks) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-ended:
			cancel(errEarly)
		case <-stop:
		}
	}()
	if err := begun(ctx); err != nil {
		return err
	}
	now, err := evidence.Now()
	if err != nil {
		return err
	}
	plan := Window{Opens: now + seconds(w.Warmup)}
	plan.Closes = plan.Opens + seconds(w.Seconds)
	m.planned(plan)
	if err := until(ctx, plan.Opens); err != nil {
		return err
	}
	m.begin()
	if err := until(ctx, plan.Closes); err != nil {
		return err
	}
	m.end()
	return nil
}

// until waits for a moment of [evidence.Now].
func until(ctx context.Context, moment time.Duration) error {
	now, err := evidence.Now()
	if err != nil {
		return err
	}
	return wait(ctx, moment-now)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// poll calls ready until it says true.
func poll(ctx context.Context, every time.Duration, ready func() (bool, error)) error {
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		if err := wait(ctx, every); err != nil {
			return err
		}
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
	m.planned(w.Window)
	if err := until(ctx, w.Opens); err != nil {
		return bench.Run{}, err
	}
	m.begin()
	if err := until(ctx, w.Closes); err != nil {
		return bench.Run{}, err
	}
	m.end()
	return bench.Run{}, nil
}
