package conduct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/bench"
)

// errPulled is the error of a cable that could not be plugged in again.
var errPulled = errors.New("the cable is still pulled")

// A cable is pulled when pulledAt of the window has passed, until pluggedAt.
const (
	pulledAt  = 0.3
	pluggedAt = 0.5
)

// pullCable pulls the cable in the middle of a run and plugs it in again, also after an error.
func (x *Exchange) pullCable(ctx context.Context, a bench.Arm, s *side) (err error) {
	if _, err := s.part.Window(ctx); err != nil {
		return s.wrapError(err)
	}
	second := func(n float64) error { return pauseFor(ctx, time.Duration(n*float64(time.Second))) }
	if err := second(a.Workload.Warmup + pulledAt*a.Workload.Seconds); err != nil {
		return err
	}
	defer func() {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if plugged := x.Cable(again, a.Path.From, true); plugged != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s of %s: %w", errPulled, a.Path.From.Interface, a.Path.From.Name, plugged))
		}
	}()
	if err := x.Cable(ctx, a.Path.From, false); err != nil {
		return fmt.Errorf("pull the cable: %w", err)
	}
	return second((pluggedAt - pulledAt) * a.Workload.Seconds)
}

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pulledArms notes the throughput of arms with a pulled cable, from the least of their runs to the most.
func pulledArms(r bench.Result) (notes []string) {
	for i, a := range r.Arms {
		runs := r.Counted(i)
		if !a.Workload.Pulled || len(runs) == 0 {
			continue
		}
		var before, while, after []float64
		for _, run := range runs {
			b, w, f := Pulled(run)
			before, while, after = append(before, b), append(while, w), append(after, f)
		}
		reach := func(all []float64) string {
			least, most := bench.Number(slices.Min(all)), bench.Number(slices.Max(all))
			if least == most {
				return least
			}
			return least + " to " + most
		}
		notes = append(notes, fmt.Sprintf("%s: %s Gb/s before the cable was pulled, %s while it was, %s after it was plugged in again",
			a.Name, reach(before), reach(while), reach(after)))
	}
	return notes
}

// Pulled returns the mean rates of a run before its cable was pulled, while it was pulled, and
// after it was plugged in again. They are in the unit of the run's series. A step of the series at
// an edge counts for neither side.
func Pulled(run bench.Run) (before, while, after float64) {
	n := float64(len(run.Series))
	mean := func(from, to float64) float64 {
		sum, count := 0.0, 0
		for i, v := range run.Series {
			if float64(i) >= from*n && float64(i+1) <= to*n {
				sum, count = sum+v, count+1
			}
		}
		return sum / float64(max(count, 1))
	}
	const edge = 0.1
	return mean(0, pulledAt), mean(pulledAt+edge, pluggedAt), mean(pluggedAt+edge, 1)
}
