package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
)

// part is a half that runs, with its evidence.
type part struct {
	half   half
	cancel context.CancelFunc
	opened chan struct{} // closed when plan is set
	plan   Window
	missed time.Duration
	ended  chan struct{} // closed when run and err are set
	run    bench.Run
	err    error
}

// newPart starts what a request asks for. It runs until it is over or ctx ends.
func (a *agent) newPart(ctx context.Context, r request) (*part, error) {
	h, err := a.half(ctx, r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &part{half: h, cancel: cancel, opened: make(chan struct{}), ended: make(chan struct{})}
	go func() { // ends with ctx; part.close waits for it
		defer close(p.ended)
		s := sampler{reader: a.Reader, watched: r.Task.Watch}
		began := time.Now()
		p.run, p.err = h.run(ctx, marks{planned: p.opens, begin: s.begin, end: s.end})
		if p.err == nil && p.run.Started.IsZero() {
			p.run.Started = began
		}
		p.conclude(&s, r.Do == receive)
		if err := h.close(); p.err == nil {
			p.err = err
		}
	}()
	return p, nil
}

// conclude adds to what the engine found what the machine did, unless that is void already.
func (p *part) conclude(s *sampler, received bool) {
	if p.err != nil || p.run.Void != "" {
		return
	}
	found, err := s.evidence()
	if err != nil {
		p.err = fmt.Errorf("sample what the machine did: %w", err)
		return
	}
	if received {
		p.run.To = found
	} else {
		p.run.From = found
	}
	p.run.Void = p.late(s.before.At(), s.after.At())
}

func (p *part) opens(w Window, missed time.Duration) {
	p.plan, p.missed = w, missed
	close(p.opened)
}

// late says why a run is void whose window was not sampled where it was planned, and is empty
// when it was: to a tenth of its length, or to 50 ms.
func (p *part) late(before, after time.Duration) string {
	bound := max(50*time.Millisecond, (p.plan.Closes-p.plan.Opens)/10)
	late := max(p.missed, before-p.plan.Opens, after-p.plan.Closes)
	if late <= bound {
		return ""
	}
	return fmt.Sprintf("the agent was woken %s late, and a window of %s is counted to %s at best: the processors are too busy for it, or too few",
		late.Round(time.Millisecond), p.plan.Closes-p.plan.Opens, bound)
}

// window waits until the window is known.
func (p *part) window(ctx context.Context) (Window, error) {
	select {
	case <-p.opened:
		return p.plan, nil
	case <-p.ended:
	case <-ctx.Done():
		return Window{}, context.Cause(ctx)
	}
	select {
	case <-p.opened:
		return p.plan, nil
	default:
		return Window{}, p.err
	}
}

func (p *part) finish(ctx context.Context) (bench.Run, error) {
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
	before, after evidence.Sample
	errs          []error
	taken         int
}

func (s *sampler) begin() { s.before = s.take() }

func (s *sampler) end() { s.after = s.take() }

func (s *sampler) take() evidence.Sample {
	sample, err := s.reader.Sample(s.watched)
	s.errs = append(s.errs, err)
	s.taken++
	return sample
}

func (s *sampler) evidence() (bench.Evidence, error) {
	if err := errors.Join(s.errs...); err != nil {
		return bench.Evidence{}, err
	}
	if s.taken != 2 {
		return bench.Evidence{}, errors.New("the window did not open and close")
	}
	return s.before.Until(s.after)
}
