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
		o, err := newRing(r, f)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.rings = append(s.rings, o)
	}
	return s, nil
}

func (s *packetSource) close() error {
	var errs []error
	for _, o := range s.rings {
		errs = append(errs, o.close())
	}
	return errors.Join(errs...)
}

func (s *packetSource) carryTraffic(ctx context.Context) error {
	var g errgroup.Group
	for i, o := range s.rings {
		g.Go(func() error {
			defer wakePrecisely()()
			if err := s.sendFrames(ctx, o, i); err != nil {
				return reportEarlyEnd(ctx, fmt.Errorf("thread %d of %d: %w", i+1, len(s.rings), err))
			}
			return nil
		})
	}
	return g.Wait()
}

// sendFrames sends frames until ctx ends. Ring i sends every frame whose number is i more than a
// multiple of the number of rings.
func (s *packetSource) sendFrames(ctx context.Context, o *ring, i int) error {
	const most = ringSlots / 4 // of slots for one call
	schedule := pace{rate: s.rate}
	step, sent := uint64(len(s.rings)), uint64(0)
	for ctx.Err() == nil {
		due := schedule.nextDue(ctx, most)
		for due > 0 && ctx.Err() == nil {
			n := o.fillSlots(s.frames, due, uint64(i)+sent*step, step)
			if err := o.sendFilled(); err != nil {
				return err
			}
			sent += uint64(n)
			due -= n
			s.sent[i].Store(sent * s.burst)
		}
	}
	s.sent[i].Store((sent - o.countWaiting()) * s.burst)
	return nil
}

func (s *packetSource) nameMechanism() bench.Mechanism { return s.rings[0].by }

func (s *packetSource) readTally() tally { return tally{sent: sumCounters(s.sent)} }

func (*packetSource) markWindow(bool)             {}
func (*packetSource) addFigures(*bench.Run) error { return nil }
