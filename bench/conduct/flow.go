package conduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
)

// flow is the traffic over one path. An arm has one for each of its paths, and most have one.
type flow struct {
	sender, receiver *side
	task             agent.Task
	beside           bool         // there are others
	nodes            [2]bench.Run // what the sender's and the receiver's nodes saw, where those tell it
	relay            *Station     // in the middle; nil where the path has nobody
	relayed          bench.Run    // what it saw
}

func (x *Exchange) flow(a bench.Arm, p bench.Path) *flow {
	f := &flow{sender: x.side(p.From), receiver: x.side(p.To), beside: len(a.Also) > 0}
	if a.Workload.Reverse {
		f.sender, f.receiver = f.receiver, f.sender
	}
	f.sender.siblings, f.receiver.siblings = siblings(a, f.sender.end), siblings(a, f.receiver.end)
	f.task = agent.Task{Workload: a.Workload, From: f.sender.end.Address, To: f.receiver.end.Address, Service: p.Service}
	f.task.Workload.Reverse = false
	if i := slices.IndexFunc(x.Stations, func(s *Station) bool { return s.is(p.Via) }); i >= 0 {
		f.relay = x.Stations[i]
	}
	return f
}

// siblings are other interfaces of an end's namespace that the arm goes over as well.
func siblings(a bench.Arm, end bench.End) []string {
	var all []string
	for _, p := range a.Paths() {
		for _, e := range []bench.End{p.From, p.To} {
			if e.Machine == end.Machine && e.Name == end.Name && e.Interface != end.Interface {
				all = append(all, e.Interface)
			}
		}
	}
	return all
}

// wrap says which of several flows an error is about.
func (f *flow) wrap(err error) error {
	if err == nil || !f.beside {
		return err
	}
	from, to := f.sender.end, f.receiver.end
	return fmt.Errorf("%s %s to %s %s: %w", from.Name, from.Interface, to.Name, to.Interface, err)
}

// void says why a run of the flow does not count, and is empty when it does.
func (f *flow) void(run bench.Run) string {
	why := cmp.Or(run.Void, counted(f.task.Workload, run))
	if why == "" {
		return ""
	}
	return f.wrap(errors.New(why)).Error()
}

// seenBy adds to a side's evidence what its node or host saw.
func (f *flow) seenBy(s *side, e *bench.Evidence, node bench.Run, run *bench.Run) {
	if !s.VM {
		withTasks(&e.CPU, node.From.CPU)
		return
	}
	if void := hosted(e, node); void != "" && run.Void == "" {
		run.Void = s.near().Name + ": " + void
	}
}

// between carries a task's traffic from one side to another.
func between(ctx context.Context, sender, receiver *side, task agent.Task) (bench.Run, error) {
	each, err := carry(ctx, []*flow{{sender: sender, receiver: receiver, task: task}})
	if err != nil {
		return bench.Run{}, err
	}
	return each[0], nil
}

// carry has all flows begin together, while other things are done, and returns what each carried. When one
// fails none goes on.
func carry(ctx context.Context, flows []*flow, during ...func(context.Context) error) ([]bench.Run, error) {
	if err := begin(ctx, flows); err != nil {
		return nil, err
	}
	each := make([]bench.Run, len(flows))
	windows := make([][2]agent.Window, len(flows))
	g, all := errgroup.WithContext(ctx)
	for i, f := range flows {
		g.Go(func() error {
			sent, received, err := f.finish(all, &windows[i])
			each[i] = agent.Join(sent, received)
			return f.wrap(err)
		})
	}
	for _, do := range during {
		g.Go(func() error { return do(all) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return each, apart(flows, windows)
}

// finish waits for both sides.
func (f *flow) finish(ctx context.Context, windows *[2]agent.Window) (sent, received bench.Run, err error) {
	g, both := errgroup.WithContext(ctx)
	for i, s := range []*side{f.sender, f.receiver} {
		run := []*bench.Run{&sent, &received}[i]
		g.Go(func() error {
			if f.beside { // that there is none, finish tells
				windows[i], _ = s.part.Window(both)
			}
			return s.finish(both, run)
		})
	}
	return sent, received, g.Wait()
}

// begin readies the receivers and starts the senders. Of several flows each waits until all are ready. After
// an error no part is left.
func begin(ctx context.Context, flows []*flow) error {
	steps := []func(*flow) error{
		func(f *flow) error { return f.receive(ctx) },
		func(f *flow) error { return f.send(ctx) },
	}
	if len(flows) > 1 {
		steps = append(steps,
			func(f *flow) error { return f.sender.wrap(f.sender.part.Held(ctx)) },
			func(f *flow) error { return f.sender.wrap(f.sender.part.Release(ctx)) })
	}
	for _, step := range steps {
		var g errgroup.Group // none is stopped by another's error: what is begun has to be known
		for _, f := range flows {
			g.Go(func() error { return f.wrap(step(f)) })
		}
		if err := g.Wait(); err != nil {
			return errors.Join(err, stop(ctx, flows))
		}
	}
	return nil
}

func (f *flow) receive(ctx context.Context) (err error) {
	r, task := f.receiver, f.task
	task.Interface, task.Watch = r.end.Interface, r.watched(r.end, r.siblings)
	r.part, err = r.Agent.Receive(ctx, task)
	return r.wrap(err)
}

func (f *flow) send(ctx context.Context) (err error) {
	s, task := f.sender, f.task
	task.Interface, task.Watch, task.Hold = s.end.Interface, s.watched(s.end, s.siblings), f.beside
	s.part, err = s.Agent.Send(ctx, task, f.receiver.part.Ready())
	return s.wrap(err)
}

// stop ends the parts that were begun.
func stop(ctx context.Context, flows []*flow) error {
	var g errgroup.Group
	for _, f := range flows {
		for _, s := range []*side{f.sender, f.receiver} {
			if s.part != nil {
				g.Go(func() error { return s.stop(ctx) })
			}
		}
	}
	return g.Wait()
}

// muchApart is the part of a window by which those of two flows may differ, and at least leastApart: more, and
// their figures are not of one time.
const (
	muchApart  = 0.1
	leastApart = 50 * time.Millisecond
)

// apart says by an error that flows were not counted at the same time. Only windows of one machine have one
// clock; others began when they were told to, at once.
func apart(flows []*flow, windows [][2]agent.Window) error {
	first := map[string]agent.Window{}
	for i, f := range flows {
		for j, s := range []*side{f.sender, f.receiver} {
			w := windows[i][j]
			one, known := first[s.kernel()]
			if !known {
				first[s.kernel()] = w
			}
			if !known || w == (agent.Window{}) { // without one the run is void, and says why
				continue
			}
			late := (w.Opens - one.Opens).Abs()
			if bound := max(leastApart, time.Duration(muchApart*float64(w.Closes-w.Opens))); late > bound {
				return f.wrap(fmt.Errorf("it was counted %s before or after another on %s, and a window of %s may be by %s: the processors are too busy for so many at once, or too few",
					late.Round(time.Millisecond), s.kernel(), w.Closes-w.Opens, bound))
			}
		}
	}
	return nil
}
