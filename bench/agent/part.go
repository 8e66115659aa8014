package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
)

// part is a half that runs, with its evidence.
type part struct {
	half     half
	engine   string
	cancel   context.CancelFunc
	held     chan struct{} // closed when both ends are ready, if the part is to wait then
	released chan struct{} // closed, once, when it may go on
	once     sync.Once
	opened   chan struct{} // closed when plan is set
	plan     Window
	ended    chan struct{} // closed when run and err are set
	run      bench.Run
	err      error
}

// newPart starts the part that a request asks for. The part runs until its half has ended or ctx
// ends.
func (a *agent) newPart(ctx context.Context, r request) (*part, error) {
	for _, w := range r.Task.Watch {
		if _, err := a.Reader.Counters(w.Interface); err != nil {
			return nil, err
		}
	}
	h, err := a.startHalf(ctx, r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &part{
		half: h, engine: r.Task.Workload.Engine, cancel: cancel, held: make(chan struct{}), released: make(chan struct{}), opened: make(chan struct{}), ended: make(chan struct{}),
	}
	m := marks{planned: p.setPlan}
	if r.Task.Hold {
		m.hold = p.waitForRelease
	}
	go func() { // ends with ctx; part.close waits for it
		defer close(p.ended)
		s := sampler{reader: a.Reader, watched: r.Task.Watch, guests: r.Task.Guests}
		began := time.Now()
		m.begin, m.end = s.sampleBefore, s.sampleAfter
		p.run, p.err = h.carryTraffic(ctx, m)
		if p.err == nil && p.run.Started.IsZero() {
			p.run.Started = began
		}
		p.addEvidence(&s, r.Do == receive)
		if err := h.close(); p.err == nil {
			p.err = err
		}
	}()
	return p, nil
}

// addEvidence adds the machine's evidence to the engine's figures. A run that is void may lack it.
func (p *part) addEvidence(s *sampler, received bool) {
	if p.err != nil || p.run.Void != "" && s.taken != 2 {
		return
	}
	found, err := s.makeEvidence()
	if err != nil {
		p.err = fmt.Errorf("sample what the machine did: %w", err)
		return
	}
	found.EngineSeconds = engine.SecondsOf(p.engine, found.CPU.Tasks)
	at := &p.run.From
	if received {
		at = &p.run.To
	}
	found.Mechanism, found.Buffer, found.Whole = at.Mechanism, at.Buffer, at.Whole // these are the engine's
	found.Interfaces = append(at.Interfaces, found.Interfaces...)
	*at = found
	sampled := s.after.At() - s.before.At()
	p.run.Void = cmp.Or(p.run.Void, explainLateness(sampled-(p.plan.Closes-p.plan.Opens), p.plan))
}

// waitForRelease waits until the conductor lets the part go on.
func (p *part) waitForRelease(ctx context.Context) error {
	close(p.held)
	select {
	case <-p.released:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitHeld waits until the part waits to be released.
func (p *part) waitHeld(ctx context.Context) error {
	select {
	case <-p.held:
		return nil
	case <-p.ended:
		return cmp.Or(p.err, errors.New("it ended before it was ready"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// releaseSender lets a part go on that waits for it.
func (p *part) releaseSender() error {
	select {
	case <-p.held:
		p.once.Do(func() { close(p.released) })
		return nil
	default:
		return errors.New("it does not wait to be released")
	}
}

func (p *part) setPlan(w Window) {
	p.plan = w
	close(p.opened)
}

// waitForWindow waits until the window is known.
func (p *part) waitForWindow(ctx context.Context) (Window, error) {
	select {
	case <-p.opened:
		return p.plan.withDelay()
	case <-p.ended:
	case <-ctx.Done():
		return Window{}, context.Cause(ctx)
	}
	select {
	case <-p.opened:
		return p.plan.withDelay()
	default:
		return Window{}, p.err
	}
}

// withDelay returns the window with the time until it opens in In. That is at least 1 ns, since 0
// means that In is not set.
func (w Window) withDelay() (Window, error) {
	now, err := evidence.Now()
	w.In = max(1, w.Opens-now)
	return w, err
}

// fromNow returns the window by this machine's clock.
func (w Window) fromNow(now time.Duration) Window {
	if w.In == 0 {
		return w
	}
	return Window{Opens: now + w.In, Closes: now + w.In + w.Closes - w.Opens}
}

func (p *part) waitForEnd(ctx context.Context) (bench.Run, error) {
	select {
	case <-p.ended:
		return p.run, p.err
	case <-ctx.Done():
		return bench.Run{}, errors.Join(context.Cause(ctx), p.close())
	}
}

// close ends the part and waits for its children.
func (p *part) close() error {
	p.cancel()
	err := p.half.close()
	<-p.ended
	return err
}

// sampler takes the samples at the edges of the window.
type sampler struct {
	reader        evidence.Reader
	watched       []evidence.Watched
	guests        []string
	before, after evidence.Sample
	errs          []error
	taken         int
}

func (s *sampler) sampleBefore() { s.before = s.takeSample() }

func (s *sampler) sampleAfter() { s.after = s.takeSample() }

func (s *sampler) takeSample() evidence.Sample {
	sample, err := s.reader.Sample(s.watched, s.guests...)
	s.errs = append(s.errs, err)
	s.taken++
	return sample
}

func (s *sampler) makeEvidence() (bench.Evidence, error) {
	if err := errors.Join(s.errs...); err != nil {
		return bench.Evidence{}, err
	}
	if s.taken != 2 {
		return bench.Evidence{}, errors.New("the window did not open and close")
	}
	return s.before.Until(s.after)
}
