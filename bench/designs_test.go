package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// In the simulations below each arm has an effect of its own in each result, or each time that a side
// is set up. Runs scatter besides, and a round has an effect that all its runs share.
const (
	betweenScatter = 0.02
	withinScatter  = 0.04
	roundScatter   = 0.03
)

// design is a way to compare, with a number of values of each side.
type design struct {
	title   string
	compare func(random *rand.Rand, arms int, change func(arm int) float64, rules []Rule) Against
}

// simulatedRuns returns the values of so many runs of each arm of a result, with an effect of the
// result on each arm.
func simulatedRuns(random *rand.Rand, arms, runs int, change func(arm int) float64) [][]float64 {
	values, effects := make([][]float64, arms), make([]float64, arms)
	for i := range effects {
		effects[i] = change(i) * math.Exp(betweenScatter*random.NormFloat64())
	}
	for range runs {
		round := math.Exp(roundScatter * random.NormFloat64())
		for i := range arms {
			values[i] = append(values[i], 9*effects[i]*round*math.Exp(withinScatter*random.NormFloat64()))
		}
	}
	return values
}

// observed returns a result that has one value of each arm.
func observed(arms []Arm, value func(arm int) float64) Observation {
	o := Observation{Arms: arms}
	for i := range arms {
		o.values = append(o.values, map[string][]float64{"throughput": {value(i)}})
	}
	return o
}

// simulatedSides returns an A/B measurement. Each set-up of a side in a round has an effect of its own
// on each arm.
func simulatedSides(random *rand.Rand, arms, rounds int, change func(arm int) float64) Result {
	r := asSides(simulated(random, arms, 0, 1), simulated(random, arms, 0, 1))
	for range rounds {
		round := math.Exp(roundScatter * random.NormFloat64())
		for i := range r.Arms {
			part := 1.0
			if i >= arms {
				part = change(i - arms)
			}
			setUp := math.Exp(betweenScatter * random.NormFloat64())
			r.Runs = append(r.Runs, Run{Arm: i, Gbps: 9 * part * setUp * round * math.Exp(withinScatter*random.NormFloat64())})
		}
	}
	return r
}

func unchanged(int) float64 { return 1 }

// bySingles compares the runs of two results, as compare did before it judged nothing between two
// results.
func bySingles(runs int) design {
	return design{fmt.Sprintf("two results of %d runs", runs), func(random *rand.Rand, arms int, change func(int) float64, rules []Rule) Against {
		var folders [2][]Observation
		named := simulated(random, arms, 0, 1).Arms
		for side, of := range []func(int) float64{unchanged, change} {
			values := simulatedRuns(random, arms, runs, of)
			for n := range runs {
				folders[side] = append(folders[side], observed(named, func(arm int) float64 { return values[arm][n] }))
			}
		}
		return CompareFolders(folders[0], folders[1], rules)
	}}
}

func byFolders(results int) design {
	return design{fmt.Sprintf("folders of %d results", results), func(random *rand.Rand, arms int, change func(int) float64, rules []Rule) Against {
		var folders [2][]Observation
		named := simulated(random, arms, 0, 1).Arms
		for side, of := range []func(int) float64{unchanged, change} {
			for range results {
				values := simulatedRuns(random, arms, 10, of)
				folders[side] = append(folders[side], observed(named, func(arm int) float64 { return Median(values[arm]) }))
			}
		}
		return CompareFolders(folders[0], folders[1], rules)
	}}
}

func bySides(rounds int) design {
	return design{fmt.Sprintf("`--ab` of %d rounds", rounds), func(random *rand.Rand, arms int, change func(int) float64, rules []Rule) Against {
		return CompareSides(simulatedSides(random, arms, rounds, change), rules)
	}}
}

// outcomes are how often a comparison called something a change, and how often a rule was broken and
// kept, in percent.
type outcomes struct{ called, broken, kept int }

// simulateDesign compares as often as trials says, in the same order of random numbers each time.
func simulateDesign(d design, trials, arms int, change func(arm int) float64) (o outcomes) {
	random := rand.New(rand.NewPCG(44, uint64(len(d.title)*1000+arms)))
	rules := []Rule{{Metric: "throughput", Below: true, Part: -0.05}}
	for range trials {
		a := d.compare(random, arms, change, rules)
		for _, c := range a.Changes {
			if v := c.Verdict(); v == Worse || v == Better {
				o.called++
				break
			}
		}
		o.broken, o.kept = o.broken+len(a.Broken), o.kept+len(a.Passed)
	}
	part := func(n int) int { return int(math.Round(100 * float64(n) / float64(trials))) }
	return outcomes{part(o.called), part(o.broken), part(o.kept)}
}

// onArm returns a change of one arm.
func onArm(arm int, part float64) func(int) float64 {
	return func(i int) float64 {
		if i == arm {
			return part
		}
		return 1
	}
}

// TestDesigns holds the rates of docs/bench.md: results differ by 2 % beside the scatter of their
// runs. Two single results are then called different far too often, the more runs they have. Sides
// and folders are called different in about 5 of 100 cases, and find what there is.
func TestDesigns(t *testing.T) {
	const trials = 400
	page, err := os.ReadFile("../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, d := range []design{bySingles(10), bySingles(20), byFolders(6), byFolders(12), bySides(12), bySides(24)} {
		same := simulateDesign(d, 3*trials, 1, unchanged)
		seven := simulateDesign(d, trials, 7, unchanged)
		small, large := simulateDesign(d, trials, 7, onArm(3, 0.94)), simulateDesign(d, trials, 7, onArm(3, 0.85))
		tenfold := simulateDesign(d, trials/4, 7, onArm(3, 0.1))
		rows = append(rows, fmt.Sprintf("| %s | %d %% | %d %% | %d %% | %d %% | %d %% | %d %% |",
			d.title, same.called, seven.called, seven.kept, small.kept, large.broken, tenfold.broken))
		isSingle := strings.HasPrefix(d.title, "two")
		// A design that calls a change in 5 % of its cases reaches 9 % of 400 cases in fewer than 1 of 1000 simulations.
		if isSingle != (same.called > 9) || isSingle != (seven.called > 9) {
			t.Errorf("%s: nothing changed, and %d %% of one arm and %d %% of seven are called a change", d.title, same.called, seven.called)
		}
		if !isSingle && (small.kept > 8 || tenfold.broken != 100) {
			t.Errorf("%s: a loss of 6 %% is kept in %d %%, and a tenfold one is broken in %d %%", d.title, small.kept, tenfold.broken)
		}
	}
	for _, row := range rows {
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("docs/bench.md does not have:\n%s", strings.Join(rows, "\n"))
			break
		}
	}
}

// TestEffectsAreEstimated: the estimate of a known change lies within its bounds about as often as
// they say, by sides and by folders.
func TestEffectsAreEstimated(t *testing.T) {
	const trials = 300
	for _, d := range []design{byFolders(6), bySides(12)} {
		random := rand.New(rand.NewPCG(44, 3))
		held := 0
		for range trials {
			c := d.compare(random, 1, onArm(0, 0.8), nil).Changes[0]
			if c.Ratio.Low <= 0.8 && 0.8 <= c.Ratio.High {
				held++
			}
		}
		if held < trials*91/100 {
			t.Errorf("%s: the bounds hold the change in %d of %d cases", d.title, held, trials)
		}
	}
}
