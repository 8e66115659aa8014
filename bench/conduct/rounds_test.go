package conduct

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/bench"
)

// clock is a clock that moves only when the test sets it.
type clock struct{ time.Time }

func (c *clock) readTime() time.Time { return c.Time }

func arms(names ...string) []bench.Arm {
	var all []bench.Arm
	for _, n := range names {
		all = append(all, bench.Arm{Name: n, Workload: bench.Workload{Kind: bench.Stream}})
	}
	return all
}

// rounds returns the Rounds of arms a and b, whose runs take 10 s each.
func rounds(l Limits, once func(arm, made int) (bench.Run, error)) *Rounds {
	c := &clock{time.Unix(1000, 0)}
	made := 0
	return &Rounds{Arms: arms("a", "b"), Limits: l, Now: c.readTime, Once: func(_ context.Context, arm int) (bench.Run, error) {
		c.Time = c.Add(10 * time.Second)
		made++
		return once(arm, made)
	}}
}

func good(int, int) (bench.Run, error) { return bench.Run{Gbps: 5}, nil }

func TestRoundsAreShuffledAndTheFirstIsDiscarded(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(20) {
		var seen [2]string
		for i := range seen {
			r := rounds(Limits{Repeats: 6, MaxTime: time.Hour}, good)
			r.Seed = seed
			runs, unfinished := r.Run(t.Context())
			if len(runs) != 14 || unfinished != "" {
				t.Fatalf("%d runs, %q", len(runs), unfinished)
			}
			for n, run := range runs {
				seen[i] += r.Arms[run.Arm].Name
				if run.Discard != (n < 2) {
					t.Errorf("run %d: discard is %v", n, run.Discard)
				}
				if n%2 == 1 && run.Arm == runs[n-1].Arm {
					t.Errorf("round %d has one arm twice", n/2)
				}
			}
		}
		if seen[0] != seen[1] {
			t.Errorf("seed %d gives %s and then %s", seed, seen[0], seen[1])
		}
		orders[seen[0]] = true
	}
	if len(orders) < 10 {
		t.Errorf("20 seeds give %d orders", len(orders))
	}
}

func TestRoundsGoOnUntilTheIntervalIsNarrow(t *testing.T) {
	noise := []float64{5, 9, 1, 8, 2, 7, 3}
	r := rounds(Limits{Repeats: 6, Precision: 0.05, MaxTime: 24 * time.Hour}, func(_, made int) (bench.Run, error) {
		if made/2 < len(noise) {
			return bench.Run{Gbps: noise[made/2]}, nil
		}
		return good(0, 0)
	})
	runs, unfinished := r.Run(t.Context())
	if len(runs) <= 14 || len(runs) > 2*mostRounds || unfinished != "" {
		t.Errorf("%d runs, %q", len(runs), unfinished)
	}
}

func TestRoundsEndInTime(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		runs   int
		want   string
	}{
		{Limits{Repeats: 6, MaxTime: 65 * time.Second}, 6, "the time was up"},
		{Limits{Repeats: 2, Precision: 1e-9, MaxTime: 85 * time.Second}, 8, ""}, // enough, and as narrow as there was time for
		{Limits{Repeats: 6, MaxTime: time.Second}, 2, "the time was up"},
	} {
		value := 0.0
		r := rounds(c.limits, func(int, int) (bench.Run, error) { value++; return bench.Run{Gbps: value}, nil })
		runs, unfinished := r.Run(t.Context())
		if len(runs) != c.runs || !strings.Contains(unfinished, c.want) || c.want == "" && unfinished != "" {
			t.Errorf("%+v: %d runs, %q; want %d, %q", c.limits, len(runs), unfinished, c.runs, c.want)
		}
	}
}

// A void run is made again at most twice. An arm whose runs are always void is given up, and the
// other arms go on.
func TestVoidRunsAreMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		void     func(made int) bool // of a's runs
		runs     int                 // of a
		want     string
		goodRuns int
	}{
		"once":     {func(n int) bool { return n == 3 }, 8, "", 6},
		"a round":  {func(n int) bool { return n >= 4 && n <= 6 }, 10, "", 6},
		"always":   {func(int) bool { return true }, 4, "a was void 3 times in a row: lost", 0},
		"from now": {func(n int) bool { return n > 4 }, 10, "a was void 3 times in a row: lost", 3},
	} {
		count := 0
		r := rounds(Limits{Repeats: 6, MaxTime: time.Hour}, func(arm, _ int) (bench.Run, error) {
			if arm != 0 {
				return good(0, 0)
			}
			if count++; c.void(count) {
				return bench.Run{Void: "lost"}, nil
			}
			return good(0, 0)
		})
		runs, unfinished := r.Run(t.Context())
		all, counted := [2]int{}, [2]int{}
		for _, run := range runs {
			all[run.Arm]++
			if !run.Discard && run.Void == "" {
				counted[run.Arm]++
			}
		}
		if all[0] != c.runs || counted[0] != c.goodRuns || counted[1] < 6 || unfinished != c.want {
			t.Errorf("%s: %d runs of a, %d count, %d of b; %q", name, all[0], counted[0], counted[1], unfinished)
		}
	}
}

func TestRoundsEndAtAnError(t *testing.T) {
	r := rounds(Limits{Repeats: 6, MaxTime: time.Hour}, func(_, made int) (bench.Run, error) {
		if made == 5 {
			return bench.Run{Gbps: 1}, errors.New("the receiver is gone")
		}
		return good(0, 0)
	})
	runs, unfinished := r.Run(t.Context())
	if len(runs) != 4 || !strings.Contains(unfinished, "the receiver is gone") {
		t.Errorf("%d runs, %q", len(runs), unfinished)
	}
	ctx, stop := context.WithCancel(t.Context())
	r = rounds(Limits{Repeats: 6, MaxTime: time.Hour}, func(_, made int) (bench.Run, error) {
		if made == 5 {
			stop() // and the run says nothing of it
		}
		return good(0, 0)
	})
	if runs, unfinished = r.Run(ctx); len(runs) != 4 || unfinished != "it was interrupted" {
		t.Errorf("%d runs, %q", len(runs), unfinished)
	}
}

// For any sequence of void runs, a result that is not marked unfinished has all its repeats, and no
// arm is tried for ever.
func TestRoundsAreHonest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		voids := rapid.SliceOfN(rapid.Bool(), 1, 60).Draw(t, "voids")
		repeats := rapid.IntRange(1, 8).Draw(t, "repeats")
		next := 0
		r := rounds(Limits{Repeats: repeats, MaxTime: time.Hour}, func(int, int) (bench.Run, error) {
			next++
			run := bench.Run{Gbps: 1}
			if voids[next%len(voids)] {
				run.Void = "drawn"
			}
			return run, nil
		})
		runs, unfinished := r.Run(context.Background())
		for arm := range r.Arms {
			counted := len(slices.DeleteFunc(slices.Clone(runs), func(run bench.Run) bool { return run.Arm != arm || run.Discard || run.Void != "" }))
			if counted < repeats && unfinished == "" {
				t.Errorf("%d of %d repeats of arm %d, and finished", counted, repeats, arm)
			}
		}
		if len(runs) > 400 {
			t.Errorf("%d runs", len(runs))
		}
	})
}

func TestTimeLeftIsThatOfTheRoundsToCome(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	var told []time.Duration
	r := &Rounds{Arms: arms("a", "b"), Limits: Limits{Repeats: 2, MaxTime: time.Hour}, Now: c.readTime}
	r.Once = func(context.Context, int) (bench.Run, error) {
		round := len(told) / 2
		told = append(told, r.timeLeft(round))
		took := 10 * time.Second
		if round == 0 { // a first round is slow: everything is cold
			took = 40 * time.Second
		}
		c.Time = c.Add(took)
		return bench.Run{Gbps: 5}, nil
	}
	r.Run(t.Context())
	const s = time.Second
	if want := []time.Duration{0, 0, 160 * s, 150 * s, 20 * s, 10 * s}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
