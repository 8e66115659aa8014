package engine

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// packetSource sends frames from as many threads as the workload has streams, each with
// a ring of its own.
type packetSource struct {
	frames *frames
	rings  []*ring
	burst  uint64    // frames in a slot of a ring
	rate   float64   // slots a second of each ring; 0: as many as go
	sent   []counter // by ring
}

// newPacketSource opens the rings on the calling thread. The caller closes it.
func newPacketSource(r route, session uint64, w bench.Workload) (*packetSource, error) {
	f, err := newFrames(r, session, w)
	if err != nil {
		return nil, err
	}
	s := &packetSource{frames: f, burst: uint64(w.Burst), rate: w.Rate / float64(w.Streams*w.Burst), sent: make([]counter, w.Streams)}
	for range w.Streams {
		ring, err := newRing(r, f)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.rings = append(s.rings, ring)
	}
	return s, nil
}

func (s *packetSource) close() error {
	var errs []error
	for _, r := range s.rings {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

func (s *packetSource) run(ctx context.Context) error {
	var g errgroup.Group
	for i, ring := range s.rings {
		g.Go(func() error {
			defer precise()()
			if err := s.send(ctx, ring, i); err != nil {
				return early(ctx, fmt.Errorf("thread %d of %d: %w", i+1, len(s.rings), err))
			}
			return nil
		})
	}
	return g.Wait()
}

// send goes on until ctx ends. Ring i has every frame whose number is i more than a
// multiple of their count.
func (s *packetSource) send(ctx context.Context, ring *ring, i int) error {
	const most = ringSlots / 4 // of slots for one call
	schedule := pace{rate: s.rate}
	step, sent := uint64(len(s.rings)), uint64(0)
	for ctx.Err() == nil {
		due := schedule.next(ctx, most)
		for due > 0 && ctx.Err() == nil {
			n := ring.fill(s.frames, due, uint64(i)+sent*step, step)
			if err := ring.send(); err != nil {
				return err
			}
			sent += uint64(n)
			due -= n
			s.sent[i].Store(sent * s.burst)
		}
	}
	s.sent[i].Store((sent - ring.waiting()) * s.burst)
	return nil
}

func (s *packetSource) tally() tally { return tally{sent: sum(s.sent)} }

func (*packetSource) mark(bool)            {}
func (*packetSource) add(*bench.Run) error { return nil }
