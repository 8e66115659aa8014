package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
)

// half is the work of one end in a run: an engine that sends or receives.
type half interface {
	// describeReady returns the facts that the other end needs before it begins.
	describeReady() Ready
	// carryTraffic carries traffic until all of it is over, calls m around the window,
	// and returns the figures that this end knows.
	carryTraffic(ctx context.Context, m marks) (bench.Run, error)
	// close ends what is left of the half and waits for it. A second call does nothing.
	close() error
}

// marks are called by a half: hold before traffic begins, if it is set, planned when it does, and the
// others at the window's edges.
type marks struct {
	hold       func(context.Context) error
	planned    func(Window)
	begin, end func()
}

// patience is how long a receiver waits for the first traffic.
const patience = 30 * time.Second

// callTimed calls the marks of an engine that does not know of the window: it opens Warmup after
// begun has reported traffic. void is the reason why the run must not count: the engine ended
// before the window had closed, or the agent was woken too late.
func callTimed(ctx context.Context, w bench.Workload, begun func() (bool, error), ended <-chan struct{}, m marks) (void string, err error) {
	err = runAlone(func() error {
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
		moment, missed, err := spotBeginning(begun, awake)
		if err != nil {
			return err
		}
		plan := Window{Opens: moment + secondsLong(w.Warmup)}
		plan.Closes = plan.Opens + secondsLong(w.Seconds)
		m.planned(plan)
		raisePriority() // not before: until traffic flows, the engine needs the processors
		void, err = m.callAround(plan, missed, awake)
		return err
	})
	if errors.Is(err, errEarly) {
		return "the engine had ended before the agent saw the window close" + bench.Busy, nil
	}
	return void, err
}

// errEarly is the error of an engine that ended before the window had closed.
var errEarly = errors.New("it ended before the window had closed")

// spotBeginning polls begun until it returns true. The moment of that is exact to missed. Between
// two polls it sleeps nine times as long as a poll took, up to 25 ms. On an emulated node polls
// that follow each other closely made iperf3 begin 1 to 2.4 s late.
func spotBeginning(begun func() (bool, error), awake func() error) (moment, missed time.Duration, err error) {
	const shortest, longest, share = time.Millisecond, 25 * time.Millisecond, 9
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
		polled, err := evidence.Now()
		if err != nil {
			return 0, 0, err
		}
		pause := min(max(share*(polled-now), shortest), longest)
		if _, err := sleepUntil(polled+pause, awake); err != nil {
			return 0, 0, err
		}
	}
}

// callAround calls begin and end at the window's edges. void says how late the calls were, or the
// beginning of the traffic was noticed, if that is too late.
func (m marks) callAround(w Window, missed time.Duration, awake func() error) (void string, err error) {
	opened, err := sleepUntil(w.Opens, awake)
	if err != nil {
		return "", err
	}
	m.begin()
	closed, err := sleepUntil(w.Closes, awake)
	if err != nil {
		return "", err
	}
	m.end()
	return explainLateness(max(missed, opened-w.Opens, closed-w.Closes), w), awake()
}

// explainLateness returns the reason why a run is void whose window was sampled that late. It
// returns "" for up to a quarter of the window, or 50 ms if that is more. Figures are rates over
// the time that each end really sampled, but both must have seen mostly the same traffic.
func explainLateness(late time.Duration, w Window) string {
	long := w.Closes - w.Opens
	bound := max(50*time.Millisecond, long/4)
	if late <= bound {
		return ""
	}
	return fmt.Sprintf("the agent was woken %s late, and a window of %s is counted to %s at best%s", late.Round(time.Millisecond), long, bound, bench.Busy)
}

// failAfter returns begun, changed so that it fails with err when it has returned false for that
// long.
func failAfter(long time.Duration, err error, begun func() (bool, error)) func() (bool, error) {
	since := time.Now()
	return func() (bool, error) {
		if time.Since(since) > long {
			return false, err
		}
		return begun()
	}
}

func secondsLong(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// watcher is the half that takes no part: it samples the window of another half.
type watcher struct{ Window }

func (watcher) describeReady() Ready { return Ready{} }

func (watcher) close() error { return nil }

func (w watcher) carryTraffic(ctx context.Context, m marks) (run bench.Run, err error) {
	m.planned(w.Window)
	err = runPromptly(func() error {
		run.Void, err = m.callAround(w.Window, 0, func() error { return context.Cause(ctx) })
		return err
	})
	return run, err
}
