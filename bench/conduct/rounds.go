package conduct

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
)

// Limits say when there are enough runs.
type Limits struct {
	// Repeats are counted of each arm at least.
	Repeats int
	// Precision is how far the interval of an arm's median may reach to either side,
	// as a part of it: 0.05 is 5 %. 0 takes Repeats alone.
	Precision float64
	// MaxTime bounds it all: no round begins that would probably end later, but the first two.
	MaxTime time.Duration
	// Rough leaves out what makes figures sure and takes time: the round that warms up, and what no
	// path can be above.
	Rough bool
}

// mostRounds bounds the rounds that Precision asks for, where MaxTime does not.
const mostRounds = 100

// tries are how often a run is made that is void.
const tries = 3

// Rounds makes runs in rounds, each with every arm once, in an order that seed
// decides. The first round, 0, warms up and counts for nothing; rough ones begin with 1. Its
// methods are not for concurrent use.
type Rounds struct {
	Arms   []bench.Arm
	Limits Limits
	Seed   uint64
	// Once makes one run of an arm. A run that proves nothing is void; an error
	// means that no more runs can be made.
	Once     func(ctx context.Context, arm int) (bench.Run, error)
	Progress *Progress        // may be nil
	Now      func() time.Time // with a monotonic clock, as time.Now

	runs   []bench.Run
	states []state
	start  time.Time
	began  time.Time     // of this round
	last   time.Duration // what the round before took
}

// state is how far an arm is.
type state struct {
	figures []float64
	lost    int    // rounds in a row that were void
	gaveUp  string // why there are no more runs of it
}

// Run makes the runs. It returns those that were made in any case, in their order;
// unfinished says why there are not as many as Limits ask for, and is empty else.
func (r *Rounds) Run(ctx context.Context) (runs []bench.Run, unfinished string) {
	r.states, r.start = make([]state, len(r.Arms)), r.Now()
	random := rand.New(rand.NewPCG(r.Seed, 0)) //nolint:gosec // a seed repeats the order of runs
	first := 0
	if r.Limits.Rough {
		first = 1
	}
	for round := first; ; round++ {
		if why, enough := r.enough(round); enough {
			return r.runs, why
		}
		r.began = r.Now()
		for _, arm := range random.Perm(len(r.Arms)) {
			if r.states[arm].gaveUp != "" {
				continue
			}
			if err := r.repeat(ctx, arm, round); err != nil {
				return r.runs, reason(ctx, err)
			}
		}
		r.last = r.Now().Sub(r.began)
	}
}

// reason says why the runs ended early.
func reason(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return "it was interrupted"
	}
	return err.Error()
}

// repeat makes one run of an arm that counts, or finds that it cannot.
func (r *Rounds) repeat(ctx context.Context, arm, round int) error {
	s := &r.states[arm]
	for try := 1; ; try++ {
		r.Progress.begin(r.Arms[arm], s.figures, round, r.left(round))
		began := r.Now().Sub(r.start)
		run, err := r.Once(ctx, arm)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s: %w", r.Arms[arm].Name, err)
		}
		run.Arm, run.Discard, run.Started = arm, round == 0, r.start.Add(began)
		r.runs = append(r.runs, run)
		r.Progress.ended(r.Arms[arm], run)
		switch {
		case round == 0:
			return nil
		case run.Void == "":
			s.figures, s.lost = append(s.figures, r.Arms[arm].Main().Of(r.Arms[arm], run)), 0
			return nil
		case try < tries:
			continue
		}
		if s.lost++; s.lost > 1 || len(s.figures) == 0 {
			s.gaveUp = run.Void
		}
		return nil
	}
}

// enough says whether no round is to follow, and if so why that is too early.
func (r *Rounds) enough(round int) (unfinished string, enough bool) {
	if round == 0 {
		return "", len(r.Arms) == 0
	}
	var why []string
	missing, coarse, going := false, false, false
	for i, s := range r.states {
		if s.gaveUp != "" {
			why = append(why, fmt.Sprintf("%s was void %d times in a row: %s", r.Arms[i].Name, tries, s.gaveUp))
			continue
		}
		going = true
		missing = missing || len(s.figures) < r.Limits.Repeats
		coarse = coarse || r.Limits.Precision > 0 && !bench.Estimate(s.figures).Within(r.Limits.Precision)
	}
	late := r.Now().Sub(r.start)+r.last > r.Limits.MaxTime
	switch {
	case going && missing && late:
		why = append(why, fmt.Sprintf("the time was up: %d repeats of each arm take longer than %s: give it more with --max-time, or measure fewer paths with --path", r.Limits.Repeats, r.Limits.MaxTime))
	case going && missing, going && coarse && !late && round <= mostRounds:
		return "", false
	}
	return strings.Join(why, "; "), true
}

// left is how long this round and those after it that are asked for will take, if
// each takes as long as the one before. Nobody knows in the first one.
func (r *Rounds) left(round int) time.Duration {
	if round == 0 {
		return 0
	}
	rounds := 1 + max(0, r.Limits.Repeats-round)
	return max(0, time.Duration(rounds)*r.last-r.Now().Sub(r.began))
}
