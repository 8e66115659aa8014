package conduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/engine"
)

// findBounds finds the bounds of each path of the arms: the rate of its generator on the sending
// machine, the rate limit of the sending VF, and the round trip, which bounds the rate that a
// window allows. The notes name the bounds that could not be found, which stay 0.
func (m *Measurement) findBounds(ctx context.Context, arms []int) (notes []string) {
	note := func(err error) {
		if err != nil && ctx.Err() == nil && !slices.Contains(notes, err.Error()) {
			notes = append(notes, err.Error())
		}
	}
	alone := generators{exchange: &m.Exchange, progress: m.Progress, known: map[generator]generated{}}
	trips := map[bench.Path]trip{}
	for _, i := range arms {
		a := &m.Arms[i]
		bounds := a.EachBounds()
		for j, p := range a.Paths() {
			b, end := &bounds[j], senderOf(a, p)
			note(alone.setBound(ctx, a, end, b))
			note(m.setAllowed(ctx, end, b))
			if a.Workload.RateLimit > 0 { // culvertd lends the rate of a sweep
				b.RateMbps = 0
			}
			if a.Workload.Kind != bench.Stream || a.Workload.Window == 0 {
				continue
			}
			t, known := trips[p]
			if !known {
				m.Progress.Step("%s: how long a round trip takes", a.Name)
				t.micros, t.err = m.roundTrip(ctx, p)
				trips[p] = t
			}
			b.RTT = t.micros
			note(t.err)
		}
		a.Bounds, a.AlsoBounds = bounds[0], bounds[1:]
	}
	return notes
}

// senderOf returns the end of an arm's path that sends.
func senderOf(a *bench.Arm, p bench.Path) bench.End {
	if a.Workload.Reverse {
		return p.To
	}
	return p.From
}

// generators measures the rates of engines that no path limits: both ends are the sender's agent,
// over its loopback interface. The ends share the processors here and not on two machines, so that
// the generator may be faster there.
type generators struct {
	exchange *Exchange
	progress *Progress
	known    map[generator]generated
}

// generator is a workload and the machine that sends it.
type generator struct {
	machine string
	load    bench.Workload
}

type generated struct {
	gbps, pps float64
	err       error
}

// A generator is measured for generatorSeconds after generatorWarmup, and again if the run was
// void.
const (
	generatorSeconds = 1
	generatorWarmup  = 0.3
	generatorTries   = 3
)

// setBound sets the generator's bound of an arm's path by the end that sends. It measures each
// generator once.
func (g *generators) setBound(ctx context.Context, a *bench.Arm, end bench.End, b *bench.Bounds) error {
	w := a.Workload
	if w.Kind == bench.Request || w.Kind == bench.Connect || w.Kind == bench.Echo {
		return nil // limited by round trips, not by the generator
	}
	if e, _ := engine.FindEngine(w.Engine); e.Bypasses {
		return nil // it has no loopback interface
	}
	if w.Burst > 1 {
		return errors.New("what the generator makes in bursts without a network is not known, since lo takes them whole: no result is marked as held down by it")
	}
	w.Seconds, w.Warmup, w.Rate, w.RateLimit, w.Reverse, w.Pulled, w.ByHand = generatorSeconds, generatorWarmup, 0, 0, false, false, false
	on := findStation(g.exchange.Stations, end).kernelName()
	key := generator{on, w}
	found, known := g.known[key]
	if !known {
		g.progress.Step("%s: what %s makes on %s without a network", a.Name, w.Engine, on)
		found = g.measureAlone(ctx, end, w)
		g.known[key] = found
	}
	b.GeneratorGbps, b.GeneratorPPS = found.gbps, found.pps
	return found.err
}

func (g *generators) measureAlone(ctx context.Context, end bench.End, w bench.Workload) generated {
	var run bench.Run
	var err error
	for range generatorTries {
		if run, err = g.exchange.runLoopback(ctx, end, w); err == nil && run.Void == "" || ctx.Err() != nil {
			break
		}
	}
	if err == nil && run.Void != "" {
		err = errors.New(run.Void)
	}
	if err != nil {
		return generated{err: fmt.Errorf("what %s makes on %s without a network is not known, so no result is marked as held down by it: %w; is lo up in %s?", w.Engine, end.Machine, err, end.Name)}
	}
	if w.Kind == bench.Stream {
		return generated{gbps: run.Gbps}
	}
	return generated{pps: max(run.PPS, float64(run.Sent)/run.Seconds)}
}

// runLoopback makes an end send to itself.
func (x *Exchange) runLoopback(ctx context.Context, end bench.End, w bench.Workload) (bench.Run, error) {
	own := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if end.Address.Is6() {
		own = netip.IPv6Loopback()
	}
	here := x.sideOf(end)
	here.end.Interface, here.end.Address = "lo", own
	there := *here
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	return carryBetween(ctx, here, &there, agent.Task{Workload: w, From: own, To: own})
}

// setAllowed sets the rate limit of the VF that sends, and whether its frames get a VLAN tag. Both
// are settings of its PF, which the VF's own agent may see, or another agent on the machine.
func (m *Measurement) setAllowed(ctx context.Context, end bench.End, b *bench.Bounds) error {
	if end.VF == nil {
		return nil
	}
	pci := findStation(m.Stations, end).pciAddress(end)
	var why error
	for _, s := range m.Stations {
		if s.Machine.Name != end.Machine {
			continue
		}
		lent, err := s.Agent.OfVF(ctx, pci)
		if err == nil {
			b.RateMbps, b.VLANs = int(lent.MaxTxRate), min(1, lent.VLAN)
			return nil
		}
		why = cmp.Or(why, err)
	}
	return fmt.Errorf("whether %s on %s has a rate limit is not known: %w", end.Interface, end.Machine, why)
}

// voidError is the reason of a void run.
type voidError string

// errBusy is a voidError of a run whose ends had no processor at the right time.
var errBusy = errors.New("the processors are too busy")

func (e voidError) Error() string { return string(e) }

func (e voidError) Is(target error) bool {
	return target == errBusy && strings.HasSuffix(string(e), bench.Busy)
}

// trip is the outcome of one measurement of round trips: the duration in microseconds, or an
// error.
type trip struct {
	micros float64
	err    error
}

// roundTrip asks questions over a path for half a second, and returns the shortest round trip in
// microseconds. Longer ones also waited for processors.
func (x *Exchange) roundTrip(ctx context.Context, p bench.Path) (float64, error) {
	load := bench.Workload{Kind: bench.Request, Engine: engine.Own, UDP: true, Size: 64, Seconds: 0.5}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	var run bench.Run
	var err error
	for range generatorTries {
		run, err = carryBetween(ctx, x.sideOf(p.From), x.sideOf(p.To), agent.Task{Workload: load, From: p.From.Address, To: p.To.Address, Service: p.Service})
		if err == nil && run.Void == "" || ctx.Err() != nil {
			break
		}
	}
	if err == nil && run.Void != "" {
		err = voidError(run.Void)
	}
	if err == nil && (run.Delays == nil || run.Delays.Count == 0) {
		err = errors.New("no answer came")
	}
	if err != nil {
		return 0, fmt.Errorf("how long a round trip from %s to %s takes is not known: %w", p.From.Interface, p.To.Interface, err)
	}
	return run.Delays.Min, nil
}
