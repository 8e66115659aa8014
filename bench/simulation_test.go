package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// simulated returns a result of so many arms and rounds. The values scatter by 20 %, and half of
// the variance is common to a round. part scales the throughput, so that 1 is no loss.
func simulated(random *rand.Rand, arms, rounds int, part float64) Result {
	var r Result
	for i := range arms {
		arm := betweenMachines("a", "b")
		arm.Name, arm.Workload.Kind = fmt.Sprint("arm ", i), Stream
		r.Arms = append(r.Arms, arm)
	}
	const noise = 0.2 / math.Sqrt2
	for range rounds {
		all := noise * random.NormFloat64()
		for i := range arms {
			r.Runs = append(r.Runs, Run{Arm: i, Gbps: math.Max(0.01, part*(1+all+noise*random.NormFloat64()))})
		}
	}
	return r
}

// Two results of the same 28 arms are called different in at most 9 of 100 cases, whatever the number of rounds.
func TestSameIsSeldomCalledDifferent(t *testing.T) {
	const trials = 200
	for _, rounds := range []int{6, 8, 12} {
		random := rand.New(rand.NewPCG(23, uint64(rounds)))
		rule := Rule{Metric: "throughput", Below: true, Part: -0.05}
		called, broken := 0, 0
		for range trials {
			c := compareFoldersOf(simulated(random, 28, rounds, 1), simulated(random, 28, rounds, 1), []Rule{rule})
			for _, change := range c.Changes {
				if v := change.Verdict(); v == Worse || v == Better {
					called++
					break
				}
			}
			broken += len(c.Broken)
		}
		if called > trials*9/100 || broken > trials*9/100 {
			t.Errorf("%d rounds: %d of %d pairs of the same called different, %d rules broken", rounds, called, trials, broken)
		}
	}
}

// In one result, 14 arms over VFs are called different from 14 of the same over an overlay in at most 9 of 100 cases: with few
// rounds by ranks, with more by round.
func TestSamePairsAreSeldomCalledDifferent(t *testing.T) {
	const trials, loads = 200, 14
	for _, rounds := range []int{6, 12} {
		random := rand.New(rand.NewPCG(23, uint64(rounds)))
		called, byRound := 0, 0
		for range trials {
			r := simulated(random, 2*loads, rounds, 1)
			for i := range r.Arms {
				r.Arms[i].Workload.Size = 1 + i/2
				r.Arms[i].Path.Network = []string{"overlay", "VF"}[i%2]
			}
			pairs := r.Pairs()
			if len(pairs) != loads {
				t.Fatalf("%d pairs", len(pairs))
			}
			if slices.ContainsFunc(pairs, func(p Pair) bool { return p.Significant() }) {
				called++
			}
			if pairs[0].ByRound {
				byRound++
			}
		}
		if called > trials*9/100 || byRound != map[int]int{6: 0, 12: trials}[rounds] {
			t.Errorf("%d rounds: called different in %d of %d cases, %d by round", rounds, called, trials, byRound)
		}
	}
}

// Thirty rounds find a loss of 15 % in 80 of 100 cases, in one arm and in 28 at once. Hardly any loss passes for
// not worse.
func TestLossIsFound(t *testing.T) {
	for _, arms := range []int{1, 28} {
		trials := 200 / (1 + arms/10)
		random := rand.New(rand.NewPCG(23, uint64(arms)))
		rule := Rule{Metric: "throughput", Below: true, Part: -0.05}
		found, passed := 0, 0
		for range trials {
			c := compareFoldersOf(simulated(random, arms, 30, 1), simulated(random, arms, 30, 0.85), []Rule{rule})
			found, passed = found+len(c.Broken), passed+len(c.Passed)
		}
		if found < trials*8/10 || passed > trials*3/100 {
			t.Errorf("%d arms: found in %d of %d cases, passed in %d", arms, found, trials, passed)
		}
	}
}

// Six rounds of 28 arms cannot show a difference. The answer says so and how many rounds would, and
// that many rounds find the loss in about 80 of 100 cases.
func TestFewRoundsSayHowManyAreNeeded(t *testing.T) {
	random := rand.New(rand.NewPCG(23, 6))
	rule := Rule{Metric: "throughput", Below: true, Part: -0.15}
	c := compareFoldersOf(simulated(random, 28, 6, 1), simulated(random, 28, 6, 0.85), []Rule{rule})
	if len(c.Unclear) != 1 || len(c.Passed)+len(c.Broken) != 0 {
		t.Fatalf("%+v", c)
	}
	for _, change := range c.Changes {
		if n := change.Rounds(-0.15); change.Verdict() != Unclear || change.CanTell() || n < 10 || n > 150 {
			t.Errorf("%s: %s, %d rounds", change.Arm, change.Verdict(), n)
		}
	}
	d := Difference{Spread: 0.2 * 0.93, family: 1} // the second result's own is 0.17
	needed, found := d.Rounds(-0.15), 0
	const trials = 200
	for range trials {
		c := compareFoldersOf(simulated(random, 1, needed, 1), simulated(random, 1, needed, 0.85), nil)
		if c.Changes[0].Verdict() == Worse {
			found++
		}
	}
	if found < trials*70/100 || found > trials*92/100 {
		t.Errorf("%d rounds find it in %d of %d cases", needed, found, trials)
	}
}

// When the arms of a round share its noise, the comparison by round finds a loss that the other one misses.
func TestRoundsAreCompared(t *testing.T) {
	random := rand.New(rand.NewPCG(23, 1))
	var a, b []float64
	for range 12 {
		round := math.Exp(random.NormFloat64())
		a = append(a, 1.1*round*(1+0.01*random.NormFloat64()))
		b = append(b, round)
	}
	judged := func(d Difference) Difference {
		adjustHolm([]*Difference{&d})
		return d
	}
	if d := judged(differByRound(a, b, 1)); !d.ByRound || !d.Significant() || d.Ratio.Low < 1.05 || d.Ratio.High > 1.15 {
		t.Errorf("by round: %+v", d)
	}
	if d := judged(differBy(a, b, 1)); d.Significant() {
		t.Errorf("without rounds: %+v", d)
	}
	if d := differByRound(a[:6], b[:6], 2); d.ByRound {
		t.Errorf("six rounds cannot show one of two differences: %+v", d)
	}
}

// The bounds are those of R's wilcox.test(x, y, conf.int = TRUE), and hold the ratio as often as they say.
func TestRatioBounds(t *testing.T) {
	// All ratios of 4 to 4 values; U below 1 has chance 1/70: the smallest and the largest.
	bounds := func(a, b []float64, chance float64) (low, high float64) {
		return kthFromEnds(ratiosOf(a, b), countsOfRankSum(len(a), len(b)).rankBelow(chance))
	}
	if low, high := bounds([]float64{2, 4, 6, 8}, []float64{1, 1, 1, 2}, 0.05); low != 1 || high != 8 {
		t.Errorf("%g to %g", low, high)
	}
	random := rand.New(rand.NewPCG(23, 2))
	const trials = 2000
	held, signed := 0, 0
	for range trials {
		var a, b, logs []float64
		for range 8 {
			a, b = append(a, 3*math.Exp(random.NormFloat64())), append(b, math.Exp(random.NormFloat64()))
			logs = append(logs, 1+random.NormFloat64())
		}
		if low, high := bounds(a, b, 0.05); low <= 3 && 3 <= high {
			held++
		}
		if low, high := kthFromEnds(averageRatios(logs), countsOfSignedSum(len(logs)).rankBelow(0.05)); math.Log(low) <= 1 && 1 <= math.Log(high) {
			signed++
		}
	}
	for name, n := range map[string]int{"ratio": held, "average": signed} {
		if n < trials*94/100 || n > trials*98/100 {
			t.Errorf("%s: held in %d of %d cases", name, n, trials)
		}
	}
	if low, high := bounds([]float64{1, 2}, []float64{3}, 0.05); !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Errorf("of too few: %g to %g", low, high)
	}
	if low, high := bounds([]float64{0, 1}, []float64{0, 0}, 0.9); math.IsNaN(low) || math.IsNaN(high) {
		t.Errorf("of zeros: %g to %g", low, high)
	}
}

// signedRank has values that R's wilcox.test(paired = TRUE) prints.
func TestSignedRank(t *testing.T) {
	// Hollander and Wolfe 1973, p. 29: depression scores before and after; V = 40, p-value = 0.03906.
	x := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	y := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	var d []float64
	for i := range x {
		d = append(d, x[i]-y[i])
	}
	if p := signedRank(d); math.Abs(p-0.03906) > 5e-5 {
		t.Errorf("p %.5f", p)
	}
	if p := signedRank([]float64{0, 0, 0}); p != 1 {
		t.Errorf("of no difference: p %g", p)
	}
}

// Holm's correction is that of R's p.adjust(p, "holm").
func TestHolm(t *testing.T) {
	all := []*Difference{{P: 0.01}, {P: 0.04}, {P: math.NaN()}, {P: 0.03}, {P: 0.005}}
	adjustHolm(all)
	for i, want := range []float64{0.03, 0.06, 0, 0.06, 0.02} {
		if got := all[i].Adjusted; math.Abs(got-want) > 1e-12 {
			t.Errorf("%d: %g, want %g", i, got, want)
		}
	}
}

// The bounds of a family go with its verdicts: 1 lies within exactly if a difference is not
// significant. It may be a bound where many values are equal. The ratio lies within its bounds.
func TestBoundsGoWithVerdicts(t *testing.T) {
	random := rand.New(rand.NewPCG(23, 7))
	significant, total := 0, 0
	for trial := range 400 {
		rounds, figures := 4+trial%20, 1+trial%9
		var family []*Difference
		for i := range figures {
			var a, b []float64
			for range rounds {
				x, y := 1+0.1*random.NormFloat64(), 1+0.1*float64(i)/4+0.1*random.NormFloat64()
				if trial%4 == 0 { // of few digits
					x, y = math.Round(10*x)/10, math.Round(10*y)/10
				}
				a, b = append(a, x), append(b, y)
			}
			d := differBy(a, b, figures)
			if trial%2 == 1 {
				d = differByRound(a, b, figures)
			}
			family = append(family, &d)
		}
		adjustHolm(family)
		for _, d := range family {
			total++
			if d.Significant() {
				significant++
			}
			isEqual := trial%4 == 0 && (d.Ratio.Low == 1 || d.Ratio.High == 1)
			if outside := d.Ratio.Low > 1 || d.Ratio.High < 1; outside != d.Significant() && !isEqual {
				t.Errorf("%d rounds, %d figures: significant is %t (p %.4f), and the bounds are %g to %g", rounds, figures, d.Significant(), d.Adjusted, d.Ratio.Low, d.Ratio.High)
			}
			if d.Ratio.Value < d.Ratio.Low || d.Ratio.Value > d.Ratio.High {
				t.Errorf("%d rounds: %g is not within %g to %g", rounds, d.Ratio.Value, d.Ratio.Low, d.Ratio.High)
			}
		}
	}
	if significant < total/10 || significant > total*9/10 {
		t.Errorf("%d of %d are significant: the test says little", significant, total)
	}
}

// A rule about seven arms is kept in most cases if nothing changed, since each arm is judged by
// itself. A loss of 6 % in one of them passes a rule of 5 % in at most 5 of 100 cases.
func TestKeptInAllArms(t *testing.T) {
	const trials, arms = 400, 7
	random := rand.New(rand.NewPCG(23, 8))
	rule := Rule{Metric: "throughput", Below: true, Part: -0.05}
	result := func(part float64) Result {
		r := simulated(random, arms, 0, 1)
		for range 6 {
			for i := range arms {
				v := 9 * (1 + 0.015*random.NormFloat64())
				if i == 3 {
					v *= part
				}
				r.Runs = append(r.Runs, Run{Arm: i, Gbps: v})
			}
		}
		return r
	}
	kept, passed := 0, 0
	for range trials {
		kept += len(compareFoldersOf(result(1), result(1), []Rule{rule}).Passed)
		passed += len(compareFoldersOf(result(1), result(0.94), []Rule{rule}).Passed)
	}
	if kept < trials*90/100 || passed > trials*5/100 {
		t.Errorf("of %d: nothing changed and kept %d, a loss of 6 %% passed %d", trials, kept, passed)
	}
}

// The figures that no rule names are a family of their own, so that they take no certainty from
// the named ones.
func TestFamilyOfRules(t *testing.T) {
	was, is := measured(times6(9), times6(200)), measured(times6(8), times6(200))
	alone := compareFoldersOf(measured(times6(9), nil), measured(times6(8), nil), nil).Changes[0].Adjusted
	for _, c := range compareFoldersOf(was, is, []Rule{{Metric: "throughput", Below: true, Part: -0.05}}).Changes {
		if c.Metric.Name == "throughput" && c.Adjusted != alone {
			t.Errorf("p %g beside figures that no rule names, and %g alone", c.Adjusted, alone)
		}
	}
	if got := compareFoldersOf(was, is, nil).Changes[0].Adjusted; got <= alone {
		t.Errorf("p %g of three figures that all count, and %g of one", got, alone)
	}
}
