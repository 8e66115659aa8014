package conduct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
)

// Cable pulls the cable of an end's PF, or plugs it in again.
type Cable struct {
	Move func(ctx context.Context, e bench.End, in bool) error // nil: no cable can be pulled
	// ByHand is set where Move only asks a person to do it. The traffic then shows when that was done.
	ByHand bool
}

// errPulled is the error of a cable that could not be plugged in again.
var errPulled = errors.New("the cable is still pulled")

// A cable is pulled when pulledAt of the window has passed, and plugged in again at pluggedAt, or later if
// the command takes its time. A person is asked at
// askedAt, has until handsAt to pull it, and until backAt to have the traffic back.
const (
	pulledAt  = 0.3
	pluggedAt = 0.5

	askedAt = 0.05
	handsAt = 0.35
	backAt  = 0.95
)

// plugTime bounds a command that plugs a cable in.
const plugTime = 30 * time.Second

// pullCable pulls the cable in the middle of a run and plugs it in again, also after an error.
func (x *Exchange) pullCable(ctx context.Context, a bench.Arm, f *flow) error {
	if _, err := f.sender.part.Window(ctx); err != nil {
		return f.sender.wrapError(err)
	}
	w := a.Workload
	opens := time.Now().Add(time.Duration(w.Warmup * float64(time.Second)))
	at := func(part float64) time.Time { return opens.Add(time.Duration(part * w.Seconds * float64(time.Second))) }
	begin := pulledAt
	if x.Cable.ByHand {
		begin = askedAt
	}
	if err := pauseFor(ctx, time.Until(at(begin))); err != nil {
		return err
	}
	err := x.keepPulled(ctx, a, f, at)
	if plugged := x.plugIn(ctx, a); plugged != nil {
		return errors.Join(err, fmt.Errorf("%w: %s of %s: %w", errPulled, a.Path.From.Interface, a.Path.From.Name, plugged))
	}
	if err != nil || !x.Cable.ByHand {
		return err
	}
	if err := f.awaitTraffic(ctx, at(backAt)); err != nil {
		return fmt.Errorf("%w: %s of %s: %w", errPulled, a.Path.From.Interface, a.Path.From.Name, err)
	}
	return nil
}

// keepPulled pulls the cable, and returns when it is time to plug it in.
func (x *Exchange) keepPulled(ctx context.Context, a bench.Arm, f *flow, at func(part float64) time.Time) error {
	before, err := f.readLinks(ctx)
	if err != nil {
		return err
	}
	if err := x.Cable.Move(ctx, a.Path.From, false); err != nil {
		return fmt.Errorf("pull the cable: %w", err)
	}
	if x.Cable.ByHand {
		return f.awaitLoss(ctx, before, at(handsAt))
	}
	return pauseFor(ctx, time.Duration((pluggedAt-pulledAt)*a.Workload.Seconds*float64(time.Second))) // however long the command took
}

func (x *Exchange) plugIn(ctx context.Context, a bench.Arm) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), plugTime)
	defer cancel()
	return x.Cable.Move(ctx, a.Path.From, true)
}

// links are the counts of a flow's two ends that show a pulled cable.
type links struct{ arrived, downs uint64 }

func (f *flow) readLinks(ctx context.Context) (l links, err error) {
	for _, s := range []*side{f.sender, f.receiver} {
		c, err := s.Agent.Counters(ctx, []evidence.Watched{{Interface: s.end.Interface, Role: "path"}})
		if err != nil {
			return l, s.wrapError(err)
		}
		if len(c) != 1 {
			return l, s.wrapError(fmt.Errorf("it counted %d interfaces in place of %s", len(c), s.end.Interface))
		}
		l.downs += c[0].Downs
		if s == f.receiver {
			l.arrived = c[0].RxBytes
		}
	}
	return l, nil
}

// Traffic has stopped when no more than fewBytes have arrived for lossTime: iavf's counters are up to
// two seconds old.
const (
	lossTime = 3 * time.Second
	lookTime = 200 * time.Millisecond
	fewBytes = 64 << 10
)

// awaitLoss waits until the cable is pulled: a link goes down, or the traffic stops.
func (f *flow) awaitLoss(ctx context.Context, before links, until time.Time) error {
	last, since, asked := before, time.Now(), time.Now()
	for {
		now, err := f.readLinks(ctx)
		if err != nil {
			return err
		}
		if now.arrived > last.arrived+fewBytes {
			last, since = now, time.Now()
		}
		if now.downs > before.downs || time.Since(since) > lossTime {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("nothing was lost within %s: the cable was not pulled, or this traffic does not need it", time.Since(asked).Round(time.Second))
		}
		if err := pauseFor(ctx, lookTime); err != nil {
			return err
		}
	}
}

// awaitTraffic waits until traffic arrives again.
func (f *flow) awaitTraffic(ctx context.Context, until time.Time) error {
	first, err := f.readLinks(ctx)
	asked := time.Now()
	for err == nil {
		var now links
		if now, err = f.readLinks(ctx); err == nil && now.arrived > first.arrived+fewBytes {
			return nil
		}
		if err == nil && time.Now().After(until) {
			return fmt.Errorf("nothing arrived within %s", time.Since(asked).Round(time.Second))
		}
		if err == nil {
			err = pauseFor(ctx, lookTime)
		}
	}
	return err
}

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pulledArms notes the throughput of arms with a pulled cable, from the least of their runs to the most.
func pulledArms(r bench.Result) (notes []string) {
	for i, a := range r.Arms {
		runs := r.Counted(i)
		if !a.Workload.Pulled || len(runs) == 0 {
			continue
		}
		var before, stopped, after []float64
		for _, run := range runs {
			b, s, f := Pulled(run)
			before, stopped, after = append(before, b), append(stopped, s), append(after, f)
		}
		if slices.Max(stopped) == 0 {
			notes = append(notes, fmt.Sprintf("%s: the pulled cable did not stop the traffic", a.Name))
			continue
		}
		notes = append(notes, fmt.Sprintf("%s: %s Gb/s before the cable was pulled, 0 while it was, %s after it was plugged in again; nothing arrived for %s s",
			a.Name, describeRange(before), describeRange(after), describeRange(stopped)))
	}
	return notes
}

func describeRange(all []float64) string {
	least, most := bench.Number(slices.Min(all)), bench.Number(slices.Max(all))
	if least == most {
		return least
	}
	return least + " to " + most
}

// leastStop is for how many seconds nothing arrives, at least, when a cable is pulled. A segment that is
// lost in another way is sent again sooner.
const leastStop = 0.5

// Pulled returns for how many seconds nothing arrived in a run, at its longest, and the mean rates
// before and after, in the unit of the run's series. The steps at the edges count for neither side.
// stopped is 0 if the traffic did not stop.
func Pulled(run bench.Run) (before, stopped, after float64) {
	from, to, begin := 0, 0, 0
	for i, v := range run.Series {
		if v > 0 {
			begin = i + 1
		} else if i+1-begin > to-from {
			from, to = begin, i+1
		}
	}
	step := run.Seconds / float64(max(len(run.Series), 1))
	if stopped = float64(to-from) * step; stopped < leastStop {
		return mean(run.Series), 0, mean(run.Series)
	}
	return mean(run.Series[:max(from-1, 0)]), stopped, mean(run.Series[min(to+1, len(run.Series)):])
}

func mean(all []float64) (sum float64) {
	for _, v := range all {
		sum += v / float64(len(all))
	}
	return sum
}
