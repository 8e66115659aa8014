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
	nodes            [2]bench.Run // the evidence of the sender's and the receiver's nodes, if any
	relay            *Station     // in the middle; nil where the path has none
	forwarder        *side        // relay, where an engine there forwards the frames and not the kernel
	relayed          bench.Run    // the evidence of relay
}

func (x *Exchange) makeFlow(a bench.Arm, p bench.Path) *flow {
	f := &flow{sender: x.sideOf(p.From), receiver: x.sideOf(p.To), beside: len(a.Also) > 0}
	if a.Workload.Reverse {
		f.sender, f.receiver = f.receiver, f.sender
	}
	for _, s := range []*side{f.sender, f.receiver} {
		s.siblings, s.guests, s.node = siblingsOf(a, s.end), x.guestsOn(a, s.Station), x.nodeOf(s.Station)
	}
	f.task = agent.Task{Workload: a.Workload, From: f.sender.end.Address, To: f.receiver.end.Address, Service: p.Service}
	f.task.Workload.Reverse = false
	if i := slices.IndexFunc(x.Stations, func(s *Station) bool { return s.isRelay(p.Via) }); i >= 0 {
		f.relay = x.Stations[i]
		if f.relay.isDevice() {
			f.forwarder = &side{Station: f.relay, end: f.relay.nameEnd(f.relay.Ends[0])}
		}
	}
	return f
}

// siblingsOf returns other interfaces of an end's namespace that the arm uses as well.
func siblingsOf(a bench.Arm, end bench.End) []string {
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

// wrapError adds the flow to an error, if there are several.
func (f *flow) wrapError(err error) error {
	if err == nil || !f.beside {
		return err
	}
	from, to := f.sender.end, f.receiver.end
	return fmt.Errorf("%s %s to %s %s: %w", from.Name, from.Interface, to.Name, to.Interface, err)
}

// voidReason returns the reason why a run of the flow does not count, or "" if it does.
func (f *flow) voidReason(run bench.Run) string {
	why := cmp.Or(run.Void, checkCounted(f.task.Workload, run))
	if why == "" {
		return ""
	}
	return f.wrapError(errors.New(why)).Error()
}

// seenBy adds the evidence of a side's node or host to that of the side. It returns the station
// that saw the machine's tasks.
func (f *flow) seenBy(s *side, e *bench.Evidence, node bench.Run, run *bench.Run) (viewer *Station) {
	if !s.VM {
		if useNode(&e.CPU, node.From.CPU) {
			return s.node
		}
		e.CPU.Tasks = withoutEngine(e.CPU)
		return s.Station
	}
	if void := useHost(e, node); void != "" && run.Void == "" {
		run.Void = s.nearPF().Name + ": " + void
	}
	return s.nearPF()
}

// carryBetween carries a task's traffic from one side to another.
func carryBetween(ctx context.Context, sender, receiver *side, task agent.Task) (bench.Run, error) {
	each, err := carryFlows(ctx, []*flow{{sender: sender, receiver: receiver, task: task}})
	if err != nil {
		return bench.Run{}, err
	}
	return each[0], nil
}

// carryFlows makes all flows begin together, calls during meanwhile, and returns the run of each.
// If one flow fails, it ends all.
func carryFlows(ctx context.Context, flows []*flow, during ...func(context.Context) error) ([]bench.Run, error) {
	if err := beginFlows(ctx, flows); err != nil {
		return nil, err
	}
	each := make([]bench.Run, len(flows))
	windows := make([][2]agent.Window, len(flows))
	g, all := errgroup.WithContext(ctx)
	for i, f := range flows {
		g.Go(func() error {
			sent, received, err := f.finishBoth(all, &windows[i])
			each[i] = agent.Join(sent, received)
			return f.wrapError(err)
		})
	}
	for _, do := range during {
		g.Go(func() error { return do(all) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return each, checkTogether(flows, windows)
}

// finishBoth waits for both sides.
func (f *flow) finishBoth(ctx context.Context, windows *[2]agent.Window) (sent, received bench.Run, err error) {
	g, both := errgroup.WithContext(ctx)
	if f.forwarder != nil {
		g.Go(func() error { return f.forwarder.finishPart(both, &f.relayed) })
	}
	for i, s := range []*side{f.sender, f.receiver} {
		run := []*bench.Run{&sent, &received}[i]
		g.Go(func() error {
			if f.beside { // a part without a window fails in finishPart
				windows[i], _ = s.part.Window(both)
			}
			return s.finishPart(both, run)
		})
	}
	return sent, received, g.Wait()
}

// beginFlows readies the receivers and starts the senders. With several flows each waits until all are ready. After
// an error no part is left.
func beginFlows(ctx context.Context, flows []*flow) error {
	steps := []func(*flow) error{
		func(f *flow) error { return f.startReceiver(ctx) },
		func(f *flow) error { return f.startForwarder(ctx) },
		func(f *flow) error { return f.startSender(ctx) },
	}
	if len(flows) > 1 {
		steps = append(steps,
			func(f *flow) error { return f.sender.wrapError(f.sender.part.Held(ctx)) },
			func(f *flow) error { return f.sender.wrapError(f.sender.part.Release(ctx)) })
	}
	for _, step := range steps {
		var g errgroup.Group // an error stops none of the others, so that all begun parts are known
		for _, f := range flows {
			g.Go(func() error { return f.wrapError(step(f)) })
		}
		if err := g.Wait(); err != nil {
			return errors.Join(err, stopFlows(ctx, flows))
		}
	}
	return nil
}

func (f *flow) startReceiver(ctx context.Context) (err error) {
	r, task := f.receiver, f.task
	task.Interface, task.Watch, task.Guests = r.end.Interface, r.watchedInterfaces(r.end, r.siblings), r.guests
	r.part, err = r.Agent.Receive(ctx, task)
	return r.wrapError(err)
}

func (f *flow) startSender(ctx context.Context) (err error) {
	s, task := f.sender, f.task
	task.Interface, task.Watch, task.Guests, task.Hold = s.end.Interface, s.watchedInterfaces(s.end, s.siblings), s.guests, f.beside
	next := f.receiver
	if f.forwarder != nil {
		next = f.forwarder
	}
	s.part, err = s.Agent.Send(ctx, task, next.part.Ready())
	return s.wrapError(err)
}

// startForwarder starts the engine in the middle, if there is one.
func (f *flow) startForwarder(ctx context.Context) (err error) {
	s, task := f.forwarder, f.task
	if s == nil {
		return nil
	}
	task.Interface = s.end.Interface
	s.part, err = s.Agent.Forward(ctx, task, f.receiver.part.Ready())
	return s.wrapError(err)
}

// stopFlows ends the parts that were begun.
func stopFlows(ctx context.Context, flows []*flow) error {
	var g errgroup.Group
	for _, f := range flows {
		for _, s := range []*side{f.sender, f.forwarder, f.receiver} {
			if s != nil && s.part != nil {
				g.Go(func() error { return s.stopPart(ctx) })
			}
		}
	}
	return g.Wait()
}

// muchApart is the part of a window by which the windows of two flows may be apart, but at least
// leastApart. Figures of windows that are further apart are not of the same time.
const (
	muchApart  = 0.1
	leastApart = 50 * time.Millisecond
)

// checkTogether returns an error if flows were not counted at the same time. It compares windows of
// one machine, which have one clock. Flows on other machines were released at the same time.
func checkTogether(flows []*flow, windows [][2]agent.Window) error {
	first := map[string]agent.Window{}
	for i, f := range flows {
		for j, s := range []*side{f.sender, f.receiver} {
			w := windows[i][j]
			one, known := first[s.kernelName()]
			if !known {
				first[s.kernelName()] = w
			}
			if !known || w == (agent.Window{}) { // a run without a window is void, with the reason
				continue
			}
			late := (w.Opens - one.Opens).Abs()
			if bound := max(leastApart, time.Duration(muchApart*float64(w.Closes-w.Opens))); late > bound {
				return f.wrapError(fmt.Errorf("it was counted %s before or after another on %s, and a window of %s may be by %s: the processors are too busy for so many at once, or too few",
					late.Round(time.Millisecond), s.kernelName(), w.Closes-w.Opens, bound))
			}
		}
	}
	return nil
}
