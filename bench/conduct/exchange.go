package conduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
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
	run, err := x.transfer(bounded, a)
	switch {
	case ctx.Err() != nil:
		return run, context.Cause(ctx)
	case errors.Is(err, agent.ErrGone), errors.Is(err, errPulled):
		return run, err
	case err != nil:
		run = bench.Run{Void: err.Error()}
		if hint := Mismatch(a.Path); hint != "" {
			run.Void += "; " + hint
		}
		return run, nil
	}
	run.Void = cmp.Or(run.Void, counted(a.Workload, run), Proof(a, run))
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
	end  bench.End
	part *agent.Part
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

// transfer has one end send and the other receive. Agents know no reverse: then the
// ends change places, and the evidence changes back.
func (x *Exchange) transfer(ctx context.Context, a bench.Arm) (bench.Run, error) {
	sender, receiver := x.side(a.Path.From), x.side(a.Path.To)
	if a.Workload.Reverse {
		sender, receiver = receiver, sender
	}
	task := agent.Task{Workload: a.Workload, From: sender.end.Address, To: receiver.end.Address}
	task.Workload.Reverse = false
	var nodes [2]bench.Run
	var during []func(context.Context) error
	for i, s := range []*side{sender, receiver} {
		if node := x.node(s.Station); node != nil {
			during = append(during, func(ctx context.Context) error { return s.watchedBy(ctx, node, &nodes[i]) })
		}
	}
	if a.Workload.Pulled {
		during = append(during, func(ctx context.Context) error { return x.pull(ctx, a, sender) })
	}
	run, err := between(ctx, sender, receiver, task, during...)
	if err != nil {
		return bench.Run{}, err
	}
	withTasks(&run.From.CPU, nodes[0].From.CPU)
	withTasks(&run.To.CPU, nodes[1].From.CPU)
	if a.Workload.Reverse {
		run.From, run.To = run.To, run.From
	}
	return run, nil
}

// between carries a task's traffic from one side to another, while other things are done.
func between(ctx context.Context, sender, receiver *side, task agent.Task, during ...func(context.Context) error) (bench.Run, error) {
	if err := begin(ctx, sender, receiver, task); err != nil {
		return bench.Run{}, err
	}
	var sent, received bench.Run
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error { return sender.finish(both, &sent) })
	g.Go(func() error { return receiver.finish(both, &received) })
	for _, do := range during {
		g.Go(func() error { return do(both) })
	}
	if err := g.Wait(); err != nil {
		return bench.Run{}, err
	}
	return agent.Join(sent, received), nil
}

// begin readies the receiver and starts the sender.
func begin(ctx context.Context, sender, receiver *side, task agent.Task) (err error) {
	task.Interface, task.Watch = receiver.end.Interface, receiver.watched(receiver.end)
	if receiver.part, err = receiver.Agent.Receive(ctx, task); err != nil {
		return receiver.wrap(err)
	}
	task.Interface, task.Watch = sender.end.Interface, sender.watched(sender.end)
	if sender.part, err = sender.Agent.Send(ctx, task, receiver.part.Ready()); err != nil {
		return errors.Join(sender.wrap(err), receiver.stop(ctx))
	}
	return nil
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
