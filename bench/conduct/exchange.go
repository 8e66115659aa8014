package conduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/engine"
)

// Exchange makes runs of arms between stations.
type Exchange struct {
	Stations []*Station
	Arms     []bench.Arm
	// Cable pulls the cable of an end, or plugs it in again: arms whose workload says
	// so have it pulled for a while, and are not void for it. nil where nobody can.
	Cable func(ctx context.Context, e bench.End, in bool) error
}

// slack is how long a run may take beside its seconds: ends wait half a minute for
// each other.
const slack = 90 * time.Second

// Once makes one run of an arm. What went wrong in the run makes it void; an error
// means that no more runs can be made: an end is gone, ctx has ended, a cable is still
// pulled.
func (x *Exchange) Once(ctx context.Context, arm int) (bench.Run, error) {
	a := x.Arms[arm]
	bound := time.Duration((a.Workload.Seconds+a.Workload.Warmup)*float64(time.Second)) + slack
	bounded, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("it did not end within %s", bound))
	defer cancel()
	run, err := x.limited(bounded, &a)
	x.Arms[arm].RateMbps = a.RateMbps
	switch {
	case ctx.Err() != nil:
		return run, context.Cause(ctx)
	case errors.Is(err, agent.ErrGone), errors.Is(err, errPulled):
		return run, err
	case err != nil:
		run = bench.Run{Void: err.Error()}
		for _, p := range a.Paths() {
			if hint := Mismatch(p); hint != "" {
				run.Void += "; " + hint
			}
			if hint := drops(p, a.Workload); hint != "" && errors.Is(err, engine.ErrNothing) {
				run.Void += "; " + hint
			}
		}
		return run, nil
	}
	run.Void = cmp.Or(run.Void, Proof(a, run))
	run.Limits = bench.Limits(run, a)
	return run, nil
}

// counted says why the time that a run counted cannot be right, and is empty else: a
// clock that was set would make any figure of it.
func counted(w bench.Workload, run bench.Run) string {
	const part = 0.2
	if run.Seconds < (1-part)*w.Seconds || run.Seconds > (1+part)*w.Seconds {
		return fmt.Sprintf("%s s were counted where %s s were asked for: a clock was set, or the run ended early", bench.Number(run.Seconds), bench.Number(w.Seconds))
	}
	return ""
}

// side is who sends or who receives in a run.
type side struct {
	*Station
	end      bench.End
	siblings []string // other interfaces of its namespace that carry the arm too
	part     *agent.Part
}

// wrap says whose error it is, and of an agent that is gone what it said at last.
func (s *side) wrap(err error) error {
	if err == nil {
		return nil
	}
	if said := s.Said(); errors.Is(err, agent.ErrGone) && said != "" { // why it left, mostly
		return fmt.Errorf("%s: %w: %s", s.Name, err, said)
	}
	return fmt.Errorf("%s: %w", s.Name, err)
}

func (x *Exchange) side(e bench.End) *side { return &side{Station: station(x.Stations, e), end: e} }

// transfer has one end of each path send and the other receive. Agents know no reverse: then
// the ends change places, and the evidence changes back.
func (x *Exchange) transfer(ctx context.Context, a bench.Arm) (bench.Run, error) {
	var flows []*flow
	var during []func(context.Context) error
	for _, p := range a.Paths() {
		f := x.flow(a, p)
		flows = append(flows, f)
		for i, s := range []*side{f.sender, f.receiver} {
			if node := x.node(s.Station); node != nil {
				during = append(during, func(ctx context.Context) error { return s.watchedBy(ctx, node, agent.Task{}, &f.nodes[i]) })
			}
		}
		if f.relay != nil {
			task := agent.Task{Watch: f.relay.relays(p.Via)}
			during = append(during, func(ctx context.Context) error { return f.receiver.watchedBy(ctx, f.relay, task, &f.relayed) })
		}
	}
	if a.Workload.Pulled {
		during = append(during, func(ctx context.Context) error { return x.pull(ctx, a, flows[0].sender) })
	}
	each, err := carry(ctx, flows, during...)
	if err != nil {
		return bench.Run{}, err
	}
	for i, f := range flows {
		f.seenBy(f.sender, &each[i].From, f.nodes[0], &each[i])
		f.seenBy(f.receiver, &each[i].To, f.nodes[1], &each[i])
		f.through(&each[i])
		if a.Workload.Reverse {
			each[i].From, each[i].To = each[i].To, each[i].From
		}
	}
	run := bench.Sum(each)
	for i, f := range flows {
		run.Void = cmp.Or(run.Void, f.void(each[i]))
	}
	return run, nil
}

// finish waits for the end of this side's part. When ctx ends before, because the
// other side failed or the time is up, the part is stopped.
func (s *side) finish(ctx context.Context, run *bench.Run) (err error) {
	*run, err = s.part.Finish(ctx)
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), s.stop(ctx))
	}
	return s.wrap(err)
}

// stopTime bounds the end of a part: an agent kills its children after two seconds.
const stopTime = 10 * time.Second

func (s *side) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return s.wrap(s.part.Stop(ctx))
}
