package conduct

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
)

// restTime is how long the agents watch their machines while nothing is measured: a hundred ticks
// of each processor.
const restTime = time.Second

// Rest watches all machines while nothing is measured, and keeps how busy they are. The costs of the runs
// after it do not include that load.
func (x *Exchange) Rest(ctx context.Context) error {
	var mu sync.Mutex // guards background
	background := map[string]float64{}
	watched := map[string]bool{}
	g, all := errgroup.WithContext(ctx)
	for _, s := range x.Stations {
		if watched[s.kernelName()] {
			continue
		}
		watched[s.kernelName()] = true
		g.Go(func() error {
			run, err := (&side{Station: s}).watchRest(all)
			if err != nil {
				return err
			}
			if c := run.From.CPU; run.Void == "" && c.Seconds > 0 {
				mu.Lock()
				defer mu.Unlock()
				background[s.kernelName()] = c.Total() / c.Seconds
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("see how busy the machines are of themselves: %w", err)
	}
	x.background = background
	return nil
}

func (s *side) watchRest(ctx context.Context) (run bench.Run, err error) {
	// It opens at once, by the station's own clock.
	s.part, err = s.Agent.Watch(ctx, agent.Task{}, agent.Window{In: 1, Closes: restTime})
	if err != nil {
		return run, s.wrapError(err)
	}
	err = s.finishPart(ctx, &run)
	return run, err
}

// addBackground adds to the evidence of a run how busy the station's machine was before the round.
func (x *Exchange) addBackground(s *Station, e *bench.Evidence) {
	if busy, known := x.background[s.nearPF().kernelName()]; known {
		e.CPU.Background = &busy
	}
	if busy, known := x.background[s.kernelName()]; known && e.Guest != nil {
		e.Guest.Background = &busy
	}
}
