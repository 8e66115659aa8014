package engine

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// packetSource sends frames from as many threads as the workload has streams, each with
// an outlet of its own.
type packetSource struct {
	frames  *frames
	outlets []outlet
	burst   uint64    // frames in a slot of an outlet
	rate    float64   // slots a second of each outlet; 0: as many as go
	sent    []counter // by outlet
}

// outlet has slots for frames, and sends the frames in them.
type outlet interface {
	// fillSlots writes at most n frames into free slots, the first of them frame number first and the
	// others each step later, and returns how many slots were free.
	fillSlots(f *frames, n int, first, step uint64) int
	// sendFilled hands the frames of filled slots to the interface. Frames for which the interface
	// has no room stay in their slots until a later call, and sendFilled waits for a moment.
	sendFilled() error
	// countWaiting returns how many slots were filled and have not been sent.
	countWaiting() uint64
	close() error
}

// newPacketSource opens the outlets on the calling thread. The caller closes it.
func newPacketSource(r route, session uint64, w bench.Workload) (*packetSource, error) {
	f, err := newFrames(r, session, w)
	if err != nil {
		return nil, err
	}
	s := &packetSource{frames: f, burst: uint64(w.Burst), rate: w.Rate / float64(w.Streams*w.Burst), sent: make([]counter, w.Streams)}
	for i := range w.Streams {
		o, err := newOutlet(r, f, w.AFXDP, i)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.outlets = append(s.outlets, o)
	}
	return s, nil
}

// newOutlet returns the outlet of stream i.
func newOutlet(r route, f *frames, afXDP bool, i int) (outlet, error) {
	if afXDP {
		return newXDP(r, f, i)
	}
	return newRing(r, f)
}

func (s *packetSource) close() error {
	var errs []error
	for _, o := range s.outlets {
		errs = append(errs, o.close())
	}
	return errors.Join(errs...)
}

func (s *packetSource) carryTraffic(ctx context.Context) error {
	var g errgroup.Group
	for i, o := range s.outlets {
		g.Go(func() error {
			defer wakePrecisely()()
			if err := s.sendFrames(ctx, o, i); err != nil {
				return reportEarlyEnd(ctx, fmt.Errorf("thread %d of %d: %w", i+1, len(s.outlets), err))
			}
			return nil
		})
	}
	return g.Wait()
}

// sendFrames sends frames until ctx ends. Outlet i sends every frame whose number is i more than a
// multiple of the number of outlets.
func (s *packetSource) sendFrames(ctx context.Context, o outlet, i int) error {
	const most = ringSlots / 4 // of slots for one call
	schedule := pace{rate: s.rate}
	step, sent := uint64(len(s.outlets)), uint64(0)
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

func (s *packetSource) nameMechanism() (by bench.Mechanism) {
	if o, has := s.outlets[0].(mechanical); has {
		by = o.nameMechanism()
	}
	return by
}

func (s *packetSource) readTally() tally { return tally{sent: sumCounters(s.sent)} }

func (*packetSource) markWindow(bool)             {}
func (*packetSource) addFigures(*bench.Run) error { return nil }
