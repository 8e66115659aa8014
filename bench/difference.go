package bench

import (
	"cmp"
	"math"
	"slices"
)

// Confidence is the confidence of every interval. A difference with a P below 1 - Confidence is
// significant. Comparisons that are made together share that probability.
const Confidence = 0.95

// Estimate returns the median of values. Its bounds are two of the values, between which the median
// of any distribution lies in at least 95 of 100 cases: the k-th from each end, for the largest k
// at which a fair coin thrown n times shows fewer than k heads in at most 2.5 of 100 cases (Conover
// 1999, section 3.2). Fewer than six values cannot bound the median, so that the bounds are
// infinite. Without values all three are NaN.
func Estimate(values []float64) Interval {
	i := Interval{Value: Median(values), Low: math.Inf(-1), High: math.Inf(1)}
	n := len(values)
	if n == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	k, fewer := 0, 0.0
	for chance := math.Pow(0.5, float64(n)); fewer+chance <= (1-Confidence)/2; k++ {
		fewer += chance
		chance *= float64(n-k) / float64(k+1)
	}
	if k > 0 {
		sorted := slices.Sorted(slices.Values(values))
		i.Low, i.High = sorted[k-1], sorted[n-k]
	}
	return i
}

// Within reports whether the interval reaches at most part of its value to either
// side: 0.02 is 2 %. A measurement with a wanted precision repeats its runs until its medians are
// within that part.
func (i Interval) Within(part float64) bool {
	half := math.Max(i.High-i.Value, i.Value-i.Low)
	return half <= part*math.Abs(i.Value) // false for NaN and infinity
}

// Difference is the outcome of the comparison of two samples.
type Difference struct {
	// Ratio is an estimate of the ratio of the two populations (Hodges and Lehmann 1963): the median
	// of the ratios of all pairs, or, by round, of the averages of all pairs of rounds, on
	// logarithms. Its bounds are those ratios that the test behind P does not reject at the
	// chance that Holm's correction leaves to this comparison, so that 1 is outside exactly if the
	// difference is significant. Samples that are too small to have bounds have infinite ones.
	Ratio Interval
	// Alone has bounds of the same ratio of which each, by itself and without regard to the
	// family, errs in at most 1 - Confidence of all cases.
	Alone Interval
	// P is the two-sided probability of a difference as clear as this one if there is none.
	// Adjusted is P corrected for the number of differences in the family (Holm 1979).
	P, Adjusted float64
	// Effect is Cliff's delta, -1 to 1: of all pairs with one value of each sample, the part in
	// which the first is larger, minus the part in which it is smaller. It needs no unit and
	// assumes no distribution. At 1 and -1 the samples do not overlap.
	Effect float64
	N      [2]int // values in each
	// Spread is the standard deviation within the samples, as a part of their means. If the values
	// are of the same rounds, it is that of the rounds' ratios, divided by the root of 2.
	Spread float64
	// ByRound reports whether each value of the one sample was compared with the other's of the
	// same round, by Wilcoxon's signed ranks. Otherwise it was Mann and Whitney's U.
	ByRound bool
	// family is the number of figures that are compared in all.
	family int
	// sameRounds reports whether each value of the one sample has one of the other's of its round.
	sameRounds bool
	// ratios are the ratios of all pairs, in order, and counts the number of ways in which the
	// test's statistic takes each value.
	ratios []float64
	counts rankCounts
}

// Differ compares two samples. If a sample is empty, the figures of the Difference are NaN.
func Differ(a, b []float64) Difference {
	d := differBy(a, b, 1)
	adjustHolm([]*Difference{&d})
	return d
}

// differBy compares two samples as one comparison of a family of that size. adjustHolm of the
// family sets Adjusted and the bounds of Ratio.
func differBy(a, b []float64, family int) Difference {
	d := newDifference(a, b, family)
	if len(a) > 0 && len(b) > 0 {
		d.P = mannWhitney(a, b)
		d.estimateRatio(ratiosOf(a, b), countsOfRankSum(len(a), len(b)))
	}
	return d
}

// differByRound compares samples whose values of one index were measured in one round. A
// disturbance of a whole round affects both values and cancels out. differByRound needs more
// rounds than [differBy] to show a difference at all. With fewer it calls differBy, which is then
// more sensitive, and errs on the safe side if the values of a round are correlated.
func differByRound(a, b []float64, family int) Difference {
	d := differPaired(a, b, family)
	if d.ByRound && leastChanceByRound(len(a)) >= d.chanceLeft() {
		spread := d.Spread
		d = differBy(a, b, family)
		d.sameRounds, d.Spread = true, spread
	}
	return d
}

// differPaired compares samples by round, however few rounds there are. Only values of 0, which have
// no ratio, make it call differBy.
func differPaired(a, b []float64, family int) Difference {
	d := newDifference(a, b, family)
	logs := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		if a[i] > 0 && b[i] > 0 {
			logs = append(logs, math.Log(a[i]/b[i]))
		}
	}
	if len(logs) == 0 || len(logs) != len(a) || len(a) != len(b) {
		return differBy(a, b, family)
	}
	d.ByRound, d.sameRounds = true, true
	d.P = signedRank(logs)
	d.estimateRatio(averageRatios(logs), countsOfSignedSum(len(logs)))
	d.Spread = deviation(logs) / math.Sqrt2
	return d
}

// newDifference returns the Difference without the parts that depend on the test.
func newDifference(a, b []float64, family int) Difference {
	nan := math.NaN()
	none := Interval{nan, nan, nan}
	d := Difference{Ratio: none, Alone: none, P: nan, Adjusted: nan, Effect: nan, N: [2]int{len(a), len(b)}, Spread: spreadWithin(a, b), family: family}
	if len(a) == 0 || len(b) == 0 {
		return d
	}
	more := 0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				more++
			case x < y:
				more--
			}
		}
	}
	d.Effect = float64(more) / float64(len(a)*len(b))
	return d
}

// estimateRatio sets the ratio from those of all pairs, and the bounds of it alone. A ratio to a
// sample whose median is 0 is not known.
func (d *Difference) estimateRatio(ratios []float64, counts rankCounts) {
	d.ratios, d.counts = ratios, counts
	d.Ratio.Value = middleOf(ratios)
	d.Alone.Value = d.Ratio.Value
	d.Alone.Low, d.Alone.High = d.boundsAt(2 * (1 - Confidence))
}

// middleOf returns the median of ratios in order, by logarithms.
func middleOf(ratios []float64) float64 {
	n := len(ratios)
	middle := math.Sqrt(ratios[(n-1)/2] * ratios[n/2])
	if math.IsInf(middle, 0) {
		return math.NaN()
	}
	return middle
}

// boundsAt returns the smallest and the largest ratio that the test does not reject at that chance.
func (d *Difference) boundsAt(chance float64) (low, high float64) {
	return kthFromEnds(d.ratios, d.counts.rankBelow(chance))
}

// spreadWithin pools the coefficients of variation of samples, NaN where none has two values.
func spreadWithin(samples ...[]float64) float64 {
	squares, free := 0.0, 0
	for _, values := range samples {
		mean := 0.0
		for _, v := range values {
			mean += v / float64(len(values))
		}
		if len(values) < 2 || mean == 0 {
			continue
		}
		for _, v := range values {
			squares += (v/mean - 1) * (v/mean - 1)
		}
		free += len(values) - 1
	}
	if free == 0 {
		return math.NaN()
	}
	return math.Sqrt(squares / float64(free))
}

// chanceLeft returns the P below which one comparison of the family is significant independently of
// the others.
func (d Difference) chanceLeft() float64 { return (1 - Confidence) / float64(max(1, d.family)) }

// adjustHolm sets the adjusted P of all comparisons of a family (Holm 1979, "A simple sequentially
// rejective multiple test procedure"), and the bounds of their ratios at the chance that its
// procedure left to each. Those of one P have the same, and all that it does not reject have that of
// the first of them.
func adjustHolm(family []*Difference) {
	family = slices.DeleteFunc(slices.Clone(family), func(d *Difference) bool { return math.IsNaN(d.P) })
	slices.SortStableFunc(family, func(a, b *Difference) int { return cmp.Compare(a.P, b.P) })
	least, chance := 0.0, 0.0
	for i, d := range family {
		if i == 0 || family[i-1].Significant() && family[i-1].P < d.P {
			chance = (1 - Confidence) / float64(len(family)-i)
		}
		least = math.Max(least, math.Min(1, d.P*float64(len(family)-i)))
		d.Adjusted = least
		d.setBounds(chance)
	}
}

// setBounds sets the bounds of the ratio. Equal values, which the test counts as half larger and
// half smaller, can make it reject less than the bounds do: then these reach to 1.
func (d *Difference) setBounds(chance float64) {
	if len(d.ratios) == 0 {
		return
	}
	d.Ratio.Low, d.Ratio.High = d.boundsAt(chance)
	if !d.Significant() {
		d.Ratio.Low, d.Ratio.High = math.Min(d.Ratio.Low, 1), math.Max(d.Ratio.High, 1)
	}
}

// Significant reports whether the difference is significant among all comparisons of its family.
func (d Difference) Significant() bool { return d.Adjusted < 1-Confidence }

// CanTell reports whether samples of this size could ever show a difference among so many
// comparisons. Samples that do not overlap show the clearest one.
func (d Difference) CanTell() bool {
	return d.N[0] > 0 && d.N[1] > 0 && leastChance(d.N[0], d.N[1]) < d.chanceLeft()
}

// leastChance returns the least possible P, that of samples which do not overlap: 2 divided by
// the number of ways to choose one sample out of both.
func leastChance(n, m int) float64 {
	ways := 1.0
	for i := range n {
		ways = ways * float64(m+i+1) / float64(i+1)
	}
	return 2 / ways
}

// leastChanceByRound returns the least possible P of so many rounds: that of rounds which all differ
// in one direction.
func leastChanceByRound(rounds int) float64 { return 2 * math.Pow(0.5, float64(rounds)) }

// LeastRounds returns how many rounds can show a change of one of so many figures, where each round
// has a pair of each figure: the least p of n pairs is 2^(1-n).
func LeastRounds(figures int) int {
	rounds := 1
	for leastChanceByRound(rounds) >= (1-Confidence)/float64(max(1, figures)) {
		rounds++
	}
	return rounds
}

// leastChanceOf returns the least possible P of the comparison's test with so many values in each
// sample.
func (d Difference) leastChanceOf(n int) float64 {
	if d.sameRounds {
		return leastChanceByRound(n)
	}
	return leastChance(n, n)
}

// Within reports whether the ratio is, in all that its bounds allow, within a part of 1.
func (d Difference) Within(part float64) bool {
	return d.Ratio.Low > 1-part && d.Ratio.High < 1+part
}

// power is the probability that the number of rounds that [Difference.Rounds] returns shows a
// difference.
const power = 0.8

// mostNeeded is more rounds than any measurement makes.
const mostNeeded = 1e6

// deviation returns the standard deviation of values, NaN if there are fewer than two.
func deviation(values []float64) float64 {
	mean, squares := 0.0, 0.0
	if len(values) < 2 {
		return math.NaN()
	}
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(values)-1))
}

// Rounds returns how many runs each sample needs to show a change by that part, in 80 of 100
// cases, among as many comparisons, if they scatter as these do. Samples of the same rounds are
// then compared by round, whose common disturbances do not count. It is the normal approximation of
// the two tests' power, whose efficiency is 3/pi of the t-test's (Lehmann 2006, section 2.4).
// 0 is not known: there are no two values to scatter, or it is more than a million.
func (d Difference) Rounds(part float64) int {
	if math.IsNaN(d.Spread) {
		return 0
	}
	least := 1
	for d.leastChanceOf(least) >= d.chanceLeft() {
		least++
	}
	units := d.Spread * (normalQuantile(1-d.chanceLeft()/2) + normalQuantile(power)) / math.Log1p(part)
	needed := math.Ceil(2 * math.Pi / 3 * units * units)
	if !(needed <= mostNeeded) {
		return 0
	}
	return max(least, int(needed))
}

func normalQuantile(q float64) float64 { return math.Sqrt2 * math.Erfinv(2*q-1) }
