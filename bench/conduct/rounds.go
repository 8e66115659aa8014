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
	// Repeats is the least number of counted runs of each arm.
	Repeats int
	// Precision is how far the interval of an arm's median may reach to either side, as a part of
	// the median: 0.05 is 5 %. If it is 0, only Repeats decides.
	Precision float64
	// MaxTime bounds all rounds: after the first two, no round begins that would probably end
	// later.
	MaxTime time.Duration
	// Rough saves time and makes figures less certain: there is no warm-up round, and the bounds of
	// the paths are not measured.
	Rough bool
}

// mostRounds bounds the rounds that Precision asks for, where MaxTime does not.
const mostRounds = 100

// Rounds makes runs in rounds, each with every arm once, in an order that seed
// decides. The first round, 0, warms up and counts for nothing; rough ones begin with 1. Its
// methods are not for concurrent use.
type Rounds struct {
	Arms   []bench.Arm
	Limits Limits
	Seed   uint64
	// Once makes one run of an arm. A run that proves nothing is void; an error
	// means that no more runs can be made.
	Once func(ctx context.Context, arm int) (bench.Run, error)
	// Blocks are the arms that are measured together, as indices, in an order of blocks that the seed
	// decides in each round. None: all arms are one block. SetUp is called before each block; it may be
	// nil.
	Blocks [][]int
	SetUp  func(ctx context.Context, block int) error
	// Rest is called before each block. An error means that no more runs can be made. It may be nil.
	Rest     func(ctx context.Context) error
	Progress *Progress        // may be nil
	Now      func() time.Time // with a monotonic clock, as time.Now

	runs   []bench.Run
	states []state
	start  time.Time
	began  time.Time     // of this round
	last   time.Duration // the length of the round before
}

// state has the progress of an arm.
type state struct {
	figures []float64
	lost    int    // rounds in a row that were void
	gaveUp  string // why there are no more runs of it
}

// Run makes the runs. Also after an error it returns the runs that were made, in their order.
// unfinished is the reason why there are fewer than Limits ask for, or "" if there are not.
func (r *Rounds) Run(ctx context.Context) (runs []bench.Run, unfinished string) {
	r.states, r.start = make([]state, len(r.Arms)), r.Now()
	random := rand.New(rand.NewPCG(r.Seed, 0)) //nolint:gosec // a seed repeats the order of runs
	first, blocks := 0, r.Blocks
	if r.Limits.Rough {
		first = 1
	}
	if blocks == nil {
		blocks = [][]int{upTo(len(r.Arms))}
	}
	for round := first; ; round++ {
		if why, enough := r.isEnough(round); enough {
			return r.runs, why
		}
		r.began = r.Now()
		for _, block := range random.Perm(len(blocks)) {
			if err := r.measureBlock(ctx, random, round, block, blocks[block]); err != nil {
				return r.runs, explainEnd(ctx, err)
			}
		}
		r.last = r.Now().Sub(r.began)
	}
}

// measureBlock sets a block up, and measures its arms in shuffled order.
func (r *Rounds) measureBlock(ctx context.Context, random *rand.Rand, round, block int, arms []int) error {
	if r.SetUp != nil {
		if err := r.SetUp(ctx, block); err != nil {
			return err
		}
	}
	if r.Rest != nil {
		if err := r.Rest(ctx); err != nil {
			return err
		}
	}
	for _, i := range random.Perm(len(arms)) {
		if r.states[arms[i]].gaveUp != "" {
			continue
		}
		if err := r.repeatArm(ctx, arms[i], round); err != nil {
			return err
		}
	}
	return nil
}

// upTo returns 0 to n-1.
func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// explainEnd says why the runs ended early.
func explainEnd(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return "it was interrupted"
	}
	return err.Error()
}

// repeatArm makes one run of an arm that counts, or finds that it cannot.
func (r *Rounds) repeatArm(ctx context.Context, arm, round int) error {
	if round == 0 && r.Arms[arm].Workload.ByHand { // it would cost a person more than it warms up
		return nil
	}
	s := &r.states[arm]
	for try := 1; ; try++ {
		r.Progress.beginRun(r.Arms[arm], s.figures, round, r.timeLeft(round))
		began := r.Now().Sub(r.start)
		run, err := r.Once(ctx, arm)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s: %w", r.Arms[arm].Name, err)
		}
		run.Arm, run.Discard, run.Started = arm, round == 0, r.start.Add(began)
		r.runs = append(r.runs, run)
		r.Progress.endRun(r.Arms[arm], run)
		switch {
		case round == 0:
			return nil
		case run.Void == "":
			s.figures, s.lost = append(s.figures, r.Arms[arm].Main().Of(r.Arms[arm], run)), 0
			return nil
		case try < bench.Tries:
			continue
		}
		if s.lost++; s.lost > 1 || len(s.figures) == 0 {
			s.gaveUp = run.Void
		}
		return nil
	}
}

// isEnough reports whether no round is to follow. unfinished is the reason if that is too early.
func (r *Rounds) isEnough(round int) (unfinished string, enough bool) {
	if round == 0 {
		return "", len(r.Arms) == 0
	}
	var why []string
	missing, coarse, going := false, false, false
	for i, s := range r.states {
		if s.gaveUp != "" {
			why = append(why, fmt.Sprintf("%s was void %d times in a row: %s", r.Arms[i].Name, bench.Tries, s.gaveUp))
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

// timeLeft returns how long this round and the remaining ones will take, if each takes as long as
// the one before. In the first round that is not known.
func (r *Rounds) timeLeft(round int) time.Duration {
	if round == 0 {
		return 0
	}
	rounds := 1 + max(0, r.Limits.Repeats-round)
	return max(0, time.Duration(rounds)*r.last-r.Now().Sub(r.began))
}
