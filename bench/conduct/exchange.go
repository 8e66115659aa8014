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
	// Cable is for arms whose workload says so: they have it pulled for a while, and are not void for
	// it.
	Cable Cable

	background map[string]float64 // of each kernel, the processors that were busy when it rested last
}

// slack is how much longer than its seconds a run may take, since ends wait half a minute for
// each other.
const slack = 90 * time.Second

// RunArm makes one run of an arm. A failure in the run makes it void; an error
// means that no more runs can be made: an end is gone, ctx has ended, a cable is still
// pulled.
func (x *Exchange) RunArm(ctx context.Context, arm int) (bench.Run, error) {
	a := x.Arms[arm]
	bound := time.Duration((a.Workload.Seconds+a.Workload.Warmup)*float64(time.Second)) + slack
	bounded, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("it did not end within %s", bound))
	defer cancel()
	run, err := x.runLimited(bounded, &a)
	x.Arms[arm].RateMbps = a.RateMbps
	switch {
	case ctx.Err() != nil:
		return run, context.Cause(ctx)
	case errors.Is(err, agent.ErrGone), errors.Is(err, errPulled):
		return run, err
	case err != nil:
		run = bench.Run{Void: err.Error()}
		for _, p := range a.Paths() {
			if hint := p.Mismatch(); hint != "" {
				run.Void += "; " + hint
			}
			if hint := explainDrops(p, a.Workload); hint != "" && errors.Is(err, engine.ErrNothing) {
				run.Void += "; " + hint
			}
		}
		return run, nil
	}
	run.Void = cmp.Or(run.Void, Proof(a, run))
	run.Limits = bench.Limits(run, a)
	return run, nil
}

// checkCounted returns the reason why the counted time of a run cannot be right, or "" if it can. A
// clock that was set meanwhile would make a wrong figure.
func checkCounted(w bench.Workload, run bench.Run) string {
	const part = 0.2
	if run.Seconds < (1-part)*w.Seconds || run.Seconds > (1+part)*w.Seconds {
		return fmt.Sprintf("%s s were counted where %s s were asked for: a clock was set, or the run ended early", bench.Number(run.Seconds), bench.Number(w.Seconds))
	}
	return ""
}

// side is one end of a run: the sender or the receiver.
type side struct {
	*Station
	end      bench.End
	siblings []string // other interfaces of its namespace that carry the arm too
	guests   []string // the virtual machines on its machine that are ends of the arm
	node     *Station // that sees the processes which it does not; nil where none does
	part     *agent.Part
}

func (x *Exchange) sideOf(e bench.End) *side {
	return &side{Station: findStation(x.Stations, e), end: e}
}

// runTransfer makes one end of each path send and the other receive. Agents do not know the
// reverse direction: for it runTransfer exchanges the ends, and exchanges their evidence again in
// the result.
func (x *Exchange) runTransfer(ctx context.Context, a bench.Arm) (bench.Run, error) {
	var flows []*flow
	var during []func(context.Context) error
	for _, p := range a.Paths() {
		f := x.makeFlow(a, p)
		flows = append(flows, f)
		for i, s := range []*side{f.sender, f.receiver} {
			if s.node != nil {
				task := agent.Task{Guests: x.guestsOn(a, s.node)}
				during = append(during, func(ctx context.Context) error { return s.watchedBy(ctx, s.node, task, &f.nodes[i]) })
			}
		}
		if f.relay != nil && f.forwarder == nil {
			task := agent.Task{Watch: f.relay.relayInterfaces(p.Via), Guests: x.guestsOn(a, f.relay)}
			during = append(during, func(ctx context.Context) error { return f.receiver.watchedBy(ctx, f.relay, task, &f.relayed) })
		}
	}
	if a.Workload.Pulled {
		during = append(during, func(ctx context.Context) error { return x.pullCable(ctx, a, flows[0]) })
	}
	load, err := x.addLoad(a, flows[0])
	if err != nil {
		return bench.Run{}, err
	}
	before, err := tallyAll(ctx, a, flows)
	if err != nil {
		return bench.Run{}, err
	}
	each, err := carryBeside(ctx, flows, load, during...)
	if err != nil {
		return bench.Run{}, err
	}
	x.addTasks(flows, each)
	for i := range flows {
		each[i].From.Interfaces, each[i].To.Interfaces = withoutIdle(each[i].From.Interfaces), withoutIdle(each[i].To.Interfaces)
		if a.Workload.Reverse {
			each[i].From, each[i].To = each[i].To, each[i].From
		}
	}
	if err := settle(ctx, a, each, before); err != nil {
		return bench.Run{}, err
	}
	run := bench.Sum(each)
	for i, f := range flows {
		run.Void = cmp.Or(run.Void, f.voidReason(each[i]))
	}
	return run, nil
}

// addTasks adds to the evidence of each end what its node, its host and the relay saw, and how busy
// the machines were before the round. It attributes the engines of all ends to the run.
func (x *Exchange) addTasks(flows []*flow, each []bench.Run) {
	own := engines{}
	for i, f := range flows {
		own[f.sender.Station], own[f.receiver.Station] = each[i].From.CPU.Engine, each[i].To.CPU.Engine
		if f.forwarder != nil {
			own[f.relay] = f.relayed.From.CPU.Engine
		}
	}
	for i, f := range flows {
		own.creditTo(&each[i].From.CPU, f.seenBy(f.sender, &each[i].From, f.nodes[0], &each[i]))
		own.creditTo(&each[i].To.CPU, f.seenBy(f.receiver, &each[i].To, f.nodes[1], &each[i]))
		x.addBackground(f.sender.Station, &each[i].From)
		x.addBackground(f.receiver.Station, &each[i].To)
		if f.addRelay(&each[i]); each[i].Via != nil {
			each[i].Via.CPU.Tasks, each[i].Via.CPU.Engine = withoutEngine(each[i].Via.CPU), nil
			own.creditTo(&each[i].Via.CPU, f.relay)
			x.addBackground(f.relay, each[i].Via)
		}
	}
}

// finishPart waits for the end of this side's part. When ctx ends before, because the
// other side failed or the time is up, the part is stopped.
func (s *side) finishPart(ctx context.Context, run *bench.Run) (err error) {
	*run, err = s.part.Finish(ctx)
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), s.stopPart(ctx))
	}
	return s.wrapError(err)
}

// stopTime bounds the end of a part: an agent kills its children after two seconds.
const stopTime = 10 * time.Second

func (s *side) stopPart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return s.wrapError(s.part.Stop(ctx))
}
