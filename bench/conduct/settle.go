package conduct

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
)

// Counters of some drivers lag: iavf asks the PF every 2 s. settleTime is how long a run waits at
// most until they show its claims, and settlePause is the time between two readings.
const (
	settleTime  = 3 * time.Second
	settlePause = 100 * time.Millisecond
)

// tallied has the interfaces of one end of a flow, or of its relay, with their counters before the
// run.
type tallied struct {
	*side
	of     []evidence.Watched
	before []bench.Counters
	at     time.Time
}

// tallyEnd reads the counters of an end or relay before a run.
func tallyEnd(ctx context.Context, s *side, of []evidence.Watched) (t tallied, err error) {
	t = tallied{side: s, of: of, at: time.Now()}
	t.before, err = s.Agent.Counters(ctx, of)
	return t, s.wrapError(err)
}

// readRise returns the increase of the counters since. It leaves out interfaces beside the path that
// carried nothing.
func (t tallied) readRise(ctx context.Context) (whole bench.Whole, err error) {
	now, err := t.Agent.Counters(ctx, t.of)
	if err != nil {
		return whole, t.wrapError(err)
	}
	if len(now) != len(t.before) {
		return whole, t.wrapError(fmt.Errorf("it counted %d interfaces before the run and %d after it", len(t.before), len(now)))
	}
	whole.Seconds = time.Since(t.at).Seconds()
	for i, before := range t.before {
		c, err := evidence.SubtractCounters(before, now[i])
		if err != nil {
			return whole, t.wrapError(err)
		}
		whole.Interfaces = append(whole.Interfaces, c)
	}
	whole.Interfaces = withoutIdle(whole.Interfaces)
	return whole, nil
}

// withoutIdle leaves out interfaces beside the path that carried nothing: a node has hundreds.
func withoutIdle(all []bench.Counters) []bench.Counters {
	return slices.DeleteFunc(all, func(c bench.Counters) bool {
		return c.Role != "path" && c == bench.Counters{Interface: c.Interface, Role: c.Role}
	})
}

// tallyAll reads the counters of all flows before a run: for each flow those of the end where its
// path begins, of the end where it ends, and of the relay in the middle, if there is one.
func tallyAll(ctx context.Context, a bench.Arm, flows []*flow) ([][]tallied, error) {
	all := make([][]tallied, len(flows))
	g, ctx := errgroup.WithContext(ctx)
	for i, f := range flows {
		sides := []*side{f.sender, f.receiver}
		if a.Workload.Reverse {
			slices.Reverse(sides)
		}
		var watched [][]evidence.Watched
		for _, s := range sides {
			watched = append(watched, s.watchedInterfaces(s.end, s.siblings))
		}
		if f.relay != nil {
			sides, watched = append(sides, &side{Station: f.relay}), append(watched, f.relay.relayInterfaces(a.Paths()[i].Via))
		}
		own := make([]tallied, len(sides))
		all[i] = own
		for j, s := range sides {
			g.Go(func() (err error) {
				own[j], err = tallyEnd(ctx, s, watched[j])
				return err
			})
		}
	}
	return all, g.Wait()
}

// settle adds to each flow's run the increase of the counters over the whole run. It waits until
// the counters show the claims of the run, but for no longer than settleTime.
func settle(ctx context.Context, a bench.Arm, each []bench.Run, before [][]tallied) error {
	_, nothing := proofEnds(a, bench.Sum(each))
	for until := time.Now().Add(settleTime); ; {
		if err := addWholes(ctx, each, before); err != nil {
			return err
		}
		if nothing != "" || findShortfall(a, bench.Sum(each)) == "" || time.Now().After(until) {
			return nil
		}
		if err := pauseFor(ctx, settlePause); err != nil {
			return err
		}
	}
}

func addWholes(ctx context.Context, each []bench.Run, before [][]tallied) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range each {
		to := []*bench.Whole{&each[i].From.Whole, &each[i].To.Whole}
		if each[i].Via != nil {
			to = append(to, &each[i].Via.Whole)
		}
		for j, t := range before[i][:min(len(to), len(before[i]))] {
			if t.isDevice() { // its engine has counted
				continue
			}
			g.Go(func() (err error) {
				*to[j], err = t.readRise(ctx)
				return err
			})
		}
	}
	return g.Wait()
}
